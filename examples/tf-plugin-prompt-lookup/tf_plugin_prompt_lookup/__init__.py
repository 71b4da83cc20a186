"""Drafts looked up in the prompt."""
