"""One Gymnasium environment that is put into the state of each row in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from reachcost.errors import ReachcostError, call_foreign
from reachcost.tasks.actions import Actions

Environment = gymnasium.Env[Any, Any]

ADVICE = {
    "make_env": "call it without arguments, and mend what it says",
    "reset": "call reset(seed=0) yourself, and mend what it says",
    "get_state": "write get_state(env) so that it returns every number that step reads",
    "set_state": "write set_state(env, state) so that it puts the environment into any state that get_state returns",
    "step": "mend what it says",
    "step from a state": "have get_state return, and set_state set, every number that step reads; an environment must "
    "step from every state that it was in, those that ended an episode, too",
    "render": "make the environment with render_mode='rgb_array', and mend what it says",
}


@dataclass(frozen=True)
class Hooks:
    """How an environment is made, read and put into a state."""

    name: str | None
    """What error messages call it; by default as it calls itself."""
    make_env: Callable[[], Environment]
    """Makes one."""
    get_state: Callable[[Environment], Any]
    """Reads its whole state, a vector of numbers [D]."""
    set_state: Callable[[Environment, np.ndarray], object]
    """Puts it into a state [D]."""


class RowByRow:
    """One environment; every method takes columns [N, ...] and returns columns [N, ...].

    Args:
        hooks: How to make and use it.
        clip: As for `Actions`.
    """

    def __init__(self, hooks: Hooks, clip: bool = False) -> None:
        self._hooks, self.name = hooks, hooks.name or "the environment"
        self.env: Environment = self._try("make_env", hooks.make_env)
        if not isinstance(self.env, gymnasium.Env):
            raise ReachcostError(
                f"{self.name}: make_env returned {type(self.env).__name__}: return an environment of Gymnasium"
            )
        self.name = hooks.name or _name_of(self.env)
        self.actions = Actions(self.env.action_space, self.name, clip)
        self._shape: tuple[int, ...] | None = None
        self._restart(0)  # wrappers refuse a step before the first reset

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def reset(self, seeds: np.ndarray) -> tuple[np.ndarray, ...]:
        """States [N, D] that episodes of these seeds [N] start in."""
        return (np.stack([self._restart(int(seed)) for seed in seeds]),)

    def put(self, states: np.ndarray) -> tuple[np.ndarray, ...]:
        """States [N, D] as the environment gives them back."""
        return (np.stack([self._put(state) for state in states.copy()]),)

    def step(self, states: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, ...]:
        """Execute checked actions [N, a] from states [N, D]: the next states, and whether that ended an episode [N]."""
        found = []
        for state, action in zip(states.copy(), actions, strict=True):
            self._try("set_state", self._hooks.set_state, self.env, state)
            found.append(self._forward(action, "step from a state"))
        return np.stack([state for state, _ in found]), np.array([ended for _, ended in found])

    def walk(self, seed: int, actions: np.ndarray) -> np.ndarray:
        """The states [T + 1, D] of an episode, left to itself, that executes actions [T, a]; shorter where it ends."""
        states = [self._restart(seed)]
        for action in actions:
            state, ended = self._forward(action)
            states.append(state)
            if ended:
                break
        return np.stack(states)

    def render(self, states: np.ndarray) -> tuple[np.ndarray, ...]:
        """Frames uint8 [N, height, width, 3]."""
        frames = []
        for state in states.copy():
            self._try("set_state", self._hooks.set_state, self.env, state)
            frames.append(np.array(self._try("render", self.env.render)))
            if frames[-1].shape != frames[0].shape or frames[-1].dtype != np.uint8 or frames[-1].ndim != 3:
                raise ReachcostError(
                    f"{self.name}: render returned {frames[-1].dtype} {frames[-1].shape} after "
                    f"{frames[0].dtype} {frames[0].shape}: draw uint8 [height, width, 3], always of one size"
                )
        return (np.stack(frames),)

    def _restart(self, seed: int) -> np.ndarray:
        self._try("reset", lambda: self.env.reset(seed=seed))
        return self._read()

    def _put(self, state: np.ndarray) -> np.ndarray:
        self._try("set_state", self._hooks.set_state, self.env, state)
        return self._read()

    def _forward(self, action: np.ndarray, what: str = "step") -> tuple[np.ndarray, bool]:
        _, _, terminated, _, _ = self._try(what, self.env.step, self.actions.native(action))
        return self._read(), bool(terminated)

    def _read(self) -> np.ndarray:
        # A copy: environments like to change their arrays in place.
        state = np.array(self._try("get_state", self._hooks.get_state, self.env))
        if state.ndim != 1 or not state.size or state.dtype.kind not in "biuf":
            raise ReachcostError(
                f"{self.name}: get_state returned {state.dtype} {state.shape}: return a vector of numbers [D]"
            )
        if self._shape not in (None, state.shape):
            raise ReachcostError(
                f"{self.name}: get_state returned {state.shape[0]} numbers after {self._shape[0]}: return "
                "always as many"
            )
        if not np.isfinite(state).all():
            raise ReachcostError(f"{self.name}: its state {state.tolist()} is not finite: keep it in range")
        self._shape = state.shape
        return state

    def _try(self, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
        return call_foreign(lambda: call(*arguments), f"{self.name}: {what} failed", ADVICE[what])


def _name_of(env: Environment) -> str:
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__
