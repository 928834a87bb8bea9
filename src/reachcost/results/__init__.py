"""Records of runs, statistics, tables and pictures."""
