"""Looking at a world: from simulator, world model and costs to a scene."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from reachcost.costs.field import cost_fields
from reachcost.costs.latent import ORACLE, unit_of
from reachcost.costs.oracle import NO_WAY, OracleGeodesic, exact_model
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents
from reachcost.errors import ReachcostError, reason_of
from reachcost.planning.control import ControlRuns
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.report.frames import drawn, strip
from reachcost.report.neighbours import neighbourhoods
from reachcost.report.scene import Episode, Field, Map, Scene, Way
from reachcost.tasks.contract import LOST, Task

SHOWN = 12
"""Episodes of a scene, at most."""
FRAMES = 48
"""Frames of a way, at most."""
CELLS = 80
"""Cells of a map along a side, at most."""
GOALS = 4
"""Goals of maps where nothing was run."""


class CannotDraw(ReachcostError):
    """A part of a scene that these parts do not allow."""


@dataclass(frozen=True)
class Parts:
    """What a scene is drawn from; the more there is, the more can be seen."""

    task: Task | None = None
    """The world."""
    model: WorldModel | None = None
    """The world model, for maps."""
    costs: Mapping[str, TerminalCost] = field(default_factory=dict)
    """Terminal costs by name, for maps and neighbours."""
    runs: ControlRuns | None = None
    """Closed loops, to be replayed; a cost of one name is the same there."""
    evaluation: EvaluationSet | None = None
    """Whose goals maps are of, where nothing was run."""
    logs: Latents | None = None
    """Encoded logs, for neighbours of goals where the world is no plane."""


def look(parts: Parts) -> Scene:
    """Draw what can be drawn of these parts, and say why the rest cannot."""
    task = parts.task
    ran = () if parts.runs is None else parts.runs.costs
    possible = tuple(dict.fromkeys([*ran, *parts.costs, ORACLE]))
    scene = Scene("", possible) if task is None else Scene(task.name, possible, distance_unit=task.distance_unit)
    for panel, add in {"replay": _replays, "fields": _maps, "neighbours": _neighbours}.items():
        try:
            scene = add(scene, parts)
        except CannotDraw as reason:
            scene = replace(scene, without={**scene.without, panel: str(reason)})
        except Exception as error:  # the world draws itself, and what was found is worth having without
            why = f"This cannot be drawn: {reason_of(error)}."
            scene = replace(scene, without={**scene.without, panel: why})
    mapped = scene.episodes[0].fields if scene.episodes else {}
    names = tuple(dict.fromkeys([*ran, *parts.costs, *mapped]))
    return replace(scene, costs=names, units={name: unit_of(name, parts.costs.get(name), task) for name in names})


# Episodes


class Outcomes(NamedTuple):
    """What decides which episodes are shown; closed loops have it, and so have their records."""

    success: np.ndarray
    """Whether the goal was reached, bool [C, E]."""
    steps: np.ndarray
    """Actions until then, or all [C, E]."""
    category: np.ndarray
    """How it came out, str [C, E]."""

    @classmethod
    def of(cls, runs: ControlRuns) -> Outcomes:
        """Those of closed loops."""
        return cls(runs.success, runs.steps, runs.category)


def _replays(scene: Scene, parts: Parts) -> Scene:
    task, runs = parts.task, parts.runs
    if task is None:
        raise CannotDraw("There is no simulator, so no episode was run: name one with --task, without --logs-only.")
    if runs is None:
        raise CannotDraw("No episode was run here: reachcost audit --task runs some and shows them.")
    groups = groups_of(task, runs.paths[0, :, 0], runs.goals)
    rows = choose(Outcomes.of(runs), groups)
    shown = [_episode(task, runs, int(row), str(groups[row])) for row in rows]
    if not any(way.places or way.frames for one in shown for way in one.ways):
        raise CannotDraw(f"The task {task.name!r} is no plane and draws no frames: write its `plane` or `render`.")
    return replace(scene, episodes=tuple(shown), of=len(runs.episodes), plane=_map_of(task))


def groups_of(task: Task, starts: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Name of the kind of each episode, empty where the task tells none: str [E]."""
    found = np.full(len(goals), "", object)
    for name, those in task.groups(starts, goals).items():
        found[those] = name
    return found.astype(str)


def choose(runs: Outcomes, groups: np.ndarray, count: int = SHOWN) -> np.ndarray:
    """Rows of episodes to show, of as many kinds as there is room for.

    Those that the first cost fails and the second does not take turns with all others, of which those that the first
    reaches come first. A kind is a group and how the first cost came out; longer ways of the second cost come earlier.

    Args:
        runs: What happened.
        groups: Kinds of episodes, str [E].
        count: How many rows, at most.

    >>> runs = Outcomes(np.array([[True, False], [True, True]]), np.array([[3, 9], [3, 5]]), np.array([["a", "b"]] * 2))
    >>> choose(runs, np.array(["", ""])).tolist()
    [1, 0]
    """
    second = min(1, len(runs.success) - 1)
    repaired = ~runs.success[0] & runs.success[second]
    kinds: dict[tuple[bool, str, str], list[int]] = {}
    for row, key in enumerate(zip(~repaired, groups, runs.category[0], strict=True)):
        kinds.setdefault((bool(key[0]), str(key[1]), str(key[2])), []).append(row)
    longest = sorted(kinds, key=lambda kind: (-runs.steps[second, kinds[kind]].mean(), kind))
    mended = [kind for kind in longest if not kind[0]]
    others = sorted((kind for kind in longest if kind[0]), key=lambda kind: not runs.success[0, kinds[kind]].all())
    ordered = [kind for both in zip_longest(mended, others) for kind in both if kind is not None]
    turns = zip_longest(*(kinds[kind] for kind in ordered))
    return np.array([row for turn in turns for row in turn if row is not None][:count])


