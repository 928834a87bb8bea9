"""Our evaluation sets in stable-worldmodel's own `World.evaluate`: the before and after of a repair, in their words.

Needs the extra `swm`; tested with release 0.1.1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from reachcost.evaluation import EvaluationSet
from reachcost.logs import Logs
from reachcost.logs.hdf5 import write_logs
from reachcost.planning.cem import CEM
from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels.actions import ActionBlocks

ENVIRONMENT = "swm/TwoRoom-v1"
PUT_AGENT_AND_GOAL = [
    {"method": "_set_state", "args": {"state": {"value": "state"}}},
    {"method": "_set_goal_state", "args": {"goal_state": {"value": "goal_state"}}},
]


class Standardiser:
    """Actions as a model's logs have them, in the form that their policies expect of a process."""

    def __init__(self, blocks: ActionBlocks) -> None:
        self.mean, self.std = np.array(blocks.mean, np.float32), np.array(blocks.std, np.float32)

    def transform(self, actions: np.ndarray) -> np.ndarray:
        """Actions [..., a] -> standardised."""
        return (actions - self.mean) / self.std

    def inverse_transform(self, actions: np.ndarray) -> np.ndarray:
        """Standardised [..., a] -> actions."""
        return actions * self.std + self.mean


def goals_dataset(evaluation: EvaluationSet, task: TwoRoom, path: Path) -> Any:
    """The set as one of their datasets: an episode is two rows, start and goal, so its goal offset is 1."""
    from stable_worldmodel.data import HDF5Dataset

    states = np.stack([evaluation.starts, evaluation.goals], axis=1).reshape(-1, *evaluation.starts.shape[1:])
    logs = Logs({"state": states, "action": np.zeros_like(states)}, np.full(len(evaluation), 2), task.observe)
    write_logs(logs, path, render=task.render)
    return HDF5Dataset(path=path)


def evaluate_in_world(
    costs: nn.Module, blocks: ActionBlocks, dataset: Any, episodes: int, planner: CEM | None = None, seed: int = 0
) -> np.ndarray:
    """Success bool [E] of their CEM, policy and world with a cost model on the first episodes of `goals_dataset`."""
    import stable_worldmodel as swm
    from stable_worldmodel.policy import PlanConfig, WorldModelPolicy
    from stable_worldmodel.solver import CEMSolver

    planner = planner or CEM()
    solver = CEMSolver(
        costs,
        batch_size=episodes,
        num_samples=planner.candidates,
        n_steps=planner.iterations,
        topk=planner.elites,
        seed=seed,
    )
    plan = PlanConfig(planner.horizon, planner.executed, action_block=blocks.length)
    world = swm.World(ENVIRONMENT, num_envs=episodes, image_shape=(224, 224))
    try:
        world.set_policy(WorldModelPolicy(solver, plan, process={"action": Standardiser(blocks)}))
        result = world.evaluate(
            dataset=dataset,
            episodes_idx=list(range(episodes)),
            start_steps=[0] * episodes,
            goal_offset=1,
            eval_budget=TwoRoom.action_budget,
            callables=PUT_AGENT_AND_GOAL,
        )
    finally:
        world.close()
    return np.asarray(result["episode_successes"], bool)
