"""TwoRoom in the suite: a wall with a door, seen in pixels by a bundled world model."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
from torch import Tensor

from reachcost.core.seeding import generator
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.probe import fit_probe
from reachcost.protocols import WorldModel
from reachcost.tasks.registry import make_task
from reachcost.worldmodels.loading import load_world_model
from reachcost_paper.worlds.sight import Blind
from reachcost_paper.worlds.tasks import EPISODES, SEEDS

NAME, MODEL, RULE = "tworoom", "lewm-tworoom-3072", "high-distance"
FIRST_SOURCE, SOURCES = 200, 500
"""First seed and number of episodes of the logs that evaluation sets are sampled from."""
LOW, HIGH, PROBED = 20.0, 204.0, 1500
"""Range and number of places that a probe is fitted on."""
DOORWAY = 40.0


@lru_cache
def bundled_model() -> WorldModel:
    """The model, loaded once."""
    return load_world_model(MODEL)


@lru_cache
def evaluation_set(part: str) -> EvaluationSet:
    """Starts and goals far apart, half of them on different sides of the wall."""
    task, seed = make_task(NAME), SEEDS[part]
    source = task.generate_logs(SOURCES, FIRST_SOURCE + seed)
    return replace(task.draw_evaluation_set(RULE, source, seed).spread(EPISODES), name=part)


@lru_cache
def _lost_height() -> tuple[Tensor, Tensor, Tensor]:
    """Weight and bias of a probe of x, and the latents of a horizontal line [P, D], one per pixel."""
    task, model = make_task(NAME), bundled_model()
    places = generator(0, "bundled-probe").uniform(LOW, HIGH, (PROBED, 2)).astype(np.float32)
    probe = fit_probe(model.encode(task.observe(places)), places[:, :1])
    line = np.arange(LOW, HIGH + 1, dtype=np.float32)
    level = np.stack([line, np.full_like(line, (LOW + HIGH) / 2)], axis=1)
    return probe.weight, probe.bias, model.encode(task.observe(level))


def lose_height(model: WorldModel) -> Blind:
    """A model that encodes every place as if it were at half the height, by a table of latents indexed by x."""
    weight, bias, line = _lost_height()

    def lose(latents: Tensor) -> Tensor:
        return line[((latents @ weight + bias)[:, 0] - LOW).round().long().clamp(0, len(line) - 1)]

    return Blind(model, lose, "the height")


def by_the_door(states: np.ndarray) -> np.ndarray:
    """Within 40 px of the doorway."""
    return np.asarray(make_task(NAME).layout.door_distance(np.asarray(states)) < DOORWAY)
