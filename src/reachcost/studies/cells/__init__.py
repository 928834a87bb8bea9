"""Studies as plans of cells: one recorded run each, computed here, in worker processes or elsewhere."""
