"""Speed beside a peer, in the same process and run: what `reachcost bench` measures, and the record it writes.

`entry` says what a comparison is, `measure` times one, `record` keeps and judges them. The comparisons themselves have
a file for each idea; `registry` lists them. `peers` holds the other side of those with stable-worldmodel.
`growth` measures ours alone, at several sizes.
"""
