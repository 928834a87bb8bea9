"""Every comparison, in the order of the record, and the choice among them."""

from __future__ import annotations

from collections.abc import Sequence

from reachcost.errors import ReachcostError
from reachcost_tools.bench.audits import audit_entries
from reachcost_tools.bench.encoding import encoding_entries
from reachcost_tools.bench.entry import Against, Entry
from reachcost_tools.bench.fitting import fitting_entries
from reachcost_tools.bench.inside import inside_entries
from reachcost_tools.bench.plans import plan_entries
from reachcost_tools.bench.training import training_entries
from reachcost_tools.bench.worlds import world_entries


def all_entries() -> list[Entry]:
    """All of them, whatever they need; a new comparison is listed here."""
    return [
        *plan_entries(),
        *inside_entries(),
        *audit_entries(),
        *fitting_entries(),
        *encoding_entries(),
        *world_entries(),
        *training_entries(),
    ]


def chosen(entries: Sequence[Entry], only: Sequence[str], against: Against | None) -> list[Entry]:
    """Those whose names begin with one of `only`, by default all that need no other extra.

    Args:
        entries: What there is.
        only: Names, or how they begin: `plan` is all plans.
        against: The extra whose peers are there.
    """
    known = [entry.name for entry in entries]
    for wanted in only:
        if not any(name.startswith(wanted) for name in known):
            raise ReachcostError(
                f"there is no comparison {wanted!r}: choose one of {'; '.join(known)}, or how some of them begin"
            )
    named = [entry for entry in entries if not only or entry.name.startswith(tuple(only))]
    found = [entry for entry in named if entry.against in (None, against)]
    if not found:
        raise ReachcostError(f"{named[0].name} is measured against stable-worldmodel: add --against {named[0].against}")
    return found
