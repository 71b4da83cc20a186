"""Rows on CUDA: kernels that read the weights once for up to 16 rows, and give a row the same bits however many."""
