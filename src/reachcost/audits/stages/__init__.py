"""The stages of a planner in causal order, one file each: a stage can only work if those before it do.

A stage is a module with a `RULE` and a function `measure(subject) -> Stage`.
"""

from reachcost.audits.stages import coverage, dynamics, execution, ranking, representation, sampling

STAGES = {
    "representation": representation,
    "dynamics": dynamics,
    "coverage": coverage,
    "sampling": sampling,
    "ranking": ranking,
    "execution": execution,
}
