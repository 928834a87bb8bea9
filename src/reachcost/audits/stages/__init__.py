"""The stages of a planner, in the order in which the verdict blames them (`audits/verdict.py`).

A stage is one file with a `NAME`, a `RULE` and a function `measure(subject) -> Stage`. To add one, write the file and
put its module into the group that it belongs to. What several stages read is a function marked with `once`.
"""

from reachcost.audits.stages import coverage, dynamics, execution, foresight, goals, ranking, representation, sampling

TASK = (goals, sampling)
"""Can the search reach the goals if it knows everything? If not, no other stage is to blame."""
COST = (representation, coverage, ranking)
"""Does the cost order true ends well? The first two stages are causes of a bad order."""
MODEL = (dynamics,)
"""Does the world model predict true ends?"""
OUTCOME = (foresight, execution)
"""Does the planner succeed, with true ends and with predicted ones? These stages are evidence and never blamed."""
STAGES = {stage.NAME: stage for stage in (*TASK, *COST, *MODEL, *OUTCOME)}
RULES = {
    **{name: stage.RULE for name, stage in STAGES.items()},
    ranking.FROM_LOGS: ranking.LOGS_RULE,
    coverage.FROM_PLACES: coverage.PLACES_RULE,
}
"""The rule behind each threshold. Two stages have a second rule for audits without a simulator or oracle distance."""
