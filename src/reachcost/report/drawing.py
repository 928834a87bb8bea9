"""Draws scenes from a simulator, a world model and costs: episodes to replay, maps of costs, neighbours of goals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
import torch

from reachcost.audits.audit import Audit
from reachcost.costs.checks import score
from reachcost.costs.latent import ORACLE, RAW, LatentMSE, unit_of
from reachcost.costs.maps import CostMap
from reachcost.costs.oracle import NO_PATH, OracleGeodesic, exact_model
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError, reason_of
from reachcost.fitting.logged_audit import logged_pools
from reachcost.planning.control import ControlRuns, control
from reachcost.planning.planner import SamplingPlanner
from reachcost.protocols import Observations, TerminalCost, WorldModel
from reachcost.report.scene import Episode, Field, Map, Neighbourhood, Neighbours, Replay, Scene, Strip
from reachcost.tasks.contract import LOST, Task

EPISODES, FRAMES = 12, 48  # maximum number of episodes of a scene, and of frames of a path
CELLS, GOALS = 80, 4  # maximum number of cells along a side of a map, and of goals of maps without episodes
NEIGHBOUR_GOALS, NEAREST = 3, 6  # goals with neighbours, and neighbours of a goal
CANDIDATES, LOGGED_EPISODES = 200, 400  # states that neighbours are chosen from, and logged episodes of these states
NEIGHBOUR_SIDE = 96  # pixels of the longer side of a neighbour's frame


@dataclass(frozen=True)
class SceneParts:
    """Parts that a scene is made of. Every part is optional."""

    task: Task | None = None
    model: WorldModel | None = None  # world model, for maps
    costs: Mapping[str, TerminalCost] = field(default_factory=dict)  # terminal costs by name, for maps and neighbours
    runs: ControlRuns | None = None  # closed loops to replay
    evaluation: EvaluationSet | None = None  # goals of the maps, if there are no closed loops
    logs: Latents | None = None  # encoded logs, for neighbours of goals if the world is not a plane


def draw_scene(parts: SceneParts) -> Scene:
    """Draw what these parts allow, and keep the reason for everything else."""
    task, recorded = parts.task, () if parts.runs is None else parts.runs.costs
    possible = tuple(dict.fromkeys([*recorded, *parts.costs, ORACLE]))
    scene = Scene("", possible) if task is None else Scene(task.name, possible, distance_unit=task.distance_unit)
    for panel, add in {"replay": _add_replays, "fields": _add_maps, "neighbours": _add_neighbours}.items():
        try:
            scene = add(scene, parts)
        except Exception as error:  # the task is user code, and the rest of the report is still of use
            reason = reason_of(error)
            scene = replace(scene, without={**scene.without, panel: f"{reason[:1].upper()}{reason[1:]}."})
    mapped = scene.episodes[0].fields if scene.episodes else {}
    names = tuple(dict.fromkeys([*recorded, *parts.costs, *mapped]))
    return replace(scene, costs=names, units={name: unit_of(name, parts.costs.get(name), task) for name in names})


def draw_audit(
    audit: Audit,
    model: WorldModel,
    latents: Latents,
    cost: TerminalCost,
    task: Task | None,
    evaluation: EvaluationSet | None,
    planner: SamplingPlanner,
) -> Scene:
    """Draw the episodes of an audit next to latent distance. The arguments are those of `audit_planner`."""
    runs = audit.runs
    costs: dict[str, TerminalCost] = {RAW: LatentMSE(), audit.cost: cost}
    if runs is not None and task is not None and evaluation is not None and RAW not in runs.costs:
        rows = choose_episodes(runs, groups_of(task, evaluation.starts, evaluation.goals))
        some = evaluation.subset(np.sort(rows))
        runs = control(task, model, {RAW: LatentMSE()}, some, planner).merged(runs)
    scene = draw_scene(SceneParts(task, model, costs, runs, evaluation, latents))
    return scene if runs is None else replace(scene, of=audit.settings["episodes"])


# Episodes


class Outcomes(NamedTuple):
    """What decides which of E episodes under C costs are shown."""

    success: np.ndarray  # whether the goal was reached, bool [C, E]
    steps: np.ndarray  # number of actions, int [C, E]
    category: np.ndarray  # how the episode ended, str [C, E]


def groups_of(task: Task, starts: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Group of each episode, empty if the task names none: str [E]."""
    found = np.full(len(goals), "", object)
    for name, members in task.groups(starts, goals).items():
        found[members] = name
    return found.astype(str)


