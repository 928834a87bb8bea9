"""Cells: the runs of a study, declared as data, and where they are computed."""
