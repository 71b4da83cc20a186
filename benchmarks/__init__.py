"""The benches: on a CPU, on a CUDA device, and what both are made of."""
