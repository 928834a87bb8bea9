"""The repair inside stable-worldmodel: its environment, its CEM, its `World.evaluate`; only the cost changes.

Run it with `make swm-example`; it needs the extra `swm`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import stable_worldmodel as swm
from stable_worldmodel.data import HDF5Dataset
from stable_worldmodel.policy import PlanConfig, WorldModelPolicy
from stable_worldmodel.solver import CEMSolver

import reachcost as rc
from reachcost.swm import RepairedModel, SwmModel

PUT = [
    {"method": "_set_state", "args": {"state": {"value": "state"}}},
    {"method": "_set_goal_state", "args": {"goal_state": {"value": "goal_state"}}},
]


class Standardiser:
    """Actions as the model's logs have them, in the form that their policy expects."""

    def __init__(self, blocks: rc.ActionBlocks) -> None:
        self.mean, self.std = np.array(blocks.mean, np.float32), np.array(blocks.std, np.float32)

    def transform(self, actions: np.ndarray) -> np.ndarray:
        """Actions [..., a] to standardised ones."""
        return (actions - self.mean) / self.std

    def inverse_transform(self, actions: np.ndarray) -> np.ndarray:
        """Standardised actions [..., a] to actions."""
        return actions * self.std + self.mean


def main() -> None:
    """Compare latent distance with a head, 10 episodes each."""
    task, model = rc.make_task("tworoom"), rc.load_world_model("lewm-tworoom-3072")
    goals = task.evaluation_set("high-distance").spread(10)
    latents = rc.encode_logs(model, task.generate_logs(episodes=3000))
    head = rc.fit(rc.TemporalPairs(latents, exclude=goals))

    # Their evaluation starts and ends in a dataset: here two rows an episode, start and goal.
    pairs = np.stack([goals.starts, goals.goals], axis=1).reshape(-1, 2)
    logs = rc.Logs({"state": pairs, "action": np.zeros_like(pairs)}, np.full(len(goals), 2), task.observe)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "goals.h5"
        rc.write_logs(logs, path, render=task.render)
        dataset = HDF5Dataset(path=path)
        world = swm.World("swm/TwoRoom-v1", num_envs=len(goals), image_shape=(224, 224))
        for name, costs in {"raw": SwmModel(model), "trm": RepairedModel(SwmModel(model), head)}.items():
            plan = PlanConfig(horizon=5, receding_horizon=5, action_block=5)
            solver = CEMSolver(costs, batch_size=len(goals), n_steps=10)
            world.set_policy(WorldModelPolicy(solver, plan, process={"action": Standardiser(model.actions)}))
            result = world.evaluate(
                dataset=dataset,
                episodes_idx=list(range(len(goals))),
                start_steps=[0] * len(goals),
                goal_offset=1,
                eval_budget=50,
                callables=PUT,
            )
            print(f"{name} {result['success_rate']:.0f}%")


if __name__ == "__main__":
    main()
