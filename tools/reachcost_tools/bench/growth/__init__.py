"""How cost grows with the size of the work: what `reachcost bench --growth` measures, of ours alone.

`curve` says what a curve is, `point` measures one size in a process of its own, `record` keeps and judges them.
`plans` and `learning` hold the curves; `registry` lists them.
"""
