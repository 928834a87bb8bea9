"""Simulation and rendering of each world against the original in stable-worldmodel, on logged states."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from reachcost.swm.evaluation import import_stable_worldmodel, public_environment, silence
from reachcost.tasks.contract import PublicEnvironment, Task
from reachcost.tasks.registry import TASKS, make_task
from reachcost_tools.bench.comparison import Entry, Side, Sides

LOGGED, PLAYED, DRAWN = 200, 20, 300
"""Logged episodes, episodes that the original plays, and frames that both render."""
TARGETS = {"tworoom transitions": 500.0, "tworoom frames": 10.0, "pusht transitions": 8.0, "pusht frames": 10.0}
"""Target speedups by the name of the comparison."""


def world_entries() -> list[Entry]:
    """Transitions and frames of every world with an original."""
    entries = []
    for task in (make_task(name) for name in TASKS):
        if task.public is None:
            continue
        for part, unit, sides in (("transitions", "transition", transitions), ("frames", "frame", frames)):
            says = f"{task.name} here, in one batch, against {task.public.name}, one {unit} at a time"
            prepare = partial(sides, task)
            name = f"{task.name} {part}"
            entries.append(Entry(name, says, prepare, unit, TARGETS.get(name), 5, "swm"))
    return entries


def transitions(task: Task, logged: int = LOGGED, played: int = PLAYED) -> Sides:
    """Logged actions from logged states, so that both simulate the same contacts."""
    logs, env = task.generate_logs(logged), _original(task)
    rows = logs.window_starts(2)
    states, actions = (np.asarray(logs.columns[name])[rows] for name in ("state", "action"))
    episodes = [logs.episode(number) for number in range(played)]
    steps = sum(len(episode["action"]) for episode in episodes)
    theirs = partial(_play, env, public_environment(task), episodes)
    return Sides(Side(lambda: task.step(states, actions), len(rows)), Side(theirs, steps))


def frames(task: Task, logged: int = LOGGED, drawn: int = DRAWN) -> Sides:
    """Frames of the size of the original."""
    states, env = np.asarray(task.generate_logs(logged).columns["state"])[:drawn], _original(task)
    return Sides(Side(lambda: task.render(states), drawn), Side(lambda: [env.render() for _ in range(drawn)], drawn))


def _original(task: Task) -> Any:
    import_stable_worldmodel()
    with silence():
        env = gymnasium.make(public_environment(task).name).unwrapped
        env.reset(seed=0)
    return env


def _play(env: Any, public: PublicEnvironment, episodes: Sequence[Mapping[str, np.ndarray]]) -> None:
    """Execute the actions of logged episodes, each from its first state."""
    with silence():
        for episode in episodes:
            for put in public.callables:
                names = {name: given["value"] for name, given in put["args"].items()}
                if all(column in episode for column in names.values()):
                    getattr(env, put["method"])(**{name: episode[column][0] for name, column in names.items()})
            for action in episode["action"]:
                env.step(action)
