"""`check_task`: tests whether a simulated world keeps the contract of `Task`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from reachcost.data.evaluation import EvaluationSet, require_one_world
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, call_foreign, require_type
from reachcost.tasks.compatibility import require_logs_of
from reachcost.tasks.contract import LOST, Plane, Task, require_task

NEARBY = 1e-3  # maximum distance from a state to itself, as a share of the largest distance
FORMS: dict[str, tuple[str, Callable[[np.ndarray], Any]]] = {
    "success": ("bool [N]", lambda found: found.dtype == bool and found.ndim == 1),
    "groups": ("bool [N] for every name", lambda found: found.dtype == bool and found.ndim == 1),
    "distance": ("non-negative numbers [N]", lambda found: found.ndim == 1 and (found >= 0).all()),
    "category": ("str [N], `success` at the goal", lambda found: found.ndim == 1 and (found == "success").all()),
    "coordinates": (
        "finite numbers [N, K]",
        lambda found: found.ndim == 2 and found.dtype.kind in "biuf" and np.isfinite(found).all(),
    ),
    "bottleneck": (
        "2 near, 0 far, 1 in between: int [N]",
        lambda found: found.ndim == 1 and np.isin(found, (0, 1, 2)).all(),
    ),
    "render": (
        "uint8 pixels [N, height, width, 3]",
        lambda found: found.dtype == np.uint8 and found.ndim == 4 and found.shape[3] == 3,
    ),
    "places": ("(x, y) [N, 2] from low to high", lambda found: found.ndim == 2 and found.shape[1] == 2),
    "free": ("bool [N], True where an agent can be", lambda found: found.dtype == bool and found.ndim == 1),
}
"""What methods return for N rows, in words and as a test."""


def check_task(task: Task, states: np.ndarray | None = None, actions: np.ndarray | None = None) -> dict[str, str]:
    """Raise an explanatory `ReachcostError` if `task` breaks the contract that planning and audits rely on.

    Args:
        task: The task to check.
        states: Two or more different states [N, ...]; by default starts of its first evaluation set, or logged ones.
        actions: One action per state [N, a]; by default random indices, or logged actions.

    Checked: attributes, shapes, unchanged inputs, determinism, independence of rows (up to rounding), that actions
    have an effect, that a goal counts as reached, and every optional part that the task offers.

    Returns:
        The optional parts that the task does not offer, and what is lost without each.

    >>> from reachcost import make_task
    >>> check_task(make_task("tworoom"))
    {'coordinates': 'a probe reads every number of the state, angles and unseen parts too'}
    """
    require_task(task)
    for name, kind in (("name", str), ("action_budget", int), ("stops_at_success", bool)):
        require_type(getattr(task, name), kind, name, f"make it a class attribute, a {kind.__name__}")
    budget, count = task.action_budget, task.discrete_actions
    _require(budget >= 1, f"`action_budget` is {budget}", "give an episode one action or more")
    _require(count is None or count >= 2, f"`discrete_actions` is {count}", "give two or more, or None if continuous")
    states = _some_states(task) if states is None else np.asarray(states)
    _require((states != states[:1]).any(), "there are fewer than two different states", "pass states=, two or more")
    actions = _some_actions(task, len(states)) if actions is None else np.asarray(actions)
    check_parts(task, states, actions)
    for name in task.sets:
        _check_set(task, name, states)
    if task.offers("generate_logs"):
        _check_logs(task, states)
    return {part: lost for part, lost in LOST.items() if not task.offers(part)}


def check_parts(task: Task, states: np.ndarray, actions: np.ndarray) -> None:
    """Check all methods on states [N, ...] and actions [N, a], without evaluation sets and logs."""
    moved = _rows("step", task.step, states, actions)
    made = f"step made {moved.dtype} {moved.shape} of {states.dtype} {states.shape}"
    _require(moved.shape == states.shape and moved.dtype == states.dtype, made, "return states of the same kind")
    _require((moved != states).any(), "step changes nothing", "make it follow the actions, or pass other ones")
    columns = _call("observe", task.observe, states)
    complete = isinstance(columns, Mapping) and "state" in columns
    _require(complete, "observe returned no column `state`", "return a mapping with `state` and what models encode")
    for name in columns:
        _rows(f"observe ({name!r})", partial(_member, task.observe, name), states)
    goals = states[::-1].copy()
    reached = _rows("success", task.success, states, states)
    _require(reached.all(), "success is not True for every state that reached itself", "return True for equal states")
    _rows("category", task.category, states, goals, goals)
    _check_distances(task, states, goals)
    _check_groups(task, states, goals)
    _rows("coordinates", task.coordinates, states)
    for part in ("bottleneck", "render"):
        if task.offers(part):
            _rows(part, getattr(task, part), states)
    if task.offers("plane"):
        _check_plane(task, states)
    _require(task.offers("plane") or not task.offers("handles"), "it has handles and no plane", "give it a plane")
    if task.offers("handles"):
        _check_handles(task)


def _some_states(task: Task) -> np.ndarray:
    if task.sets:
        return _some_set(task, task.sets[0]).starts[:8]
    _require(task.offers("generate_logs"), "it has neither evaluation sets nor logs", "pass states=, two or more")
    return np.asarray(_some_logs(task).columns["state"][:8])


def _some_actions(task: Task, count: int) -> np.ndarray:
    if task.discrete_actions is not None:
        return np.random.default_rng(0).integers(task.discrete_actions, size=(count, 1))
    _require(task.offers("generate_logs"), "its actions are unknown", "pass actions=, one per state")
    logged = np.asarray(_some_logs(task).columns["action"][:count])
    return np.resize(logged, (count, *logged.shape[1:]))


def _some_set(task: Task, name: str) -> EvaluationSet:
    found = _call("evaluation_set", task.evaluation_set, name)
    _require(isinstance(found, EvaluationSet), f"evaluation_set({name!r}) is {found!r}", "return an EvaluationSet")
    return found


def _some_logs(task: Task, **seed: int) -> Logs:
    logs = _call("generate_logs", partial(task.generate_logs, **seed), 4)
    complete = isinstance(logs, Logs) and {"state", "action"} <= set(logs.columns)
    _require(complete, "generate_logs leaves out a column", "return Logs with the columns `state` and `action`")
    return logs


def _check_distances(task: Task, states: np.ndarray, goals: np.ndarray) -> None:
    further = _call("further_distances", lambda: dict(task.further_distances))
    distances = {f"further_distances[{name!r}]": distance for name, distance in further.items()}
    if task.offers("distance"):
        distances["distance"] = task.distance
    for name, distance in distances.items():
        apart = _rows(name, distance, states, goals, form="distance")
        itself = _rows(name, distance, states, states.copy(), form="distance")
        zero = itself.max() <= NEARBY * np.max(apart, where=np.isfinite(apart), initial=0)
        _require(zero, f"{name} of states to themselves is {_some(itself)}", "return 0 there")


def _check_groups(task: Task, states: np.ndarray, goals: np.ndarray) -> None:
    named = _call("groups", lambda: dict(task.groups(states.copy(), goals.copy())))
    found = [_rows(f"groups ({n!r})", partial(_member, task.groups, n), states, goals, form="groups") for n in named]
    several = found and np.max(np.sum(found, axis=0)) > 1
    _require(not several, f"an episode is in several of the groups {', '.join(named)}", "put it in at most one of them")


def _check_plane(task: Task, states: np.ndarray) -> None:
    """Check that states lie on the map, and that its free places have states."""
    plane = _call("plane", task.plane)
    valid = isinstance(plane, Plane) and (np.asarray(plane.low) < plane.high).all() and plane.cell > 0
    _require(valid, f"plane returned {plane!r}", "return a Plane from low to high, in cells of a positive size")
    places = _rows("plane().places", plane.places, states, form="places")
    inside = (places >= plane.low) & (places <= plane.high)
    _require(inside.all(), f"plane().places returned {_some(places)}", "return (x, y) [N, 2] between low and high")
    grid = plane.grid().reshape(-1, 2)
    free = _rows("plane().free", plane.free, grid, form="free")
    _require(free.any(), "plane().free names no free place of the grid", "return True where an agent can be")
    found = _rows("plane().states", plane.states, grid[free])
    _require_kind("plane()", found, states)
    close = np.abs(plane.places(found) - grid[free]).max() <= plane.cell
    _require(close, "places and states of plane() differ by more than a cell", "make one the inverse of the other")


def _check_handles(task: Task) -> None:
    """Check that `moved` moves the handles."""
    for handle in _call("handles", task.handles):
        value = 0.0 if handle.value > 0.5 else 1.0
        other = _call("moved", task.moved, handle.name, value)
        values = {found.name: found.value for found in other.handles()} if isinstance(other, Task) else {}
        moved = abs(values.get(handle.name, np.nan) - value) <= NEARBY and other.world != task.world
        problem = f"moved({handle.name!r}, {value}) returned {other!r}"
        _require(moved, problem, "return a task with that handle there, and another `world`")


def _check_set(task: Task, name: str, states: np.ndarray) -> None:
    found, called = _some_set(task, name), f"evaluation_set({name!r})"
    _require_kind(called, found.starts, states)
    _require_kind(called, found.goals, states)
    require_one_world(task.world, found)
    budget, same = found.budget, found.fingerprint == _some_set(task, name).fingerprint
    _require(budget is None or budget >= 1, f"{called} has a budget of {budget} actions", "give one or more, or None")
    _require(same, f"{called} is another one each time", "sample it by a fixed seed, or keep it")


def _check_logs(task: Task, states: np.ndarray) -> None:
    logs, again, other = _some_logs(task), _some_logs(task), _some_logs(task, seed=1)
    _require_kind("generate_logs", logs.columns["state"], states)
    require_logs_of(task, logs)
    taken = np.asarray(logs.columns["action"])
    declared = task.discrete_actions is not None or taken.dtype.kind not in "biu"
    remedy = f"set discrete_actions = {int(taken.max()) + 1} if they are indices, or log floats"
    _require(declared, f"generate_logs logs {taken.dtype} actions without `discrete_actions`", remedy)
    by_seed = "sample all its random numbers by that seed"
    _require(logs.fingerprint == again.fingerprint, "generate_logs gives other logs for the same seed", by_seed)
    _require(logs.fingerprint != other.fingerprint, "generate_logs gives the same logs for every seed", by_seed)


def _rows(name: str, call: Callable[..., np.ndarray], *batch: np.ndarray, form: str = "") -> np.ndarray:
    """The result for a batch, of the right form; a second call, single rows and the reversed batch must agree."""

    def result(*arrays: np.ndarray) -> np.ndarray:
        return np.asarray(_call(name, call, *arrays))

    kept = [array.copy() for array in batch]
    found = result(*batch)
    unchanged = all(np.array_equal(before, after) for before, after in zip(kept, batch, strict=True))
    _require(unchanged, f"{name} changes the arrays it is given", "work on a copy")
    returned = f"{name} returned {found.dtype} {found.shape} for {len(batch[0])} states"
    _require(found.shape[:1] == (len(batch[0]),), returned, "return one row for each state")
    same = np.array_equal(found, result(*batch), equal_nan=found.dtype.kind in "fc")
    _require(same, f"{name} gives different results for the same input", "sample random numbers outside of the task")
    alone = np.concatenate([result(*(part[row : row + 1] for part in batch)) for row in (0, 1)])
    backwards = result(*(part[::-1].copy() for part in batch))[::-1]
    remedy = "treat the first axis as a batch of unrelated states"
    independent = _close(alone, found[:2]) and _close(backwards, found)
    _require(independent, f"{name} of a row changes with the other rows", remedy)
    words, test = FORMS.get(form or name, ("", lambda _: True))
    _require(test(found), f"{returned}, {_some(found)}", f"return {words}")
    return found


def _close(left: np.ndarray, right: np.ndarray) -> bool:
    """Whether two results agree up to rounding, which may depend on the size of a batch."""
    if left.dtype.kind not in "fc" or left.shape != right.shape:
        return np.array_equal(left, right)
    return np.allclose(left, right, rtol=1e-4, atol=1e-5, equal_nan=True)


def _require_kind(name: str, found: np.ndarray, states: np.ndarray) -> None:
    kind, known = ((array.dtype, array.shape[1:]) for array in (found, states))
    problem = f"states of {name} are {kind[0]} {kind[1]} each, others {known[0]} {known[1]}"
    _require(kind == known, problem, "give all of them one type and shape")


def _require(valid: object, what: str, remedy: str) -> None:
    if not valid:
        raise ReachcostError(f"task: {what}: {remedy}")


def _member(call: Callable[..., Mapping[str, np.ndarray]], name: str, *batch: np.ndarray) -> np.ndarray:
    return call(*batch)[name]


def _some(found: np.ndarray) -> str:
    """The values as text, shortened."""
    return f"{str(found[:2].tolist())[:60]} ..." if found.size > 8 else str(found.tolist())


def _call(name: str, call: Callable[..., Any], *arguments: Any) -> Any:
    failed = f"task: {name} failed on a batch of the documented shapes"
    return call_foreign(lambda: call(*arguments), failed, "see reachcost.Task for what its parts take and return")
