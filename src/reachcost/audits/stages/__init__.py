"""The stages of a planner, in the order in which the verdict blames them (`audits/verdict.py`).

A stage is a rule and a function that measures it, `(subject) -> Stage`. What several stages read is a function marked
with `once`.
"""

from collections.abc import Callable

from reachcost.audits.stage import Rule, Stage
from reachcost.audits.stages import coverage, dynamics, ranking, representation, success
from reachcost.audits.subject import Subject

STAGES: dict[str, Callable[[Subject], Stage]] = {
    "goals": success.goals,
    "sampling": success.sampling,
    "representation": representation.measure,
    "coverage": coverage.measure,
    "ranking": ranking.measure,
    "dynamics": dynamics.measure,
    "foresight": success.foresight,
    "execution": success.execution,
}
"""The function that measures each stage."""
TASK = ("goals", "sampling")
"""Can the search reach the goals if it knows everything? If not, no other stage is to blame."""
COST = ("representation", "coverage", "ranking")
"""Does the cost order true ends well? The first two stages are causes of a bad order."""
MODEL = ("dynamics",)
"""Does the world model predict true ends? The other stages, foresight and execution, are evidence and never blamed."""
RULES: dict[str, Rule] = {
    "goals": success.GOALS,
    "sampling": success.SAMPLING,
    "representation": representation.RULE,
    "coverage": coverage.RULE,
    "ranking": ranking.RULE,
    "dynamics": dynamics.RULE,
    "foresight": success.FORESIGHT,
    "execution": success.EXECUTION,
    "ranking-logs": ranking.LOGS_RULE,
    "coverage-places": coverage.PLACES_RULE,
}
"""The rule of each threshold. Two stages have a second rule for audits without a simulator or an oracle distance."""
