"""The declared studies, made small: what takes minutes there takes seconds here."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reachcost.experiments.study import HeadPlan, Study
from reachcost.experiments.tables import make_table
from reachcost.fitting import repair
from reachcost.fitting.fit import fit
from reachcost.heads.base import LearnedHead
from reachcost.heads.recipe import Recipe
from reachcost.labels.imagined import Imagination
from reachcost.labels.pairs import Pairs
from reachcost.planning.cem import CEM
from reachcost.tasks.toponav.task import TopoNav
from reachcost_paper.toponav import STUDY as TOPONAV
from reachcost_paper.tworoom import STUDY as TWOROOM

if TYPE_CHECKING:
    import pytest  # which workers of studies need not wait for

EPISODES = {"toponav": 6, "tworoom": 2}
"""Episodes of every evaluation set."""


class BriefTopoNav(TopoNav):
    """The same world with episodes of a few actions."""

    action_budget = 6


def quicker(plan: HeadPlan) -> HeadPlan:
    """The same head on fewer pairs, narrower where it has a width."""
    width = {"hidden": 16} if plan.recipe.head in ("pair", "embedding") else {}
    recipe = replace(plan.recipe, epochs=1, **width)
    brief = None
    if plan.labels in ("imagined", "auto"):  # frames alone are refused where too little is imagined from them
        alone = (plan.labels, plan.coverage) == ("auto", "frames")
        brief = replace(plan.imagination or Imagination(blocks=4), trajectories=30_000 if alone else 2000)
    return replace(
        plan,
        pairs=1000,
        validation=200,
        rows=plan.rows and 1000,
        episodes=plan.episodes and 50,
        recipe=recipe,
        imagination=brief,
    )


def once(study: Study) -> Study:
    """The same study, whose world, models and foreign sets are made once for all experiments with it."""
    models = {name: cache(load) for name, load in study.models.items()}
    sets = {name: cache(draw) for name, draw in study.foreign_sets.items()}
    return replace(study, task=cache(study.task), models=models, foreign_sets=sets)


def smaller(study: Study, episodes: int, **changes: Any) -> Study:
    """The same study on this number of logged episodes, with quicker heads and further changes."""
    heads = {name: quicker(plan) for name, plan in study.heads.items()}
    return once(replace(study, logs={**study.logs, "episodes": episodes}, heads=heads, **changes))


STUDIES = {
    "toponav": smaller(TOPONAV, 60, task=BriefTopoNav),
    "tworoom": smaller(TWOROOM, 100, planner=CEM(candidates=8, iterations=1, elites=2)),
}


def choose_labels_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trial heads that choose labels learn for two epochs."""

    def brief(pairs: Pairs, recipe: Recipe | None = None, **given: Any) -> LearnedHead:
        return fit(pairs, recipe or replace(pairs.default_recipe, epochs=2), **given)

    monkeypatch.setattr(repair, "fit", brief)


def small_table(study: str, name: str, out: Path) -> dict[str, Any]:
    """Make a table of a small study, and read it."""
    make_table(STUDIES[study], name, out, episodes=EPISODES[study])
    return json.loads((out / "tables" / f"{name}.json").read_text())


def contents(out: Path) -> dict[str, bytes]:
    """Every byte below `out`, but for the seconds it took and the lock."""
    files = {}
    for path in sorted(out.rglob("*")):
        if path.is_file() and path.name != ".lock":
            data = path.read_bytes()
            if path.name == "manifest.json":
                data = json.dumps({**json.loads(data), "elapsed_seconds": None}).encode()
            if path.parent.name == "tables" and path.suffix == ".json":
                data = json.dumps({**json.loads(data), "seconds": None}).encode()
            files[str(path.relative_to(out))] = data
    return files
