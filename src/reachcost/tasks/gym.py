"""Gymnasium environments as tasks (`GymTask`), and episodes of tasks as Gymnasium environments (`EpisodeEnv`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from reachcost.core.seeding import generator
from reachcost.data.evaluation import EvaluationSet, logged_goals
from reachcost.data.logs import Logs
from reachcost.data.observations import LazyColumns
from reachcost.errors import ReachcostError, require_type
from reachcost.protocols import Observations
from reachcost.tasks.check import check_parts
from reachcost.tasks.contract import Distance, Plane, Task
from reachcost.tasks.gym_environment import Environment, RowByRow
from reachcost.tasks.workers import Workers

Policy = Callable[[np.ndarray, np.random.Generator], np.ndarray]  # states [N, D] and generator -> actions [N, a]
BATCH = 64  # states in every call of a policy: its random numbers must not depend on the number of episodes
SET_EPISODES, SET_SEED = 50, 1_000_003  # size of a set that is sampled from logs, and the seed of these logs


class GymTask(Task):
    """A world of Gymnasium environments, each stepped row by row, in one or more worker processes.

    The environment is checked first: a step from a set state must equal the same step of an episode. Rewards and
    truncation are ignored. An episode of logs ends where the environment terminates; planning goes on.

    Args:
        make_env: Makes an environment with `Discrete` or bounded `Box` actions; called once in every process.
        get_state: Reads the full state of an environment, a vector of numbers [D].
        set_state: Sets the state [D] of an environment.
        success: Whether states [N, D] count as having reached goals [N, D]: bool [N].
        budget: Maximum number of actions per episode.
        distance, coordinates, groups, category, bottleneck: Optional parts, as the methods of `Task` with these names.
        observe: Columns of states [N, D] that a world model may encode, in addition to `state`; by default `pixels`,
            if the environment has render_mode `rgb_array`.
        plane: The plane of the states.
        policy: Policy of the logs: actions [N, a] for states [N, D] and a `numpy.random.Generator`; by default uniform
            random actions.
        sets: Evaluation sets by name: an `EvaluationSet`, or the number of logged steps from start to goal. By default
            one set, `logged`, of half the budget.
        length: Maximum number of rows of a logged episode; by default one more than the budget.
        name: Name in commands and records; by default the environment's id.
        workers: Number of processes; it does not change results.
        clip: Execute the nearest action of the space in place of one outside, which is refused by default.
        stops_at_success: Whether an episode ends when it reaches its goal.

    >>> import gymnasium
    >>> task = GymTask(
    ...     lambda: gymnasium.make("MountainCarContinuous-v0"),
    ...     get_state=lambda env: env.unwrapped.state,
    ...     set_state=lambda env, state: setattr(env.unwrapped, "state", state),
    ...     success=lambda states, goals: np.abs(states - goals)[:, 0] < 0.05,
    ...     budget=50,
    ... )
    >>> task, task.generate_logs(episodes=3)
    (GymTask('MountainCarContinuous-v0'), Logs(3 episodes, 153 rows, columns action, state))
    """

    def __init__(
        self,
        make_env: Callable[[], Environment],
        get_state: Callable[[Any], Any],
        set_state: Callable[[Any, np.ndarray], object],
        *,
        success: Distance,
        budget: int,
        distance: Distance | None = None,
        observe: Callable[[np.ndarray], Observations] | None = None,
        coordinates: Callable[[np.ndarray], np.ndarray] | None = None,
        groups: Callable[[np.ndarray, np.ndarray], Mapping[str, np.ndarray]] | None = None,
        category: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray] | None = None,
        bottleneck: Callable[[np.ndarray], np.ndarray] | None = None,
        plane: Plane | None = None,
        policy: Policy | None = None,
        sets: Mapping[str, EvaluationSet | int] | None = None,
        length: int | None = None,
        name: str | None = None,
        workers: int = 1,
        clip: bool = False,
        stops_at_success: bool = False,
    ) -> None:
        require_type(budget, int, "budget", "give a whole number")
        require_type(workers, int, "workers", "give a whole number")
        if budget < 1:
            raise ReachcostError(f"a budget of {budget} actions leaves nothing to plan: give one or more")
        self.action_budget, self.stops_at_success = budget, stops_at_success
        self._success, self._observe = success, observe
        self._policy, self._length = policy, budget + 1 if length is None else length
        arrays = {"distance": distance, "coordinates": coordinates, "category": category, "bottleneck": bottleneck}
        # `offers` finds optional parts among the attributes of the instance.
        vars(self).update({part: _returning_array(function) for part, function in arrays.items() if function})
        vars(self).update({"groups": groups} if groups else {})
        vars(self).update({"plane": lambda: plane} if plane else {})
        make = partial(RowByRow, make_env, get_state, set_state, name, clip)
        with closing(make()) as trial:
            self.name, self._actions = trial.name, trial.actions
            self.discrete_actions = trial.actions.count
            self.action_dim = trial.actions.size if self.discrete_actions is None else None
            vars(self).update({"render": self._render} if trial.env.render_mode == "rgb_array" else {})
            states, actions = trial.check()
            after = trial.step(states, actions)[0]
        self._width, self._dtype = states.shape[1], states.dtype
        self._workers = Workers(make, workers, self.name)
        if not np.array_equal(self.step(states, actions), after):
            problem = "two environments of make_env take the same step to different places"
            raise ReachcostError(f"{self.name}: {problem}: make them equal, or let the state hold what differs")
        check_parts(self, states, actions)
        self._sets = self._checked_sets(sets)
        self.sets = tuple(self._sets)
        vars(self).update({"evaluation_set": self._evaluation_set} if self.sets else {})

    def __repr__(self) -> str:
        return f"GymTask({self.name!r})"

    def close(self) -> None:
        """Close environments and worker processes; the next step starts new ones."""
        self._workers.close()

    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Execute one action per state: [N, D], [N, a] -> [N, D]; discrete actions are int64 [N, 1]."""
        return self._step(states, actions)[0]

    def observe(self, states: np.ndarray) -> Observations:
        """`state`, and what else a world model may encode."""
        states = np.asarray(states)
        if self._observe is not None:
            return {"state": states, **self._observe(states)}
        frames = {"pixels": partial(self.render, states)} if self.offers("render") else {}
        return LazyColumns({"state": states, **frames})

    def success(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Whether each state counts as having reached its goal: bool [N]."""
        return np.asarray(self._success(states, goals))

    def _render(self, states: np.ndarray) -> np.ndarray:
        return self._workers.call("render", self._checked(states))[0]

    def generate_logs(
        self, episodes: int, seed: int = 0, policy: Policy | None = None, length: int | None = None
    ) -> Logs:
        """Log episodes from the states of `reset`, with the columns `state` and `action`.

        Args:
            episodes: Number of episodes; an episode does not depend on the others.
            seed: Seed of resets and actions.
            policy: Policy; by default that of the task, or uniform random actions.
            length: Maximum number of rows of an episode; fewer where the environment terminates.
        """
        length, policy = self._length if length is None else length, policy or self._policy
        if episodes < 1 or length < 2:
            raise ReachcostError(f"{self.name}: {episodes} episodes of {length} rows: log one or more, of two or more")
        streams = [generator(seed, "gym-episode", episode) for episode in range(episodes)]
        here = self._workers.call("reset", np.array([int(stream.integers(2**31)) for stream in streams]))[0]
        here = here.astype(self._dtype)
        sampled = np.stack([self._actions.sample(stream, length) for stream in streams], 1) if policy is None else []
        states, actions = [], []
        lengths, going = np.full(episodes, length), np.arange(episodes)
        for row in range(length):
            states.append(here.copy())
            actions.append(sampled[row] if policy is None else self._chosen(policy, here, seed, row))
            if row + 1 < length and len(going):
                here[going], ended = self._step(here[going], actions[-1][going])
                lengths[going[ended]] = row + 2
                going = going[~ended]
        logged = np.arange(length) < lengths[:, None]
        columns = {"state": np.stack(states, 1)[logged], "action": np.stack(actions, 1)[logged]}
        return Logs(columns, lengths, self.observe)

    def _chosen(self, policy: Policy, states: np.ndarray, seed: int, row: int) -> np.ndarray:
        """Actions of a policy, called on batches of `BATCH` states; the last one is padded."""
        taken = []
        for first in range(0, len(states), BATCH):
            some = states[first : first + BATCH]
            padded = np.concatenate([some, np.repeat(some[-1:], BATCH - len(some), axis=0)])
            chosen = policy(padded, generator(seed, "gym-policy", first, row))
            taken.append(self._actions.checked(chosen, BATCH)[: len(some)])
        return np.concatenate(taken)

    def _evaluation_set(self, name: str) -> EvaluationSet:
        """The evaluation set of that name; logged goals come from separate logs."""
        if name not in self._sets:
            raise ReachcostError(f"{self.name} has no evaluation set {name!r}: choose one of {', '.join(self._sets)}")
        found = self._sets[name]
        if isinstance(found, int):
            # Twice as many episodes as needed, since some may be too short.
            logs = self.generate_logs(2 * SET_EPISODES, SET_SEED, length=max(self._length, found + 1))
            count = min(SET_EPISODES, int((logs.lengths > found).sum())) or SET_EPISODES
            found = self._sets[name] = logged_goals(logs, found, count, SET_SEED, name=name, world=self.world)
        return found

    def _step(self, states: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        states = self._checked(states)
        actions = self._actions.checked(actions, len(states))
        if not len(states):
            return states.copy(), np.zeros(0, bool)
        moved, ended = self._workers.call("step", states, actions)
        return moved.astype(self._dtype), ended

    def _checked(self, states: np.ndarray) -> np.ndarray:
        states = np.asarray(states)
        if states.ndim != 2 or states.shape[1] != self._width:
            raise ReachcostError(f"{self.name}: states of shape {states.shape}: give [N, {self._width}]")
        return states.astype(self._dtype, copy=False)

    def _checked_sets(self, sets: Mapping[str, EvaluationSet | int] | None) -> dict[str, EvaluationSet | int]:
        if sets is None:
            return {"logged": max(1, self.action_budget // 2)}
        checked: dict[str, EvaluationSet | int] = {}
        for name, what in sets.items():
            checked[name] = what
            if isinstance(what, EvaluationSet):
                starts, goals = self._checked(what.starts), self._checked(what.goals)
                checked[name] = replace(what, starts=starts, goals=goals, name=name, world=what.world or self.world)
            elif isinstance(what, bool) or not isinstance(what, int) or not 1 <= what <= self.action_budget:
                remedy = f"give an EvaluationSet, or logged steps from start to goal, at most {self.action_budget}"
                raise ReachcostError(f"{self.name}: the evaluation set {name!r} is {what!r}: {remedy}")
        return checked


def _returning_array(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    return lambda *arrays: np.asarray(function(*arrays))


class EpisodeEnv(gymnasium.Env[np.ndarray, Any]):
    """One episode of a bundled task: pixels in, an action out; it ends at success.

    `reset(options={"start": state, "goal": state})` sets the pair; by default the task samples it. Continuous actions
    are in [-1, 1]. Keywords are options of the task.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 (Gymnasium's interface)
    make_task: ClassVar[Any]
    step_reward = 0.0  # of a step that does not reach the goal; a step that does has reward 0

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        self.task, self.render_mode = self.make_task(**options), render_mode
        discrete, size = self.task.discrete_actions, (self.task.action_dim or 1,)
        self.action_space = spaces.Discrete(discrete) if discrete else spaces.Box(-1.0, 1.0, size, np.float32)
        self._state, self._goal = (state[None] for state in self.task.sample_pair(np.random.default_rng(0)))
        self.observation_space = spaces.Box(0, 255, self._observation().shape, np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        ends = dict(zip(("start", "goal"), self.task.sample_pair(self.np_random), strict=True)) | (options or {})
        if wrong := sorted({*ends} - {"start", "goal"}):
            numbers = self._state.shape[1]
            raise ReachcostError(f"unknown reset options {wrong}: give start and goal, {numbers} numbers each")
        self._state, self._goal = (np.array([ends[name]], self._state.dtype) for name in ("start", "goal"))
        return self._observation(), self._info()

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Execute one action."""
        self._state = self.task.step(self._state, np.asarray(action, self.action_space.dtype).reshape(1, -1))
        reached = bool(self.task.success(self._state, self._goal)[0])
        return self._observation(), 0.0 if reached else self.step_reward, reached, False, self._info()

    def render(self) -> np.ndarray | None:
        """The current frame, if `render_mode` is `rgb_array`."""
        return self._observation() if self.render_mode == "rgb_array" else None

    def _observation(self) -> np.ndarray:
        return self.task.render(self._state)[0]

    def _info(self) -> dict[str, Any]:
        distance = self.task.distance(self._state, self._goal)[0].item()
        return {"state": self._state[0].copy(), "goal_state": self._goal[0].copy(), "distance": distance}
