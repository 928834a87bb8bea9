"""Measurements that only tables of the paper use."""
