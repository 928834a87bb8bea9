"""Comparisons of `reachcost bench` with the real package, in small: both sides do the same work."""

from collections.abc import Callable
from functools import partial

import pytest

from reachcost.core.progress import Progress
from reachcost.planning.cem import CEM
from reachcost.tasks.registry import make_task
from reachcost.worldmodels.public import PublicArchitecture
from reachcost_tools.bench.comparison import Entry, Sides, measure
from reachcost_tools.bench.learning import against_public_sigreg, encoding_against_transformers
from reachcost_tools.bench.models import official
from reachcost_tools.bench.planning import against_compact, against_lewm, repaired_against_plain
from reachcost_tools.bench.worlds import frames, transitions

SMALL = PublicArchitecture(image_size=56, encoder_depth=2, depth=2, history=1)
LONGER = PublicArchitecture(image_size=56, encoder_depth=2, depth=2, history=3)
PLANNER = CEM(candidates=40, elites=5, iterations=3)


@pytest.mark.parametrize(
    "prepare",
    [
        partial(against_lewm, partial(official, SMALL), PLANNER),
        partial(against_lewm, partial(official, SMALL), PLANNER, episodes=3),
        partial(against_lewm, partial(official, LONGER), PLANNER),
        partial(against_compact, PLANNER, episodes=2),
        partial(repaired_against_plain, "LeWM", SMALL, PLANNER),
        partial(repaired_against_plain, "PLDM", SMALL, PLANNER),
        partial(encoding_against_transformers, SMALL, count=3),
        partial(against_public_sigreg, batch=8),
        *(partial(part, make_task(name), 3, 2) for part in (transitions, frames) for name in ("tworoom", "pusht")),
    ],
)
def test_both_sides_run_and_agree_where_they_must(prepare: Callable[[], Sides]) -> None:
    assert measure(Entry("small", "", prepare, "unit"), 1, Progress())["ratio"] > 0
