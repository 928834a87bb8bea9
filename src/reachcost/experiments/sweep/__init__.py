"""Sweeps of one's own: a file of lists becomes a study with one table."""
