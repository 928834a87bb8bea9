"""The table `layouts-unseen`: a world model of many layouts, and heads that it imagines, where neither has been."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from reachcost.base.seeding import generator
from reachcost.data.latents import encode_logs
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.fitting.imagined import Imagination, ImaginedPairs
from reachcost.fitting.pairs import Pairs
from reachcost.fitting.recipe import Recipe
from reachcost.results.records import Columns
from reachcost.results.tables import TableRow
from reachcost.studies.experiment import ORACLE, RANDOM, Experiment
from reachcost.studies.lines import Values, measured, metric_row, together
from reachcost.studies.study import HeadPlan, Member, Setting
from reachcost.studies.tworoom.settings import SET, UNSEEN_MODEL
from reachcost.tasks.tworoom import TwoRoom
from reachcost.tasks.tworoom.split import APART, TESTED, TUNING, judged_distance, training_layout

METRICS = ("success", "same", "cross")
COSTS = ("trm", "raw", ORACLE, RANDOM)
SEED = 3072
SETTINGS = {
    "door moved": ("door-88", "door-150"),
    "wall turned": ("horizontal-88", "horizontal-120"),
    "published": ("published",),
}
"""Lines of the table, and the layouts whose episodes count together."""
FRAMES = {"episodes": 500, "seed": 7}
"""Logs of a layout that one frame of each episode is taken of: 500 frames without order or time."""
TRAINED = {"seed": 1, "layouts": 500}
"""Layouts that the world model was trained on: those of `VariedTwoRoom().generate_logs(5_000, seed=1)`."""
NOTE = (
    f"A LeWM (`{UNSEEN_MODEL}`) that was trained on logs of 500 other layouts (either wall, one door or two, none "
    "within 8 px of a tested one of the same wall), frozen, in layouts that it never saw: the door moved to 88 and "
    "150 px, the wall turned with its door at 88 and 120 px, and the published layout. Episodes are drawn by the rule "
    "of the high-distance set in each. The head of a layout (`trm`) learns from what the model imagines from 500 "
    "frames of it, without times or order. The run `tworoom/layouts/split` lists all layouts: trained on, tuned on, "
    "tested."
)


@dataclass(frozen=True)
class ImaginedHead(HeadPlan):
    """A head on what the world model imagines from frames of one layout."""

    exclude: bool = False
    """Nothing is logged, so nothing is to be kept out."""
    imagination: Imagination = field(default_factory=lambda: Imagination(trajectories=20_000))
    """How much is imagined."""
    places: int = 1500
    """Places that it is stitched over."""
    keep: int = 20_000
    """Imagined latents that pairs are of."""


class InOneLayout(Experiment):
    """The runs in one layout, whose heads learn from what the world model imagines from a few frames of it."""

    def pairs(self, member: Member, plan: HeadPlan, seed: int, evaluation: str | None = None) -> Pairs:
        """Imagine from frames of the layout."""
        assert isinstance(plan, ImaginedHead)
        model = self.model(member.model)
        return ImaginedPairs(
            model,
            encode_logs(model, frames_of(self.logs), progress=self.progress),
            plan.pairs,
            plan.validation,
            plan.imagination,
            plan.places,
            keep=plan.keep,
            holdout=plan.holdout,
            seed=seed,
            progress=self.progress,
        )


def frames_of(logs: Logs) -> Logs:
    """One frame of each episode, without its time: episodes of one row each."""
    rows = logs.offsets + generator(0, "frames").integers(0, logs.lengths)
    return Logs({"state": logs.columns["state"][rows]}, np.ones(len(rows), np.int64), logs.observe)


HEAD = ImaginedHead(Recipe(expectile=0.5), pairs=50_000, validation=5_000)
"""The usual recipe of shortest ways."""


def unseen_rows(experiment: Experiment) -> list[TableRow]:
    """Settings, each over its layouts; then every layout by itself."""
    require_split(experiment)
    layouts = {name: in_layout(experiment, name) for name in TESTED}
    alone = {name.replace("-", " "): (name,) for names in SETTINGS.values() if len(names) > 1 for name in names}
    return [_row(layouts, setting, names, cost) for setting, names in (SETTINGS | alone).items() for cost in COSTS]


def in_layout(experiment: Experiment, name: str) -> Experiment:
    """The engine for one layout, among the same records."""
    member = Member(UNSEEN_MODEL, SEED, f"layouts-{SEED}-{name}")
    study = replace(
        experiment.study,
        task=partial(TwoRoom, TESTED[name]),
        logs=FRAMES,
        members={"lewm": (member,)},
        heads={"trm": HEAD},
        costs={},
        evaluation=SET if name == "published" else name,
    )
    return experiment.within(study, InOneLayout)


def _row(layouts: dict[str, Experiment], setting: str, names: tuple[str, ...], cost: str) -> TableRow:
    here = [layouts[name] for name in names]
    values = together([_values(one, cost) for one in here])
    kind = "simulator" if cost in (ORACLE, RANDOM) else "lewm"
    return metric_row(here[0], kind, cost, None, values, None, setting)


def _values(one: Experiment, cost: str) -> Values:
    (member,) = one.study.members["lewm"]
    found = measured(one, [Setting(member, cost)])
    return {metric: found[metric] for metric in METRICS}


def require_split(experiment: Experiment) -> None:
    """Record which layouts were trained on, tuned on and tested, and refuse a trained one near any other."""

    def compute(_: Path) -> Columns:
        trained = [training_layout(TRAINED["seed"], number) for number in range(TRAINED["layouts"])]
        parts = {"trained": trained, "tuning": [*TUNING.values()], "tested": [*TESTED.values()]}
        layouts = [(part, layout) for part, found in parts.items() for layout in found]
        return {
            "part": np.array([part for part, _ in layouts]),
            "wall": np.array([layout.wall for _, layout in layouts]),
            "first_door": np.array([layout.doors[0][0] for _, layout in layouts]),
            "last_door": np.array([layout.doors[-1][0] for _, layout in layouts]),
            "to_judged": np.array([judged_distance(layout) for _, layout in layouts]),
        }

    config = {"study": experiment.study.name, "protocol": experiment.study.protocol, "apart": APART, **TRAINED}
    split = experiment.run("layouts", "split", config, compute).table().to_pylist()
    near = [row for row in split if row["part"] == "trained" and row["to_judged"] <= APART]
    if near:
        raise ReachcostError(f"a layout that was trained on is near a judged one ({near[0]}): log other layouts")
