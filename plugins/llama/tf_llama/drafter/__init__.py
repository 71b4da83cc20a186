"""A smaller Llama on the same tokenizer that drafts for the served one."""
