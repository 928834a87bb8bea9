"""What a terminal cost counts."""

from __future__ import annotations

from reachcost.costs.latent import LatentMSE
from reachcost.protocols import TerminalCost

ORACLE = "oracle"


def unit_of(name: str, cost: TerminalCost | None) -> str:
    """What a cost of that name counts, as far as that is known.

    >>> unit_of("raw", LatentMSE()), unit_of("mine", None)
    ('mean squared latent difference', '')
    """
    if name == ORACLE:
        return "true distance"
    if isinstance(cost, LatentMSE):
        return "mean squared latent difference"
    records = [getattr(head, "record", {}).get("pairs", {}) for head in getattr(cost, "heads", ())]
    return "" if len(records) != 1 else "true distance" if records[0].get("labels") == ORACLE else "steps"