def choose_episodes(outcomes: Outcomes | ControlRuns, groups: np.ndarray, count: int = EPISODES) -> np.ndarray:
    """Rows of at most `count` episodes to show, of as many kinds as possible.

    A kind is a group and the outcome under the first cost. Kinds that only the second cost solves come first, then
    kinds with longer paths.

    >>> outcomes = Outcomes(np.array([[True, False], [True, True]]), np.array([[3, 9], [3, 5]]), np.full((2, 2), "a"))
    >>> choose_episodes(outcomes, np.array(["", ""])).tolist()
    [1, 0]
    """
    second = min(1, len(outcomes.success) - 1)
    repaired = ~outcomes.success[0] & outcomes.success[second]
    kinds: dict[tuple[bool, str, str], list[int]] = {}
    for row, (other, group, category) in enumerate(zip(~repaired, groups, outcomes.category[0], strict=True)):
        kinds.setdefault((bool(other), str(group), str(category)), []).append(row)
    ordered = sorted(kinds, key=lambda kind: (kind[0], -outcomes.steps[second, kinds[kind]].mean(), kind))
    turns = zip_longest(*(kinds[kind] for kind in ordered))
    return np.array([row for turn in turns for row in turn if row is not None][:count])


def _add_replays(scene: Scene, parts: SceneParts) -> Scene:
    task, runs = parts.task, parts.runs
    if task is None:
        raise ReachcostError("there is no simulator to run episodes: name a task with --task, without --logs-only")
    if runs is None:
        raise ReachcostError("no episode was run here: run some with reachcost audit --task")
    groups = groups_of(task, runs.paths[0, :, 0], runs.goals)
    shown = [_episode(task, runs, int(row), str(groups[row])) for row in choose_episodes(runs, groups)]
    if not any(path.places or path.frames for one in shown for path in one.replays):
        raise ReachcostError(f"the task {task.name!r} offers no plane and no frames: implement `plane` or `render`")
    return replace(scene, episodes=tuple(shown), of=len(runs.episodes), plane=_map_of(task))


def _episode(task: Task, runs: ControlRuns, row: int, group: str) -> Episode:
    goal = runs.goals[row : row + 1]
    frame = _rendered(task, goal)
    return Episode(
        number=int(runs.episodes[row]),
        group=group,
        goal=_places(task, goal)[0] if task.offers("plane") else None,
        goal_frame=None if frame is None else Strip.of(frame),
        replays=tuple(_replay(task, runs, cost, row) for cost in range(len(runs.costs))),
    )


def _replay(task: Task, runs: ControlRuns, cost: int, row: int) -> Replay:
    steps, left = int(runs.steps[cost, row]), runs.final_distance[cost, row]
    states = runs.paths[cost, row, : steps + 1]
    frames = _rendered(task, states[np.linspace(0, steps, min(FRAMES, steps + 1)).round().astype(int)])
    return Replay(
        cost=runs.costs[cost],
        outcome=str(runs.category[cost, row]),
        reached=bool(runs.success[cost, row]),
        steps=steps,
        distance=float(f"{left:.3g}") if np.isfinite(left) else None,
        places=_places(task, states) if task.offers("plane") else (),
        frames=None if frames is None else Strip.of(frames),
    )


def _places(task: Task, states: np.ndarray) -> tuple[tuple[float, float], ...]:
    places = np.asarray(task.plane().places(states), float).tolist()
    return tuple((round(x, 2), round(y, 2)) for x, y in places)


def _rendered(task: Task, states: np.ndarray) -> np.ndarray | None:
    """Frames of states, uint8 [N, height, width, 3], from `render` or else from the observations; None if neither."""
    return _pixels({"pixels": task.render(states)} if task.offers("render") else task.observe(states))


def _pixels(observations: Observations) -> np.ndarray | None:
    pixels = np.asarray(observations.get("pixels", ()))
    return pixels if pixels.dtype == np.uint8 and pixels.ndim == 4 and pixels.shape[3] == 3 else None


def _map_of(task: Task) -> Map | None:
    if not task.offers("plane"):
        return None
    (left, top), (right, bottom) = task.plane().low, task.plane().high
    return Map((float(left), float(top)), (float(right), float(bottom)))


# Maps


