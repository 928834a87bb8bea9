"""The declared studies, made small: what takes minutes there takes seconds here. As a script, it is what gets killed."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from reachcost.studies.study import HeadPlan, Study
from reachcost.studies.tables import make_table
from reachcost.studies.toponav import STUDY as TOPONAV
from reachcost.studies.tworoom import STUDY as TWOROOM

EPISODES = {"toponav": 6, "tworoom": 2}
"""Episodes of every evaluation set."""


def quicker(plan: HeadPlan) -> HeadPlan:
    """The same head on fewer pairs, narrower where it has a width."""
    width = {"hidden": 16} if plan.recipe.head in ("pair", "embedding") else {}
    recipe = replace(plan.recipe, epochs=1, **width)
    return replace(plan, pairs=1000, validation=200, rows=plan.rows and 4000, recipe=recipe)


def smaller(study: Study, episodes: int) -> Study:
    """The same study on so many logged episodes, with quicker heads."""
    return study.smaller({name: quicker(plan) for name, plan in study.heads.items()}, episodes=episodes)


STUDIES = {"toponav": smaller(TOPONAV, 60), "tworoom": smaller(TWOROOM, 300)}


def small_table(study: str, name: str, out: Path) -> dict[str, Any]:
    """Make a table of a small study, and read it."""
    make_table(STUDIES[study], name, out, episodes=EPISODES[study])
    return json.loads((out / "tables" / f"{name}.json").read_text())


if __name__ == "__main__":
    small_table("toponav", "toponav", Path(sys.argv[1]))
