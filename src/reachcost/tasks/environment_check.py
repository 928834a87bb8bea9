"""What an environment must keep before it can be planned in: whole states, and steps without chance."""

from __future__ import annotations

import numpy as np

from reachcost.core.seeding import generator
from reachcost.errors import ReachcostError
from reachcost.tasks.environment import RowByRow

EPISODES, STEPS = 3, 6
"""What is tried: a fraction of a second in most environments."""
CLOSE = 1e-3
"""Share of the states' range by which a step from a state may differ from the same step on the way: rounding."""


def check_environment(desk: RowByRow, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Raise a `ReachcostError` that teaches if a world cannot be made of this environment.

    Checked: states come back as they were put in, steps depend on state and action alone, and states leave nothing out.

    Returns:
        States [N, D] that occurred, and the actions [N, a] that were executed in them.
    """
    actions = [desk.actions.draw(generator(0, "gym-check", episode), STEPS) for episode in range(EPISODES)]
    paths = [desk.walk(episode, plan) for episode, plan in enumerate(actions)]
    states = np.concatenate([path[:-1] for path in paths])
    after = np.concatenate([path[1:] for path in paths])
    taken = np.concatenate([plan[: len(path) - 1] for path, plan in zip(paths, actions, strict=True)])
    if (after == states).all():
        _fail(name, f"{len(states)} random actions changed nothing", "have get_state return what step changes")
    tolerance = CLOSE * max(float((after.max(0).astype(np.float64) - after.min(0)).max()), 1e-6)
    desk.reset(np.array([EPISODES]))  # whatever came before must not matter
    (back,) = desk.put(states)
    apart = np.abs(back.astype(np.float64) - states)
    if (row := _first(apart > 1e-6 * (1 + np.abs(states)))) is not None:
        _fail(
            name,
            f"set_state put it into {_show(states[row])}, and get_state returned {_show(back[row])}",
            "write set_state(env, state) so that get_state gives the same state back",
        )
    once, again = desk.step(states, taken)[0], desk.step(states[::-1], taken[::-1])[0][::-1]
    if (row := _first(once != again)) is not None:
        _fail(
            name,
            f"two steps from {_show(states[row])} with one action ended in {_show(once[row])} and {_show(again[row])}",
            "reachcost needs a deterministic environment, so switch off its noise, and have set_state reset all else "
            "that step reads",
        )
    if (row := _first(np.abs(once.astype(np.float64) - after) > tolerance)) is not None:
        _fail(
            name,
            f"from {_show(states[row])} an episode went on to {_show(after[row])}, but put there it went to "
            f"{_show(once[row])}",
            "the state leaves something out that step reads (a velocity, a layout drawn by reset): have get_state "
            "return it and set_state set it",
        )
    return states, taken


def _first(wrong: np.ndarray) -> int | None:
    rows = np.flatnonzero(wrong.any(1))
    return int(rows[0]) if len(rows) else None


def _show(state: np.ndarray) -> str:
    numbers = ", ".join(f"{number:.4g}" for number in state[:6])
    return f"[{numbers}{', ...' if len(state) > 6 else ''}]"


def _fail(name: str, what: str, remedy: str) -> None:
    raise ReachcostError(f"{name}: {what}: {remedy}")
