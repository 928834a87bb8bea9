"""Frozen world models and the checker of their contract."""
