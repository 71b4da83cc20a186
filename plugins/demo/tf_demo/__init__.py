"""The embedded default: a small real target and its drafter, ready without a model hub."""
