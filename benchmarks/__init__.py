"""Quality that takes minutes to measure; records in results/benchmarks. Speed is what `reachcost bench` measures."""
