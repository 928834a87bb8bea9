"""`Report`: one self-contained HTML page about audits, runs, tables and heads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from functools import reduce
from pathlib import Path

import numpy as np

from reachcost.audits.audit import Audit
from reachcost.audits.sasc import SascAudit
from reachcost.core.files import write_file
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError, refuse
from reachcost.heads.base import LearnedHead
from reachcost.planning.control import ControlRuns
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.report.drawing import SceneParts, draw_scene
from reachcost.report.material import Material, Training, loops_of
from reachcost.report.page import render
from reachcost.report.panels import context
from reachcost.report.scene import Scene
from reachcost.report.sources import read_source
from reachcost.results.tables import ResultTable
from reachcost.tasks.contract import Task

LIMIT = 5 * 10**6  # maximum number of bytes of a page

Part = Audit | ControlRuns | SascAudit | ResultTable | LearnedHead | Scene | Material | str | Path  # path of a record


class Report:
    """One self-contained page about a planner and its costs.

    Args:
        parts: Audits, closed loops, SASC audits, tables and fitted heads, or paths of their records, in any order.
        task: The world, to render its episodes and maps.
        model: The world model, for maps of costs.
        costs: Terminal costs by name, for maps, or for neighbours of goals if the world is not a plane.
        evaluation: Evaluation set whose goals are shown if no episode was run.
        logs: Encoded logs, for neighbours of goals if the world is not a plane.
        title: Title of the page.

    >>> from reachcost import LatentMSE, control, make_task
    >>> from reachcost.tasks import ExactTopoNav
    >>> task, model, costs = make_task("toponav"), ExactTopoNav(), {"raw": LatentMSE()}
    >>> runs = control(task, model, costs, task.evaluation_set().spread(2), budget=5)
    >>> Report(runs, task=task, model=model, costs=costs).html().startswith("<!doctype html>")
    True
    """

    def __init__(
        self,
        *parts: Part,
        task: Task | None = None,
        model: WorldModel | None = None,
        costs: Mapping[str, TerminalCost] | None = None,
        evaluation: EvaluationSet | None = None,
        logs: Latents | None = None,
        title: str = "reachcost report",
    ) -> None:
        self.title = title
        self.material = sum((_material(part) for part in parts), Material())
        if task is not None or costs:
            ran = [part.runs if isinstance(part, Audit) else part for part in parts]
            loops = [runs for runs in ran if isinstance(runs, ControlRuns)]
            runs = reduce(ControlRuns.merged, loops) if loops else None
            scene = draw_scene(SceneParts(task, model, costs or {}, runs, evaluation, logs))
            self.material += Material(scenes=(scene,))
        if self.material.is_empty:
            raise ReachcostError(
                "there is nothing to report: give an audit, runs, a table, a head, or paths of records"
            )

    def html(self) -> str:
        """The page. Above `LIMIT` it leaves out episodes, then frames, then tables, and lists what it left out."""
        for material in _smaller(self.material):
            text = self._page(material)
            if len(text.encode()) <= LIMIT:
                return text
        raise ReachcostError(
            f"the report has more than {LIMIT / 1e6:.0f} MB of names alone: report fewer records at once"
        )

    def save(self, path: str | Path) -> Path:
        """Write the page, and return its path."""
        write_file(Path(path), self.html())
        return Path(path)

    def _page(self, material: Material) -> str:
        scene = material.scene
        return render(
            "report/templates/report.html.j2",
            self.title,
            data={"scene": None if scene is None else asdict(replace(scene, neighbourhoods=()))},
            scripts=["report/report.js"],
            styles=["report/report.css"],
            **context(material),
        )


def _material(part: Part) -> Material:
    match part:
        case Audit():
            loops = () if part.runs is None else loops_of(part.runs)
            return Material({part.cost: part}, loops, _ranks(part))
        case ControlRuns():
            return Material(loops=loops_of(part))
        case SascAudit():
            return Material(ranks=_ranks(part))
        case ResultTable():
            return Material(tables=(part,))
        case LearnedHead():
            training = Training.of(part.record, "the record of a head")
            return Material(heads={training.labels or "head": training})
        case Scene():
            return Material(scenes=(part,))
        case Material():
            return part
        case str() | Path():
            return read_source(Path(part))
        case _:
            return refuse(
                part, "a part of the report", "give an audit, runs, a SASC audit, a table, a head, or a path of these"
            )


def _ranks(part: Audit | SascAudit) -> dict[str, np.ndarray]:
    """Rank of the truly best candidate under each cost."""
    return {name: ranking.oracle_best_rank for name, ranking in part.rankings.items()}


def _smaller(material: Material) -> Iterator[Material]:
    """The material, and then less and less of it."""
    yield material
    scene, reason = material.scene, "to keep this page below 5 MB."
    if scene is not None:
        for count in (6, 3):
            if count < len(scene.episodes):
                left_out = Material(left_out=(f"Only {count} episodes are shown, {reason}",))
                yield replace(material, scenes=(scene.first_episodes(count),)) + left_out
        bare = scene.first_episodes(2).without_frames()
        left_out = Material(left_out=(f"Only {len(bare.episodes)} episodes are shown, without frames, {reason}",))
        material = replace(material, scenes=(bare,)) + left_out
        yield material
    for count in (40, 10, 3, 0):
        if count < len(material.tables):
            left_out = Material(left_out=(f"Only {count} of {len(material.tables)} tables are shown, {reason}",))
            yield replace(material, tables=material.tables[:count]) + left_out