def _episode(task: Task, runs: ControlRuns, row: int, group: str) -> Episode:
    goal = runs.goals[row : row + 1]
    seen = drawn(task, goal)
    return Episode(
        number=int(runs.episodes[row]),
        group=group,
        goal=_places(task, goal)[0] if task.offers("plane") else None,
        goal_frame=None if seen is None else strip(seen),
        ways=tuple(_way(task, runs, cost, row) for cost in range(len(runs.costs))),
    )


def _way(task: Task, runs: ControlRuns, cost: int, row: int) -> Way:
    steps, left = int(runs.steps[cost, row]), float(runs.final_distance[cost, row])
    path = runs.paths[cost, row, : steps + 1]
    seen = drawn(task, path[np.linspace(0, steps, min(FRAMES, steps + 1)).round().astype(int)])
    return Way(
        cost=runs.costs[cost],
        outcome=str(runs.category[cost, row]),
        reached=bool(runs.success[cost, row]),
        steps=steps,
        distance=float(f"{left:.3g}") if np.isfinite(left) else None,
        places=_places(task, path) if task.offers("plane") else (),
        frames=None if seen is None else strip(seen),
    )


def _places(task: Task, states: np.ndarray) -> tuple[tuple[float, float], ...]:
    places = np.asarray(task.plane().places(states), float).tolist()
    return tuple((round(x, 2), round(y, 2)) for x, y in places)


def _map_of(task: Task) -> Map | None:
    if not task.offers("plane"):
        return None
    (left, top), (right, bottom) = task.plane().low, task.plane().high
    return Map((float(left), float(top)), (float(right), float(bottom)))


# Maps


def _maps(scene: Scene, parts: Parts) -> Scene:
    task = parts.task
    if task is None:
        raise CannotDraw("Maps need a simulator: name one with --task, without --logs-only.")
    if not task.offers("plane"):
        raise CannotDraw(f"The task {task.name!r} does not say how its states lie on a plane: {LOST['plane']}.")
    if parts.model is None or not parts.costs:
        raise CannotDraw("Maps need a world model and costs: give model= and costs=.")
    shown, (numbers, goals) = scene.episodes, _goals(scene, parts)
    if not shown:
        places = _places(task, goals)
        shown = tuple(Episode(number, goal=place) for number, place in zip(numbers, places, strict=True))
    fields = dict(cost_fields(task, parts.model, parts.costs, goals))
    if task.offers("distance") and goals.ndim == 2:
        exact = exact_model(task, parts.model, goals)
        distances = cost_fields(task, exact, {ORACLE: OracleGeodesic(exact)}, goals)[ORACLE]
        fields[ORACLE] = np.where(distances < NO_WAY, distances, np.inf)
    mapped = [
        replace(one, fields={name: Field.of(_coarse(values[number])) for name, values in fields.items()})
        for number, one in enumerate(shown)
    ]
    return replace(scene, episodes=tuple(mapped), plane=_map_of(task))


def _goals(scene: Scene, parts: Parts) -> tuple[list[int], np.ndarray]:
    """Numbers and goals [G, ...] of the episodes of a scene or, if it has none, of some of the evaluation set."""
    if parts.runs is not None and scene.episodes:
        rows = {int(number): row for row, number in enumerate(parts.runs.episodes)}
        numbers = [one.number for one in scene.episodes]
        return numbers, parts.runs.goals[[rows[number] for number in numbers]]
    if parts.evaluation is None:
        raise CannotDraw("Maps are drawn for goals: give an evaluation set.")
    some = parts.evaluation.spread(min(GOALS, len(parts.evaluation)))
    return some.episodes.tolist(), some.goals


def _coarse(values: np.ndarray) -> np.ndarray:
    """A map [rows, columns] of no more cells than can be seen."""
    rows, columns = (
        ((np.arange(kept := min(CELLS, side)) + 0.5) * side / kept).astype(int) for side in values.shape
    )  # centres of equal parts, so that the map still covers the whole plane
    return values[np.ix_(rows, columns)]


# Neighbours


def _neighbours(scene: Scene, parts: Parts) -> Scene:
    if "fields" not in scene.without:
        return scene  # a map shows more
    if parts.logs is None or not parts.costs:
        raise CannotDraw("Neighbours of goals need encoded logs and costs: give logs= and costs=.")
    try:
        return replace(scene, neighbourhoods=neighbourhoods(parts.logs, parts.costs, parts.task))
    except ReachcostError as error:
        raise CannotDraw(f"Neighbours of goals cannot be shown: {error}.") from error
