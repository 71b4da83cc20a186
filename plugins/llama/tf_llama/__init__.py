"""The Llama family: what it serves, its exact rows, its caches. Drafter and budget are plugins of their own."""
