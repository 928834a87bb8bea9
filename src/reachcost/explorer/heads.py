"""The default repaired cost of the page: a head on generated logs of the task, kept in the cache."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import torch

from reachcost.core.files import cache_directory
from reachcost.core.progress import Progress
from reachcost.core.seeding import generator
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.data.models import fingerprint_of
from reachcost.fitting.repair import LabelledRecipe, repair
from reachcost.heads.base import LearnedHead
from reachcost.heads.storage import load_head, save_head
from reachcost.protocols import WorldModel
from reachcost.tasks.contract import Task

EPISODES, PAIRS, SEED = 3000, 50_000, 0  # logged episodes, and pairs per epoch: half a minute on two cores
EPISODES_OF_A_LAYOUT = 12  # number of episodes in each layout, for a head for all layouts
RECIPE = LabelledRecipe(labels="temporal")
FORMAT = "reachcost-explored-head/2"


def knows_layouts(task: Task, name: str) -> bool:
    """Whether a world model was trained in other layouts of this world."""
    if name not in task.models or not task.offers("handles"):
        return False
    return all(name in task.moved(handle.name, round(1 - handle.value)).models for handle in task.handles())


def repaired_head(
    task: Task, model: WorldModel, all_layouts: bool, progress: Progress, episodes: int = EPISODES, pairs: int = PAIRS
) -> LearnedHead:
    """A head on logged times of the task, from the cache if it is there; `all_layouts` fits it on many layouts."""
    known, directory = fingerprint_of(model), None
    if known is not None:
        few = task.generate_logs(EPISODES_OF_A_LAYOUT, seed=SEED).fingerprint  # shows whether the task changed
        made_of = [FORMAT, known, task.world, few, all_layouts, episodes, pairs, SEED, repr(RECIPE)]
        key = hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:32]
        directory = cache_directory().expanduser() / "heads" / key
        if directory.exists():
            progress.reused("repaired cost")
            return load_head(directory)
    if all_layouts:
        latents, exclude = _latents_of_layouts(task, model, episodes, progress), None
    else:
        latents = encode_logs(model, task.generate_logs(episodes, seed=SEED), progress=progress)
        exclude = [task.evaluation_set(name) for name in task.sets]
    head = repair(
        model, latents, exclude=exclude, pairs=pairs, recipe=RECIPE, seed=SEED, references=False, progress=progress
    )
    if directory is not None and not directory.exists():
        save_head(head, directory)
    return head


def _latents_of_layouts(task: Task, model: WorldModel, episodes: int, progress: Progress) -> Latents:
    """Logs of random layouts of the world, encoded with the frames of their layout."""
    parts = []
    progress.step("latents")
    for number in progress.track(range(-(-episodes // EPISODES_OF_A_LAYOUT)), "layouts"):
        rng, world = generator(SEED, "explored-layout", number), task
        for handle in task.handles():
            world = world.moved(handle.name, rng.random())
        logs = world.generate_logs(EPISODES_OF_A_LAYOUT, seed=int(rng.integers(2**31)))
        parts.append(encode_logs(model, logs, cache=False))
    columns = {name: np.concatenate([part.logs.columns[name] for part in parts]) for name in ("state", "action")}
    lengths = np.concatenate([part.logs.lengths for part in parts])
    return Latents(torch.cat([part.values for part in parts]), Logs(columns, lengths), parts[0].model)
