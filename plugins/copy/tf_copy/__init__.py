"""Drafts copied from a stream's own earlier tokens: a small proposer without weights, and an example to read."""
