"""Rows forward: weights, the forms of each operation by device, caches, and the forward over them."""
