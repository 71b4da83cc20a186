"""Measurements in the server's own process: a round by its parts, whole replies at fixed depths."""
