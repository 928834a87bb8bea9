"""Benchmarks: speed compared with a peer, growth of time and memory, and quality.

`reachcost bench` compares speed, in one process and run, and measures growth.
`comparison` times one comparison, `record` all of them; `planning`, `learning` and `worlds` declare them.
`growth` measures time and memory of reachcost alone, at several sizes of the work.
`cells`, `pusht_models`, `pusht_parity` and `training` are commands for `python -m`.
"""
