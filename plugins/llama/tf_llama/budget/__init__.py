"""One budget for everything that grows: the ledger, admission in order, and sizing at start-up."""
