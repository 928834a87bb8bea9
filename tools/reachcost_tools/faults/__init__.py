"""Faults that are tried on purpose, counted by `make faults`."""