def _add_maps(scene: Scene, parts: SceneParts) -> Scene:
    task = parts.task
    if task is None:
        raise ReachcostError("maps need a simulator: name a task with --task, without --logs-only")
    if not task.offers("plane"):
        raise ReachcostError(f"the task {task.name!r} has no `plane`: {LOST['plane']}")
    if parts.model is None or not parts.costs:
        raise ReachcostError("maps need a world model and costs: give model= and costs=")
    shown, (numbers, goals) = scene.episodes, _goals(scene, parts)
    if not shown:
        places = _places(task, goals)
        shown = tuple(Episode(number, goal=place) for number, place in zip(numbers, places, strict=True))
    cells = CostMap(task, parts.model)
    fields = {name: cells.field(cost, goals) for name, cost in parts.costs.items()}
    if task.offers("distance") and goals.ndim == 2:
        exact = exact_model(task, parts.model, goals)
        distances = CostMap(task, exact).field(OracleGeodesic(exact), goals)
        fields[ORACLE] = np.where(distances < NO_PATH, distances, np.inf)
    mapped = [
        replace(one, fields={name: Field.of(_coarse(values[number])) for name, values in fields.items()})
        for number, one in enumerate(shown)
    ]
    return replace(scene, episodes=tuple(mapped), plane=_map_of(task))


def _goals(scene: Scene, parts: SceneParts) -> tuple[list[int], np.ndarray]:
    """Numbers and goals [G, ...] of the scene's episodes, or else of some episodes of the evaluation set."""
    if parts.runs is not None and scene.episodes:
        numbers, ran = [one.number for one in scene.episodes], parts.runs.episodes.tolist()
        return numbers, parts.runs.goals[[ran.index(number) for number in numbers]]
    if parts.evaluation is None:
        raise ReachcostError("maps need goals: give an evaluation set")
    some = parts.evaluation.spread(min(GOALS, len(parts.evaluation)))
    return some.episodes.tolist(), some.goals


def _coarse(values: np.ndarray) -> np.ndarray:
    """A map [rows, columns] with at most `CELLS` rows and columns."""
    rows, columns = (
        ((np.arange(kept := min(CELLS, side)) + 0.5) * side / kept).astype(int) for side in values.shape
    )  # centres of equal parts: the map still covers the full plane
    return values[np.ix_(rows, columns)]


# Neighbours


def _add_neighbours(scene: Scene, parts: SceneParts) -> Scene:
    if "fields" not in scene.without:
        return scene  # a map shows more
    if parts.logs is None or not parts.costs:
        raise ReachcostError("neighbours of goals need encoded logs and costs: give logs= and costs=")
    return replace(scene, neighbourhoods=tuple(_neighbourhoods(parts.logs, parts.costs, parts.task)))


@torch.no_grad()
def _neighbourhoods(latents: Latents, costs: Mapping[str, TerminalCost], task: Task | None) -> list[Neighbourhood]:
    """Some logged goals with the states that each cost puts nearest, among earlier states of the goals' episodes.

    The distance of a state is the number of steps of the fastest logged path.
    """
    episodes = np.arange(min(LOGGED_EPISODES, len(latents.logs)))
    pools = logged_pools(latents, episodes, NEIGHBOUR_GOALS, CANDIDATES)
    candidates, ends = (latents.values[torch.from_numpy(rows)] for rows in (pools.candidates, pools.goals))
    order = {
        name: score(name, cost, candidates, ends, pools.goals).argsort(dim=1, stable=True)[:, :NEAREST].numpy()
        for name, cost in costs.items()
    }

    def nearest(goal: int) -> Iterator[Neighbours]:
        for name, rows in order.items():
            frames = _frames(latents, pools.candidates[goal][rows[goal]], task)
            yield Neighbours(name, frames, tuple(pools.fastest[goal][rows[goal]].astype(float).tolist()))

    return [
        Neighbourhood(_frames(latents, np.array([row]), task)[0], "logged steps", CANDIDATES, tuple(nearest(goal)))
        for goal, row in enumerate(pools.goals)
    ]


def _frames(latents: Latents, rows: np.ndarray, task: Task | None) -> tuple[Strip, ...]:
    """Frames of log rows [N], one strip each."""
    frames = _pixels(latents.logs.observations(rows))
    if frames is None and task is not None and "state" in latents.logs.columns:
        frames = _rendered(task, np.asarray(latents.logs.columns["state"])[rows])
    if frames is None:
        raise ReachcostError("the logs contain no frames, and no task renders them: log `pixels`, or name the task")
    return tuple(Strip.of(frame[None], NEIGHBOUR_SIDE) for frame in frames)
