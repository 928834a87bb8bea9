"""Studies: the runs behind tables, declared as data."""
