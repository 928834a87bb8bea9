"""The stages of a planner, one file each: a module with a `NAME`, a `RULE` and a function `measure(subject) -> Stage`.

They stand in the order in which they are blamed: goals that cannot be reached, and a search that misses them knowing
everything, excuse all the others; candidates that are ordered badly although their true ends are known excuse the
dynamics, and have their cause in the latent, in what was logged, or in the cost itself. Where none of them fails but
episodes do, foresight tells the cost from the dynamics.
"""

from reachcost.audits.stages import coverage, dynamics, execution, foresight, goals, ranking, representation, sampling

STAGES = {
    stage.NAME: stage for stage in (goals, sampling, representation, coverage, ranking, dynamics, foresight, execution)
}
