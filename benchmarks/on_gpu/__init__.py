"""The bench on a CUDA device: its stages, their results and their tables."""
