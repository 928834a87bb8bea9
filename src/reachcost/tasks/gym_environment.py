"""A Gymnasium environment that is put into the state of each row in turn, and the check that this works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import gymnasium
import numpy as np
from gymnasium import spaces

from reachcost.core.seeding import generator
from reachcost.errors import ReachcostError, call_foreign
from reachcost.tasks.contract import require_finite

Environment = gymnasium.Env[Any, Any]

ROUNDING = 1e-5  # share of its size by which an action may exceed the action space: actions pass through float32
COMPLETE = "get_state must return, and set_state set, every number that step reads"
EPISODES, STEPS = 3, 6  # size of the trial of an environment: a fraction of a second in most
CLOSE = 1e-3  # share of the states' range by which a step from a set state may differ from the same step in an episode


class Actions:
    """Actions of a `Discrete` space, int64 indices [N, 1], or of a `Box`, vectors [N, a].

    With `clip`, an action outside of the box is replaced by the nearest one; by default it is refused.
    """

    def __init__(self, space: spaces.Space[Any], name: str, clip: bool = False) -> None:
        self._name, self._clip, self._space = name, clip, space
        self.count: int | None = None  # number of discrete actions; None for a box
        if isinstance(space, spaces.Discrete):
            self.count, self.size = int(space.n), 1
        elif isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating) and space.is_bounded():
            self._low, self._high = (np.ravel(bound).astype(np.float64) for bound in (space.low, space.high))
            self.size = len(self._low)
        else:
            remedy = "wrap it, say by gymnasium.wrappers.TransformAction, to have Discrete or bounded Box actions"
            raise ReachcostError(f"{name}: its actions are {space}: {remedy}")

    def sample(self, rng: np.random.Generator, *shape: int) -> np.ndarray:
        """Uniform random actions [*shape, a]."""
        if self.count is not None:
            return rng.integers(self.count, size=(*shape, 1))
        return rng.uniform(self._low, self._high, (*shape, self.size)).astype(self._space.dtype)

    def checked(self, actions: np.ndarray, rows: int) -> np.ndarray:
        """Actions [N, a] as they are executed; raises an error if one is outside the action space."""
        actions = np.asarray(actions)
        if actions.shape != (rows, self.size):
            raise ReachcostError(f"{self._name}: the actions have shape {actions.shape}: give {(rows, self.size)}")
        if self.count is not None:
            if actions.dtype.kind not in "iu" or (rows and not 0 <= actions.min() <= actions.max() < self.count):
                given = f"{actions.min()} to {actions.max()} ({actions.dtype})"
                remedy = f"give 0 to {self.count - 1}, say by CategoricalCEM({self.count})"
                raise ReachcostError(f"{self._name}: the actions are {given}: {remedy}")
            return actions.astype(np.int64)
        require_finite("action", actions)
        within = actions.clip(self._low, self._high)
        rounding = ROUNDING * np.maximum(1, np.abs(within))
        outside = (np.abs(actions - within) > rounding).any(1)
        if outside.any() and not self._clip:
            odd = actions[outside][0].astype(np.float64).round(4).tolist()
            remedy = "pass clip=True to execute the nearest one, or bound the planner"
            raise ReachcostError(f"{self._name}: the action {odd} lies outside of {self._space}: {remedy}")
        return within.astype(self._space.dtype)

    def native(self, action: np.ndarray) -> Any:
        """One checked action [a] in the form that the environment takes."""
        if isinstance(self._space, spaces.Discrete):
            return int(self._space.start + action[0])
        return action.reshape(self._space.shape or ())


class RowByRow:
    """One environment whose methods take columns [N, ...] and return columns [N, ...]."""

    def __init__(
        self,
        make_env: Callable[[], Environment],
        get_state: Callable[[Environment], Any],
        set_state: Callable[[Environment, np.ndarray], object],
        name: str | None = None,
        clip: bool = False,
    ) -> None:
        self._get_state, self._set_state, self.name = get_state, set_state, name or "the environment"
        self.env: Environment = self._try("make_env", make_env)
        if not isinstance(self.env, gymnasium.Env):
            self._fail(f"make_env returned {type(self.env).__name__}", "return an environment of Gymnasium")
        self.name = name or (self.env.spec.id if self.env.spec else type(self.env.unwrapped).__name__)
        self.actions = Actions(self.env.action_space, self.name, clip)
        self._size = 0
        self._restart(0)  # wrappers refuse a step before the first reset

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def reset(self, seeds: np.ndarray) -> tuple[np.ndarray, ...]:
        """First states [N, D] of episodes with these seeds [N]."""
        return (np.stack([self._restart(int(seed)) for seed in seeds]),)

    def step(self, states: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, ...]:
        """Next states [N, D] after checked actions [N, a], and whether the episode terminated [N]."""
        found = []
        for state, action in zip(states.copy(), actions, strict=True):
            self._put(state)
            found.append(self._forward(action))
        after, ended = zip(*found, strict=True)
        return np.stack(after), np.array(ended)

    def episode(self, seed: int, actions: np.ndarray) -> np.ndarray:
        """States [T + 1, D] of an undisturbed episode with actions [T, a]; fewer if it terminates."""
        states, ended = [self._restart(seed)], False
        for action in actions:
            if not ended:
                state, ended = self._forward(action)
                states.append(state)
        return np.stack(states)

    def render(self, states: np.ndarray) -> tuple[np.ndarray, ...]:
        """Frames uint8 [N, height, width, 3]."""
        frames = []
        for state in states.copy():
            self._put(state)
            frames.append(np.array(self._try("render", self.env.render)))
            first, last = (f"{frame.dtype} {frame.shape}" for frame in (frames[0], frames[-1]))
            if first != last or frames[-1].dtype != np.uint8 or frames[-1].ndim != 3:
                self._fail(f"render returned {last} after {first}", "return uint8 [height, width, 3] of one size")
        return (np.stack(frames),)

    def check(self) -> tuple[np.ndarray, np.ndarray]:
        """Require that a step from a set state equals the same step of an episode; return states and actions [N, .]."""
        actions = [self.actions.sample(generator(0, "gym-check", episode), STEPS) for episode in range(EPISODES)]
        paths = [self.episode(seed, plan) for seed, plan in enumerate(actions)]
        states = np.concatenate([path[:-1] for path in paths])
        after = np.concatenate([path[1:] for path in paths]).astype(np.float64)
        taken = np.concatenate([plan[: len(path) - 1] for path, plan in zip(paths, actions, strict=True)])
        self.reset(np.array([EPISODES]))  # steps from set states must depend neither on episodes nor on their order
        again = self.step(states[::-1], taken[::-1])[0][::-1]
        tolerance = CLOSE * max(float((after.max(0) - after.min(0)).max()), 1e-6)
        if (wrong := (np.abs(again - after) > tolerance).any(1)).any():
            known, there, here = (part[wrong][0, :6].round(4).tolist() for part in (states, after, again))
            problem = f"an episode went on from {known} to {there}, but a step after set_state went to {here}"
            self._fail(problem, f"{COMPLETE} (a velocity, a layout that reset samples); switch off noise")
        return states, taken

    def _restart(self, seed: int) -> np.ndarray:
        self._try("reset", lambda: self.env.reset(seed=seed))
        return self._read()

    def _put(self, state: np.ndarray) -> None:
        self._try("set_state", self._set_state, self.env, state)

    def _forward(self, action: np.ndarray) -> tuple[np.ndarray, bool]:
        _, _, terminated, _, _ = self._try("step", self.env.step, self.actions.native(action))
        return self._read(), bool(terminated)

    def _read(self) -> np.ndarray:
        # A copy, since environments may change their arrays in place.
        state = np.array(self._try("get_state", self._get_state, self.env))
        if state.ndim != 1 or not state.size or state.dtype.kind not in "biuf":
            self._fail(f"get_state returned {state.dtype} {state.shape}", "return a vector of numbers [D]")
        if state.size != (self._size or state.size):
            self._fail(f"get_state returned {state.size} numbers after {self._size}", f"always return {self._size}")
        if not np.isfinite(state).all():
            self._fail(f"its state {state.tolist()} is not finite", "keep it in range")
        self._size = state.size
        return state

    def _try(self, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
        return call_foreign(lambda: call(*arguments), f"{self.name}: {what} failed", f"fix it; {COMPLETE}")

    def _fail(self, what: str, remedy: str) -> NoReturn:
        raise ReachcostError(f"{self.name}: {what}: {remedy}")
