"""The table `layouts-unseen`: a world model in layouts that it was not trained on, with heads fitted there."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from reachcost.errors import ReachcostError
from reachcost.experiments.cells import Cell, RunSpec
from reachcost.experiments.experiment import ORACLE, RANDOM, Experiment
from reachcost.experiments.rows import measured, together
from reachcost.experiments.runs import ControlRun
from reachcost.experiments.study import HeadPlan, Member, Setting
from reachcost.experiments.tables import TableRows
from reachcost.labels.imagined import Imagination
from reachcost.results.records import Columns, Run
from reachcost.results.tables import SIMULATOR, TableRow
from reachcost.tasks.tworoom import TwoRoom
from reachcost_paper.rows import metric_row
from reachcost_paper.tworoom.settings import REPLANNING, SET, UNSEEN_MODEL
from reachcost_paper.worlds.layouts import APART, HALVES, TESTED, TUNING, held_out_distance, training_layout

METRICS = ("success", "same", "cross")

TRM = "trm-imagined"
PLANNERS = {"": None, ", replanning": REPLANNING}
"""Suffix of the setting, and the planner; None is the paper's."""
METHODS = [(cost, suffix) for cost in (TRM, "raw", ORACLE) for suffix in PLANNERS] + [(RANDOM, "")]
"""Costs and planners, the rows of each setting."""
SEED = 3072
SETTINGS = {
    "door moved": ("door-88", "door-150"),
    "wall turned": ("horizontal-88", "horizontal-120"),
    "published": ("published",),
}
"""Settings of the table, and the layouts whose episodes count together."""
LOGS = {"episodes": 500, "seed": 7}
"""Logs of a layout; frames are sampled from them."""
TRAINED = {"seed": 1, "layouts": 4000}
"""Layouts that the world model was trained on: those of `VariedTwoRoom().generate_logs(16_000, seed=1)`."""
HEAD = HeadPlan(labels="imagined", coverage="frames", rows=500, imagination=Imagination(trajectories=800_000, blocks=1))
"""Learns from one imagined block per frame of one layout. The frames show all parts of the layout, and in a new layout
the world model errs from the second block on (chosen on the tuning layouts)."""
ALONE = {name.replace("-", " "): (name,) for names in SETTINGS.values() if len(names) > 1 for name in names}


def layout_runs(experiment: Experiment) -> list[Cell]:
    layouts = [experiment.derive(in_layout, name) for name in TESTED]
    loops = [one.cell(ControlRun(_setting(one, *method))) for one in layouts for method in METHODS]
    return [experiment.cell(SplitRun()), *loops]


def layout_rows(experiment: Experiment) -> list[TableRow]:
    """Settings, each over its layouts, then every layout separately."""
    require_apart(experiment.read(SplitRun()))
    layouts = {name: experiment.derive(in_layout, name) for name in TESTED}
    return [
        _row(layouts, setting, names, *method) for setting, names in (SETTINGS | ALONE).items() for method in METHODS
    ]


def in_layout(experiment: Experiment, name: str) -> Experiment:
    """The study in one layout, with the same records."""
    return experiment.variant(
        task=partial(TwoRoom, TESTED[name]),
        logs=LOGS,
        members={"lewm": (Member(UNSEEN_MODEL, SEED, f"layouts-{SEED}-{name}"),)},
        heads={TRM: HEAD},
        costs={},
        evaluation=SET if name == "published" else name,
    )


def _setting(layout: Experiment, cost: str, suffix: str) -> Setting:
    (member,) = layout.study.members["lewm"]
    return Setting(member, cost, planner=PLANNERS[suffix])


def _row(layouts: dict[str, Experiment], setting: str, names: tuple[str, ...], cost: str, suffix: str) -> TableRow:
    here = [layouts[name] for name in names]
    found = [measured(one, [_setting(one, cost, suffix)]) for one in here]
    values = together([{metric: one[metric] for metric in METRICS} for one in found])
    kind = SIMULATOR if cost in (ORACLE, RANDOM) else "lewm"
    return metric_row(here[0], kind, cost, None, values, None, f"{setting}{suffix}")


@dataclass(frozen=True)
class SplitRun(RunSpec):
    """The layouts for training, tuning and test; rows are layouts."""

    kind: ClassVar[str] = "layouts"

    def name(self, recording: Experiment) -> str:
        return "split"

    def config(self, recording: Experiment) -> dict[str, Any]:
        study = recording.study
        return {"study": study.name, "protocol": study.protocol, "apart": APART, "halves": HALVES, **TRAINED}

    def compute(self, recording: Experiment, directory: Path) -> Columns:
        trained = [training_layout(TRAINED["seed"], number) for number in range(TRAINED["layouts"])]
        parts = {"trained": trained, "tuning": [*TUNING.values()], "tested": [*TESTED.values()]}
        layouts = [layout for found in parts.values() for layout in found]
        return {
            "part": np.repeat([*parts], [len(found) for found in parts.values()]),
            "wall": np.array([layout.wall for layout in layouts]),
            "first_door": np.array([layout.doors[0][0] for layout in layouts]),
            "last_door": np.array([layout.doors[-1][0] for layout in layouts]),
            "half": np.array([layout.doors[0][1] for layout in layouts]),
            "to_judged": np.array([held_out_distance(layout) for layout in layouts]),
        }


def require_apart(split: Run) -> None:
    """Refuse a training layout near a tested one."""
    near = [row for row in split.table().to_pylist() if row["part"] == "trained" and row["to_judged"] <= APART]
    if near:
        raise ReachcostError(f"a layout that was trained on is near a tested one ({near[0]}): log other layouts")


ROWS = TableRows(layout_runs, layout_rows)
