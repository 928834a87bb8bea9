"""Speed beside a peer, in the same run; records in results/benchmarks."""
