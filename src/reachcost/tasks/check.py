"""`check_task`: the contract of a simulated world, made executable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NoReturn

import numpy as np

from reachcost.data.evaluation import EvaluationSet, require_one_world
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, call_foreign
from reachcost.tasks.compatibility import require_logs_of
from reachcost.tasks.contract import LOST, Distance, Handle, Plane, Task

NEARBY = 1e-3
"""Share of the largest distance that may remain from a state to itself."""


def check_task(task: Task, states: np.ndarray | None = None, actions: np.ndarray | None = None) -> dict[str, str]:
    """Raise a `ReachcostError` that teaches, if `task` breaks the contract that planning and audits rely on.

    Args:
        task: The task to check.
        states: Two or more different states [N, ...]; by default starts of its first evaluation set, or logged ones.
        actions: One action per state [N, a]; by default random indices, or logged actions.

    Checked: attributes, shapes, that inputs are left alone, determinism, that rows do not mix (up to rounding), that
    actions matter, that a goal counts as reached, every optional part that the task offers.

    Returns:
        The optional parts that the task does not offer, and what is lost without each.

    >>> from reachcost import make_task
    >>> check_task(make_task("tworoom"))
    {'coordinates': 'a probe reads every number of the state, angles and unseen parts too'}
    """
    _check_attributes(task)
    states = _some_states(task) if states is None else np.asarray(states)
    if len(states) < 2 or (states == states[:1]).all():
        _fail("the states to check with are fewer than two different ones", "pass states=, two or more")
    actions = _some_actions(task, len(states)) if actions is None else np.asarray(actions)
    check_parts(task, states, actions)
    _check_sets(task, states)
    if task.offers("generate_logs"):
        _check_logs(task, states)
    return {part: lost for part, lost in LOST.items() if not task.offers(part)}


def check_parts(task: Task, states: np.ndarray, actions: np.ndarray) -> None:
    """Check what a task makes of states [N, ...] and actions [N, a], but neither its sets nor its logs."""
    moved = _check_rows("step", task.step, states, actions)
    if moved.shape != states.shape or moved.dtype != states.dtype:
        _fail(
            f"step made {moved.dtype} {moved.shape} of {states.dtype} {states.shape}", "return states of the same kind"
        )
    if np.array_equal(moved, states):
        _fail("step changes nothing, whatever the actions", "make it follow the actions, or pass other ones")
    _check_observations(task, states)
    reached = _check_rows("success", task.success, states, states)
    if reached.dtype != bool or reached.shape != (len(states),):
        _fail(
            f"success returned {reached.dtype} {reached.shape} for {len(states)} states", "return bool [N], one a state"
        )
    if not reached.all():
        _fail("success does not say that every state has reached itself", "return True where goal and state agree")
    _check_distances(task, states)
    _check_episodes(task, states)
    _check_readings(task, states)


def _check_attributes(task: Task) -> None:
    if isinstance(task, type) or not isinstance(task, Task):
        _fail(f"got {task!r}", "pass an instance of a subclass of reachcost.Task")
    for name, kind in (("name", str), ("action_budget", int), ("stops_at_success", bool)):
        if not isinstance(getattr(task, name, None), kind):
            _fail(f"`{name}` is {getattr(task, name, None)!r}", f"make it a class attribute, a {kind.__name__}")
    if task.action_budget < 1:
        _fail(f"`action_budget` is {task.action_budget}", "give an episode one action or more")
    if task.discrete_actions is not None and task.discrete_actions < 2:
        _fail(f"`discrete_actions` is {task.discrete_actions}", "give two or more, or None for continuous actions")


def _some_states(task: Task) -> np.ndarray:
    if task.sets:
        return _some_set(task, task.sets[0]).starts[:8]
    if task.offers("generate_logs"):
        return np.asarray(_some_logs(task).columns["state"][:8])
    return _fail("it has neither evaluation sets nor logs to take states from", "pass states=, two or more")


def _some_actions(task: Task, count: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    if task.discrete_actions is not None:
        return rng.integers(task.discrete_actions, size=(count, 1))
    if task.offers("generate_logs"):
        logged = np.asarray(_some_logs(task).columns["action"][:count])
        return np.resize(logged, (count, *logged.shape[1:]))
    return _fail("its actions are continuous and unknown", "pass actions=, one per state")


def _some_set(task: Task, name: str) -> EvaluationSet:
    found = _quietly("evaluation_set", task.evaluation_set, name)
    if not isinstance(found, EvaluationSet):
        _fail(f"evaluation_set({name!r}) is {found!r}", "return an EvaluationSet of states of this task")
    return found


def _some_logs(task: Task, **seed: int) -> Logs:
    logs = _quietly("generate_logs", partial(task.generate_logs, **seed), 4)
    if not isinstance(logs, Logs) or not {"state", "action"} <= set(logs.columns):
        _fail("generate_logs leaves out a column", "return Logs with the columns `state` and `action`")
    return logs


def _check_rows(name: str, call: Callable[..., np.ndarray], *batch: np.ndarray) -> np.ndarray:
    """The result for a batch, after asking twice, row by row and in the other order."""
    kept = [array.copy() for array in batch]
    whole = np.asarray(_quietly(name, call, *batch))
    if not all(np.array_equal(before, after) for before, after in zip(kept, batch, strict=True)):
        _fail(f"{name} changes the arrays it is given", "work on a copy")
    if whole.shape[:1] != (len(batch[0]),):
        _fail(f"{name} returned {whole.shape} for {len(batch[0])} states", "return one row for each state")
    if not _same(whole, np.asarray(_quietly(name, call, *batch))):
        _fail(f"{name} gives different results for the same input", "draw random numbers outside of the task")
    alone = np.concatenate(
        [np.asarray(_quietly(name, call, *(part[row : row + 1] for part in batch))) for row in (0, 1)]
    )
    backwards = np.asarray(_quietly(name, call, *(part[::-1].copy() for part in batch)))[::-1]
    if not (_close(alone, whole[:2]) and _close(backwards, whole)):
        _fail(f"{name} of a row changes with the other rows", "treat the first axis as a batch of unrelated states")
    return whole


def _same(left: np.ndarray, right: np.ndarray) -> bool:
    return np.array_equal(left, right, equal_nan=left.dtype.kind in "fc")


def _close(left: np.ndarray, right: np.ndarray) -> bool:
    """Whether two results agree up to rounding, which may change with the size of a batch."""
    if left.dtype.kind not in "fc" or left.shape != right.shape:
        return _same(left, right)
    return np.allclose(left, right, rtol=1e-4, atol=1e-5, equal_nan=True)


def _check_observations(task: Task, states: np.ndarray) -> None:
    columns = _quietly("observe", task.observe, states)
    if not isinstance(columns, Mapping) or "state" not in columns:
        _fail("observe returned no column `state`", "return a mapping with `state` and what world models encode")
    for name in columns:
        _check_rows(f"observe ({name!r})", partial(_member, task.observe, name), states)


def _check_distances(task: Task, states: np.ndarray) -> None:
    further = _quietly("further_distances", lambda: task.further_distances)
    if not isinstance(further, Mapping):
        _fail(f"further_distances is {further!r}", "return a mapping of names to functions")
    for name, distance in further.items():
        _check_distance(f"further_distances[{name!r}]", distance, states)
    if task.offers("distance"):
        _check_distance("distance", task.distance, states)


def _check_distance(name: str, distance: Distance, states: np.ndarray) -> None:
    apart, itself = (_check_rows(name, distance, states, goals) for goals in (states[::-1].copy(), states.copy()))
    for found in (apart, itself):
        if found.shape != (len(states),) or not (found >= 0).all():
            _fail(f"{name} returned {_some(found)}", "return non-negative numbers [N]")
    if itself.max() > NEARBY * np.max(apart, where=np.isfinite(apart), initial=0):
        _fail(f"{name} of states to themselves is {_some(itself)}", "return 0 there")


def _check_episodes(task: Task, states: np.ndarray) -> None:
    """Check what is said of episodes by their starts, ends and goals."""
    goals, groups = states[::-1].copy(), {}
    named = _quietly("groups", task.groups, states.copy(), goals.copy())
    if not isinstance(named, Mapping):
        _fail(f"groups returned {named!r}", "return a mapping of names to bool [N]")
    for name in named:
        call = partial(_member, task.groups, name)
        groups[name] = found = _check_rows(f"groups ({name!r})", call, states, goals)
        if found.shape != (len(states),) or found.dtype != bool:
            _fail(f"the group {name!r} is {_some(found)}", "return bool [N] for every name")
    if groups and np.max(np.sum(list(groups.values()), axis=0)) > 1:
        _fail(f"an episode is in several of the groups {', '.join(groups)}", "put it in at most one of them")
    names = _check_rows("category", task.category, states, goals, goals.copy())
    if names.shape != (len(states),) or not (names == "success").all():
        _fail(
            f"category returned {_some(names)} for episodes that ended at their goals",
            "return str [N], `success` there",
        )


def _check_readings(task: Task, states: np.ndarray) -> None:
    """Check what is read off single states."""
    read = _check_rows("coordinates", task.coordinates, states)
    if read.ndim != 2:
        _fail(f"coordinates returned {read.shape} for {len(states)} states", "return [N, K]")
    if read.dtype.kind not in "biuf" or not np.isfinite(read).all():
        _fail(f"coordinates returned {_some(read)}", "return finite numbers")
    if task.offers("bottleneck"):
        lies = _check_rows("bottleneck", task.bottleneck, states)
        if lies.shape != (len(states),) or not np.isin(lies, (0, 1, 2)).all():
            _fail(f"bottleneck returned {_some(lies)}", "return 2 near, 0 far, 1 in between: int [N]")
    if task.offers("plane"):
        _check_plane(task, states)
    if task.offers("handles"):
        _check_handles(task)
    if task.offers("render"):
        drawn = _check_rows("render", task.render, states)
        if drawn.dtype != np.uint8 or drawn.ndim != 4 or drawn.shape[3] != 3:
            _fail(f"render returned {drawn.dtype} {drawn.shape}", "return uint8 pixels [N, height, width, 3]")


def _check_plane(task: Task, states: np.ndarray) -> None:
    """Check that states lie on the map, and that places of it that are free are those of a state."""
    plane = _quietly("plane", task.plane)
    if not isinstance(plane, Plane) or not (np.asarray(plane.low) < plane.high).all() or not plane.cell > 0:
        _fail(f"plane returned {plane!r}", "return a Plane from low to high, in cells of a positive size")
    places = _check_rows("plane().places", plane.places, states)
    if places.shape != (len(states), 2) or not ((places >= plane.low) & (places <= plane.high)).all():
        _fail(f"plane().places returned {_some(places)}", "return (x, y) [N, 2] between low and high")
    grid = plane.grid().reshape(-1, 2)
    free = _check_rows("plane().free", plane.free, grid)
    if free.shape != (len(grid),) or free.dtype != bool or not free.any():
        _fail("plane().free names no free place of the grid", "return bool [N], True where an agent can be")
    found = _check_rows("plane().states", plane.states, grid[free])
    _require_kind("plane()", found, states)
    apart = np.abs(plane.places(found) - grid[free]).max()
    if not apart <= plane.cell:
        _fail(f"places and states of plane() differ by up to {apart:.3g}", "make one the inverse of the other")


def _check_handles(task: Task) -> None:
    """Check that handles lie on the map, and that what is moved is there then, in a world of its own."""
    if not task.offers("plane"):
        _fail("it has handles and no plane", "say how states lie on one, or leave `handles` out")
    plane, handles = task.plane(), _quietly("handles", task.handles)
    names = [handle.name for handle in handles if isinstance(handle, Handle)]
    if not names or len({*names}) < len(handles):
        _fail(f"handles returned {handles!r}", "return Handles, each of a name of its own")
    for handle in handles:
        if not 0 <= handle.value <= 1 or (handle.positions is not None and handle.positions < 2):
            _fail(f"handles returned {handle!r}", "give a value from 0 to 1, and two positions or more")
        ends = np.array([handle.start, handle.end])
        if not ((ends >= plane.low) & (ends <= plane.high)).all():
            _fail(f"the handle {handle.name!r} leads from {handle.start} to {handle.end}", "keep it on the plane")
        value = 0.0 if handle.value > 0.5 else 1.0
        other = _quietly("moved", task.moved, handle.name, value)
        there = {found.name: found.value for found in other.handles()} if isinstance(other, Task) else {}
        if not abs(there.get(handle.name, np.nan) - value) <= NEARBY or other.world == task.world:
            _fail(
                f"moved({handle.name!r}, {value}) returned {other!r}",
                "return a task with that handle there, and a `world` of its own",
            )


def _check_sets(task: Task, states: np.ndarray) -> None:
    for name in task.sets:
        found, again = _some_set(task, name), _some_set(task, name)
        for ends in (found.starts, found.goals):
            _require_kind(f"evaluation_set({name!r})", ends, states)
        require_one_world(task.world, found)
        if found.budget is not None and found.budget < 1:
            _fail(
                f"evaluation_set({name!r}) has a budget of {found.budget} actions",
                "give one or more, or None for the task's own",
            )
        if found.fingerprint != again.fingerprint:
            _fail(f"evaluation_set({name!r}) is another one each time", "draw it by a seed of its own, or keep it")


def _check_logs(task: Task, states: np.ndarray) -> None:
    logs, again, other = _some_logs(task), _some_logs(task), _some_logs(task, seed=1)
    _require_kind("generate_logs", logs.columns["state"], states)
    require_logs_of(task, logs)
    taken = np.asarray(logs.columns["action"])
    if task.discrete_actions is None and taken.dtype.kind in "biu":
        _fail(
            f"generate_logs logs {taken.dtype} actions {taken.min()} to {taken.max()}, without `discrete_actions`",
            f"set discrete_actions = {int(taken.max()) + 1} if they are indices, or log floats",
        )
    if logs.fingerprint != again.fingerprint:
        _fail("generate_logs gives other logs for the same seed", "draw all its random numbers by that seed")
    if logs.fingerprint == other.fingerprint:
        _fail("generate_logs gives the same logs for every seed", "draw its random numbers by that seed")


def _require_kind(name: str, found: np.ndarray, states: np.ndarray) -> None:
    kind, known = ((array.dtype, array.shape[1:]) for array in (found, states))
    if kind != known:
        _fail(
            f"states of {name} are {kind[0]} {kind[1]} each, others of this task {known[0]} {known[1]}",
            "give all of them one type and shape",
        )


def _member(call: Callable[..., Mapping[str, np.ndarray]], name: str, *batch: np.ndarray) -> np.ndarray:
    return call(*batch)[name]


def _some(found: np.ndarray) -> str:
    """The first rows, on one line."""
    return f"{str(found[:4].tolist())[:-1]}{', ...]' if len(found) > 4 else ']'}"


def _quietly(name: str, call: Callable[..., Any], *arguments: Any) -> Any:
    failed = f"task: {name} failed on a batch of the documented shapes"
    return call_foreign(lambda: call(*arguments), failed, "see reachcost.Task for the shapes of its parts")


def _fail(what: str, remedy: str) -> NoReturn:
    raise ReachcostError(f"task: {what}: {remedy}")
