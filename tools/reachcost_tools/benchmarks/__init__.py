"""Quality, and whole tables, that take minutes to measure; records in results/benchmarks. Speed: `reachcost bench`."""
