"""Quality of the bundled PushT models on fresh logs, which were not used for training or any choice.

`python -m reachcost_tools.bench.pusht_models` writes `results/benchmarks/pusht_models.json`. A linear probe,
fitted on one half of the episodes, reads the latents of the other half, encoded and predicted.
"""

import sys

import numpy as np
import torch

from reachcost.data.logs import Logs
from reachcost.data.probe import fit_probe
from reachcost.tasks.pusht import PushT
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.loading import load_world_model, zoo
from reachcost_tools.bench.record import publish

COORDINATES = ("agent x", "agent y", "block x", "block y", "sine", "cosine")
EPISODES, SEED, ROLLOUTS, HORIZON = 400, 79, 2000, 5


def main() -> None:
    """Measure every bundled model and print the results."""
    torch.set_num_threads(1)
    task = PushT()
    logs = task.generate_logs(EPISODES, seed=SEED)
    result = {name: measure(load_world_model(name), task, logs) for name in zoo() if "-pusht-" in name}
    for name, found in result.items():
        print(name, "R2", found["r2"])
        for row in found["rollouts"]:
            print("  ", "   ".join(f"{key} {value}" for key, value in row.items()))
    publish("pusht_models", result)
    if any(min(found["r2"][place] for place in COORDINATES[:4]) < 0.98 for found in result.values()):
        sys.exit("R2 of a position is below its target")


def measure(model: JepaWorldModel, task: PushT, logs: Logs) -> dict:
    """R2 of each coordinate; errors after 1 to 5 action blocks, of all windows and of those in which the T moves."""
    states, half = np.asarray(logs.columns["state"]), int(logs.offsets[len(logs) // 2])
    wanted, latents = task.coordinates(states), model.encode(logs.observations(slice(None)))
    probe = fit_probe(latents[:half], wanted[:half])
    error = probe(latents[half:]).numpy() - wanted[half:]
    r2 = 1 - (error**2).mean(0) / wanted[half:].var(0)
    starts = logs.window_starts(5 * HORIZON + 1)
    starts = np.random.default_rng(0).choice(starts[starts >= half], ROLLOUTS, replace=False)
    taken = np.asarray(logs.columns["action"])[starts[:, None] + np.arange(5 * HORIZON)]
    blocks = model.blocks(taken.reshape(-1, 1, HORIZON, 5, 2))
    moved = (states[starts + 5 * HORIZON, 2:5] != states[starts, 2:5]).any(1)
    rows = []
    for horizon in range(1, HORIZON + 1):
        read = probe(model.rollout(latents[starts][:, None], blocks[:, :, :horizon])[:, 0]).numpy()
        rows.append({"blocks": horizon, **errors(read, wanted[starts + 5 * horizon], moved)})
    return {"r2": dict(zip(COORDINATES, np.round(r2, 4).tolist(), strict=True)), "rollouts": rows}


def errors(read: np.ndarray, wanted: np.ndarray, moved: np.ndarray) -> dict[str, float]:
    """Mean distances in pixels and mean turn in degrees; the T's also where it moves."""
    apart = np.linalg.norm((read - wanted)[:, :4].reshape(-1, 2, 2), axis=2)
    turn = np.arctan2(read[:, 4], read[:, 5]) - np.arctan2(wanted[:, 4], wanted[:, 5])
    turn = np.degrees(np.abs((turn + np.pi) % (2 * np.pi) - np.pi))
    found = {
        "agent px": apart[:, 0].mean(),
        "block px": apart[:, 1].mean(),
        "angle degrees": turn.mean(),
        "moved block px": apart[moved, 1].mean(),
        "moved angle degrees": turn[moved].mean(),
        "moved angle median": np.median(turn[moved]),
    }
    return {name: round(float(value), 2) for name, value in found.items()}


if __name__ == "__main__":
    main()
