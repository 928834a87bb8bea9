"""Speed next to a peer, in the same process and run: what `reachcost bench` measures, and the record it writes.

`comparison` times one comparison, `record` lists, keeps and judges them; `planning`, `learning` and `worlds` hold them.
`growth` measures time and memory of reachcost alone, at several sizes of the work in `growth_work`.
"""
