"""Worlds of the suite's tables: those of the suite and those of the paper's studies, with logs, model and goals."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.experiments.recording import Recording
from reachcost.experiments.rows import mean_intervals
from reachcost.experiments.study import Study
from reachcost.planning.control import Proposal
from reachcost.planning.planner import Planner
from reachcost.protocols import WorldModel
from reachcost.results.tables import TableRow
from reachcost.tasks.contract import Task
from reachcost_paper.worlds import World, suite
from reachcost_paper.worlds.suite import require_packages
from reachcost_paper.worlds.tasks import EPISODES

DECLARED = ("logs", "wandering", "planner", "cost", "recipe", "pairs")
"""Settings of a world that its records depend on."""


def settings_of(recording: Recording, world: World) -> dict[str, Any]:
    """Configuration of the runs in a world."""
    study = {"study": recording.study.name, "protocol": recording.study.protocol, "world": world.name}
    return {**study, **{name: getattr(world, name) for name in DECLARED}}


@dataclass(frozen=True)
class Place:
    """A world with its logs, model and goals, each made on first use."""

    name: str
    make_task: Callable[[], Task]
    make_logs: Callable[[Task], Logs]
    make_model: Callable[[Task, Logs], WorldModel]
    sets: Callable[[Task], Sequence[EvaluationSet]]
    """The reported set first, then further sets (or the full set) that are also excluded from training."""
    planner: Planner
    declared: Mapping[str, Any]
    """Configuration of the runs in it."""
    seed: int = 0
    """Of planner and heads."""
    make_proposal: Callable[[Task], Proposal] | None = None
    """Candidates that its protocol adds to every pool, if any."""

    @classmethod
    def of_world(cls, recording: Recording, world: World) -> Self:
        """A world of the suite."""
        return cls(
            name=world.name,
            make_task=world.task,
            make_logs=world.generate_logs,
            make_model=world.model,
            sets=lambda task: [world.evaluation(task, part) for part in ("report", "tune")],
            planner=world.planner,
            declared={**settings_of(recording, world), "part": "report"},
        )

    @classmethod
    def of_study(cls, study: Study) -> Self:
        """The world of a study, with its first world model and its evaluation set."""
        member = next(iter(study.members.values()))[0]
        planner = study.quick_planner or study.planner
        declared = {"study": study.name, "protocol": study.protocol, "logs": study.logs, "model": member.model}
        return cls(
            name=study.name,
            make_task=study.task,
            make_logs=lambda task: task.generate_logs(**study.logs),
            make_model=lambda task, logs: study.models[member.model](task, True),
            sets=lambda task: [(full := task.evaluation_set(study.evaluation)).spread(EPISODES), full],
            planner=planner,
            declared={**declared, "evaluation": study.evaluation, "episodes": EPISODES, "planner": planner},
            seed=member.seed,
            make_proposal=study.proposal,
        )

    @cached_property
    def task(self) -> Task:
        return self.make_task()

    @cached_property
    def logs(self) -> Logs:
        return self.make_logs(self.task)

    @cached_property
    def model(self) -> WorldModel:
        return self.make_model(self.task, self.logs)

    @cached_property
    def latents(self) -> Latents:
        return encode_logs(self.model, self.logs)

    @cached_property
    def excluded(self) -> list[EvaluationSet]:
        """Evaluation sets that are excluded from training."""
        return [*self.sets(self.task)]

    @property
    def goals(self) -> EvaluationSet:
        """The reported set."""
        return self.excluded[0]


def mean_row(cost: str, model: str, values: Mapping[str, np.ndarray], setting: str = "") -> TableRow:
    """The row of a cost in a world, from metrics [runs, episodes]; success is in percent."""
    ours = {metric: float(value.mean()) for metric, value in values.items()}
    return TableRow(cost, model, values["success"].size, ours, mean_intervals(values, {"success"}), None, None, setting)


def paper_studies() -> list[Study]:
    """The studies of single worlds."""
    from reachcost_paper import studies

    return [study for study in studies() if isinstance(study, Study)]


def place_of(recording: Recording, world: str) -> Place:
    """A world of the suite, or that of a study."""
    if world in suite():
        return Place.of_world(recording, suite()[world])
    return Place.of_study(next(study for study in paper_studies() if study.name == world))


def require_ready() -> None:
    """Refuse to begin if a package of any world is missing."""
    require_packages(suite().values())
    for study in paper_studies():
        study.require()
