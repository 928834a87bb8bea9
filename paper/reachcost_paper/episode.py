"""One episode of a setting, state by state, for pictures."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from reachcost.experiments.experiment import Experiment, SettingRun
from reachcost.experiments.runs import closed_loop, loop_config
from reachcost.experiments.study import Setting
from reachcost.planning.control import budget_of
from reachcost.results.records import Columns, require_rows


@dataclass(frozen=True)
class EpisodeRun(SettingRun):
    """One episode of an evaluation set, run again; rows are the visited states, with a column per coordinate."""

    kind: ClassVar[str] = "episodes"
    episode: int

    def name(self, recording: Experiment) -> str:
        return f"{super().name(recording)}-episode{self.episode}"

    def config(self, recording: Experiment) -> dict[str, Any]:
        return {**loop_config(recording, self.setting), "episode": self.episode}

    def compute(self, recording: Experiment, directory: Path) -> Columns:
        goals = recording.evaluation(self.setting.evaluation)
        runs = closed_loop(recording, self.setting, goals.subset(np.flatnonzero(goals.episodes == self.episode)))
        path = runs.paths[0, 0].reshape(runs.paths.shape[2], -1)
        return {"step": np.arange(len(path)), **{f"state_{i}": path[:, i] for i in range(path.shape[1])}}


def visited(experiment: Experiment, setting: Setting, episode: int) -> np.ndarray:
    """The states of an episode, from its recorded rows [steps + 1, coordinates]."""
    task, goals = experiment.place(setting.evaluation)
    columns = tuple(f"state_{i}" for i in range(int(np.prod(goals.starts.shape[1:]))))
    keys = {"step": range(budget_of(task, goals, setting.budget) + 1)}
    read = require_rows(experiment.read(EpisodeRun(setting, episode)), keys, columns)
    return np.stack([read[name] for name in columns], axis=1)
