"""Kept prompt states: what a later prompt does not have to read again."""

from tf_host.prompts.store import Entry, PromptStore

__all__ = ["Entry", "PromptStore"]
