"""The table `layouts-unseen`: a world model in layouts that it was not trained in, with heads fitted there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from reachcost.errors import ReachcostError
from reachcost.experiments.cells import Cell, RunSpec
from reachcost.experiments.experiment import ORACLE, RANDOM, Experiment
from reachcost.experiments.rows import measured, metric_row, together
from reachcost.experiments.runs import ControlRun
from reachcost.experiments.study import HeadPlan, Member, Setting
from reachcost.labels.imagined import Imagination
from reachcost.results.records import Columns, Run
from reachcost.results.tables import SIMULATOR, TableRow
from reachcost.tasks.tworoom import TwoRoom
from reachcost.tasks.tworoom.varied import APART, HALVES, TESTED, TUNING, held_out_distance, training_layout
from reachcost_paper.tworoom.settings import REPLANNING, SET, UNSEEN_MODEL

METRICS = ("success", "same", "cross")

TRM = "trm-imagined"
PLANNERS = {"": None, ", replanning": REPLANNING}
"""What lines say of the planner, and which one it is; the first is the paper's."""
WAYS = [(cost, said) for cost in (TRM, "raw", ORACLE) for said in PLANNERS] + [(RANDOM, "")]
"""Costs and planners, the lines of each setting."""
SEED = 3072
SETTINGS = {
    "door moved": ("door-88", "door-150"),
    "wall turned": ("horizontal-88", "horizontal-120"),
    "published": ("published",),
}
"""Lines of the table, and the layouts whose episodes count together."""
LOGS = {"episodes": 500, "seed": 7}
"""Logs of a layout that frames are taken of."""
TRAINED = {"seed": 1, "layouts": 4000}
"""Layouts that the world model was trained on: those of `VariedTwoRoom().generate_logs(16_000, seed=1)`."""
NOTE = (
    f"A LeWM (`{UNSEEN_MODEL}`) that was trained on logs of 4,000 other layouts (either wall, one door or two of 20 to "
    "40 px, no centre within 8 px of a tested one's in such a wall), frozen, in layouts that it never saw: the door "
    "moved to 88 and 150 px, the wall turned with its door at 88 and 120 px, and the published one. Episodes are drawn "
    "by the rule of the high-distance set in each. The head of a layout (`trm-imagined`) learns from what the model "
    "imagines from 500 frames of it, one block from each, without times or order. Replanning: `CEM.replanning()` looks "
    "after each block, the paper's planner after five. These layouts had been published before, with two earlier "
    "versions of world model and labels and, but for the horizontal door at 120 px, in the table `layout`. The run "
    "`tworoom/layouts/split` lists all layouts: trained on, tuned on, tested."
)


HEAD = HeadPlan(labels="imagined", coverage="frames", rows=500, imagination=Imagination(trajectories=800_000, blocks=1))
"""Learns from what the world model imagines from frames of one layout, one block from each: the frames are of all parts
of it, and what such a model imagines of a layout that it never saw errs from the second block on (seen, and chosen, on
the layouts to tune on)."""


ALONE = {name.replace("-", " "): (name,) for names in SETTINGS.values() if len(names) > 1 for name in names}


def unseen_runs(experiment: Experiment) -> list[Cell]:
    """The split, and every cost and planner in every layout."""
    layouts = [experiment.derive(in_layout, name) for name in TESTED]
    loops = [one.cell(ControlRun(_setting(one, *way))) for one in layouts for way in WAYS]
    return [experiment.cell(SplitRun()), *loops]


def unseen_rows(experiment: Experiment) -> list[TableRow]:
    """Settings, each over its layouts; then every layout by itself."""
    split = experiment.read(SplitRun())
    layouts = {name: experiment.derive(in_layout, name) for name in TESTED}
    rows = [_row(layouts, setting, names, *way) for setting, names in (SETTINGS | ALONE).items() for way in WAYS]
    require_apart(split)
    return rows


def in_layout(experiment: Experiment, name: str) -> Experiment:
    """The engine for one layout, among the same records."""
    member = Member(UNSEEN_MODEL, SEED, f"layouts-{SEED}-{name}")
    study = replace(
        experiment.study,
        task=partial(TwoRoom, TESTED[name]),
        logs=LOGS,
        members={"lewm": (member,)},
        heads={TRM: HEAD},
        costs={},
        evaluation=SET if name == "published" else name,
    )
    return experiment.within(study)


def _setting(layout: Experiment, cost: str, said: str) -> Setting:
    (member,) = layout.study.members["lewm"]
    return Setting(member, cost, planner=PLANNERS[said])


def _row(layouts: dict[str, Experiment], setting: str, names: tuple[str, ...], cost: str, said: str) -> TableRow:
    here = [layouts[name] for name in names]
    found = [measured(one, [_setting(one, cost, said)]) for one in here]
    values = together([{metric: one[metric] for metric in METRICS} for one in found])
    kind = SIMULATOR if cost in (ORACLE, RANDOM) else "lewm"
    return metric_row(here[0], kind, cost, None, values, None, f"{setting}{said}")


@dataclass(frozen=True)
class SplitRun(RunSpec):
    """Which layouts were trained on, tuned on and tested; rows are layouts."""

    kind: ClassVar[str] = "layouts"

    def name(self, recording: Experiment) -> str:
        """There is one."""
        return "split"

    def config(self, recording: Experiment) -> dict[str, Any]:
        """What the layouts are drawn by."""
        study = recording.study
        return {"study": study.name, "protocol": study.protocol, "apart": APART, "halves": HALVES, **TRAINED}

    def compute(self, recording: Experiment, directory: Path) -> Columns:
        """List them."""
        trained = [training_layout(TRAINED["seed"], number) for number in range(TRAINED["layouts"])]
        parts = {"trained": trained, "tuning": [*TUNING.values()], "tested": [*TESTED.values()]}
        layouts = [(part, layout) for part, found in parts.items() for layout in found]
        return {
            "part": np.array([part for part, _ in layouts]),
            "wall": np.array([layout.wall for _, layout in layouts]),
            "first_door": np.array([layout.doors[0][0] for _, layout in layouts]),
            "last_door": np.array([layout.doors[-1][0] for _, layout in layouts]),
            "half": np.array([layout.doors[0][1] for _, layout in layouts]),
            "to_judged": np.array([held_out_distance(layout) for _, layout in layouts]),
        }


def require_apart(split: Run) -> None:
    """Refuse a layout that was trained on and is near a judged one."""
    near = [row for row in split.table().to_pylist() if row["part"] == "trained" and row["to_judged"] <= APART]
    if near:
        raise ReachcostError(f"a layout that was trained on is near a judged one ({near[0]}): log other layouts")
