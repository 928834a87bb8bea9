"""`reachcost explore`: a local page with live world models and their costs."""

from __future__ import annotations

import hashlib
import json
import webbrowser
from typing import TYPE_CHECKING, Annotated

import reachcost as rc
from reachcost.commands import console, options, say
from reachcost.core.machine import Terminated
from reachcost.errors import ReachcostError

if TYPE_CHECKING:
    from reachcost.core.progress import Progress
    from reachcost.explorer.engine import ModelWithCosts
    from reachcost.fitting.repair import LabelledRecipe
    from reachcost.heads.base import LearnedHead

EPISODES = 200
"""Number of logged episodes for the action statistics of world models that lack them."""
HEAD_EPISODES, HEAD_PAIRS, HEAD_SEED = 3000, 50_000, 0
"""Logged episodes, pairs per epoch and seed of a default head: half a minute on two cores."""
LAYOUT_EPISODES = 12
"""Number of episodes in each layout, for a head for all layouts."""
HEAD_FORMAT = "reachcost-explored-head/2"


def explore(
    task: options.DefaultTask = None,
    model: Annotated[tuple[str, ...], options.shown_as("[STR ...]")] = (),
    head: options.OptionalText = None,
    port: Annotated[int, options.shown_as("INT")] = 0,
    open: options.Flag = True,
    loading: options.LoadOptions = options.LOAD,
) -> None:
    """Show a planner under two costs on a local page: click a start and a goal (pip install 'reachcost[ui]').

    The page is served on this machine only, at an address that contains a secret. Ctrl-C ends it.

    Args:
        model: World models to choose from on the page: names that `rc.zoo()` lists, directories of
            `reachcost train-model`, checkpoints of stable-worldmodel, hf://user/name, or custom ones as module:factory
            or file.py:factory. By default the first bundled model of the task, and one trained in its other layouts.
        head: Directory of the head of the first world model, or hf://user/name. By default a head is fitted on logs of
            the task for each world model and stored; the first time, this takes half a minute for each.
        port: Port of the page; by default any that is free.
        open: Do not open the page in a browser.
    """
    try:
        from reachcost.explorer.server import serve
    except ModuleNotFoundError as error:
        raise ReachcostError(f"the page needs a server ({error}): pip install 'reachcost[ui]'") from error
    from reachcost.core.progress import ConsoleProgress
    from reachcost.explorer.engine import Engine

    loading.prepare()
    world, progress = options.task_option(task), ConsoleProgress(console)
    world.plane()  # refuses a world without one before anything is loaded
    names = model or default_models(world)[: None if head is None else 1]
    heads = (head, *(None for _ in names[1:]))
    models = {
        name: _with_costs(world, name, given, loading, progress) for name, given in zip(names, heads, strict=True)
    }

    def ready(address: str) -> None:
        say(address)
        console.print("Ctrl-C ends it", style="dim")
        if open:
            webbrowser.open(address)

    try:
        serve(Engine(world, models), port, ready)
    except Terminated:
        raise
    except KeyboardInterrupt:  # the normal end
        pass


def default_models(task: rc.Task) -> tuple[str, ...]:
    """The first world model of the task, and one trained in its other layouts if this machine has it."""
    if not task.models:
        raise ReachcostError(f"no world model is bundled with {task.name}: name one with --model")
    local = {name for name, directory in rc.zoo().items() if directory is not None}
    others = [name for name in task.models if knows_layouts(task, name) and name in local]
    return tuple(dict.fromkeys([task.models[0], *others[:1]]))


def knows_layouts(task: rc.Task, name: str) -> bool:
    """Whether a world model was trained in other layouts of this world."""
    if name not in task.models or not task.offers("handles"):
        return False
    return all(name in task.moved(handle.name, round(1 - handle.value)).models for handle in task.handles())


def _with_costs(
    task: rc.Task, name: str, head: str | None, loading: options.Loading, progress: Progress
) -> ModelWithCosts:
    """A world model with latent distance and, if there is a head or logs to fit one on, the repaired cost."""
    from reachcost.core.progress import escape_hidden
    from reachcost.costs.checks import require_one_model
    from reachcost.explorer.engine import ModelWithCosts

    logs = task.generate_logs(EPISODES) if task.offers("generate_logs") else None
    model = loading.load(name, task, logs)
    all_layouts = head is None and knows_layouts(task, name)
    if head is None and logs is None:
        say(f"{escape_hidden(task.name)} logs nothing to fit a head on: give --head to see a repaired cost")
        return ModelWithCosts(model, {"raw": rc.LatentMSE()})
    fitted = rc.load_head(head) if head is not None else repaired_head(task, model, all_layouts, progress)
    costs = {"raw": rc.LatentMSE(), "repaired": rc.HeadCost(fitted)}
    require_one_model(costs, model)
    return ModelWithCosts(model, costs, all_layouts)


def repaired_head(
    task: rc.Task,
    model: rc.WorldModel,
    all_layouts: bool,
    progress: Progress,
    episodes: int = HEAD_EPISODES,
    pairs: int = HEAD_PAIRS,
    recipe: LabelledRecipe | None = None,
) -> LearnedHead:
    """A head on generated logs of the task, from the cache if it is there; `all_layouts` fits it on many layouts."""
    from reachcost.core.files import cache_directory
    from reachcost.data.models import fingerprint_of

    recipe = recipe or rc.fitting.LabelledRecipe(labels="temporal")
    known, directory = fingerprint_of(model), None
    if known is not None:
        few = task.generate_logs(LAYOUT_EPISODES, seed=HEAD_SEED).fingerprint  # shows whether the task changed
        made_of = [HEAD_FORMAT, known, task.world, few, all_layouts, episodes, pairs, HEAD_SEED, repr(recipe)]
        key = hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:32]
        directory = cache_directory().expanduser() / "heads" / key
        if directory.exists():
            progress.reused("repaired cost")
            return rc.load_head(directory)
    if all_layouts:
        latents, exclude = _latents_of_layouts(task, model, episodes, progress), None
    else:
        latents = rc.encode_logs(model, task.generate_logs(episodes, seed=HEAD_SEED), progress=progress)
        exclude = [task.evaluation_set(name) for name in task.sets]
    head = rc.repair(
        model, latents, exclude=exclude, pairs=pairs, recipe=recipe, seed=HEAD_SEED, references=False, progress=progress
    )
    if directory is not None and not directory.exists():
        rc.save_head(head, directory)
    return head


def _latents_of_layouts(task: rc.Task, model: rc.WorldModel, episodes: int, progress: Progress) -> rc.Latents:
    """Logs of random layouts of the world, encoded with the frames of their layout."""
    import numpy as np
    import torch

    from reachcost.core.seeding import generator

    parts = []
    progress.step("latents")
    for number in progress.track(range(-(-episodes // LAYOUT_EPISODES)), "layouts"):
        rng, world = generator(HEAD_SEED, "explored-layout", number), task
        for handle in task.handles():
            world = world.moved(handle.name, rng.random())
        logs = world.generate_logs(LAYOUT_EPISODES, seed=int(rng.integers(2**31)))
        parts.append(rc.encode_logs(model, logs, cache=False))
    columns = {name: np.concatenate([part.logs.columns[name] for part in parts]) for name in ("state", "action")}
    lengths = np.concatenate([part.logs.lengths for part in parts])
    return rc.Latents(torch.cat([part.values for part in parts]), rc.Logs(columns, lengths), parts[0].model)
