"""Speed compared with a peer, in one process and run: the measurements of `reachcost bench` and their record.

`comparison` times one comparison, `record` writes all of them; `planning`, `learning` and `worlds` declare them.
`growth` measures time and memory of reachcost alone, at several sizes of the work in `growth_work`.
"""
