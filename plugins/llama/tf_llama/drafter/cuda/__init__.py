"""Whole chains of drafts in one launch, on CUDA devices that can."""
