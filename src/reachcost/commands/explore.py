"""`reachcost explore`: a local page with the live model."""

from __future__ import annotations

import webbrowser
from typing import TYPE_CHECKING

import reachcost as rc
from reachcost.commands import console, say
from reachcost.commands.options import DefaultTask, Device, Flag, OptionalText, TrustPickle, model_option, task_option
from reachcost.core.machine import Terminated
from reachcost.errors import ReachcostError

if TYPE_CHECKING:
    from reachcost.core.progress import Progress
    from reachcost.explorer.engine import ModelWithCosts

EPISODES = 200
"""Number of logged episodes for the action statistics of world models that lack them."""


def explore(
    task: DefaultTask = None,
    model: tuple[str, ...] = (),
    head: OptionalText = None,
    port: int = 0,
    open: Flag = True,
    trust_pickle: TrustPickle = False,
    device: Device = "auto",
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
    from reachcost.core.devices import use_device
    from reachcost.core.progress import ConsoleProgress
    from reachcost.explorer.engine import Engine

    use_device(device)
    world, progress = task_option(task), ConsoleProgress(console)
    world.plane()  # refuses a world without one before anything is loaded
    names = model or default_models(world)[: None if head is None else 1]
    heads = (head, *(None for _ in names[1:]))
    models = {
        name: _with_costs(world, name, given, trust_pickle, progress) for name, given in zip(names, heads, strict=True)
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
    from reachcost.explorer.heads import knows_layouts

    if not task.models:
        raise ReachcostError(f"no world model is bundled with {task.name}: name one with --model")
    local = {name for name, directory in rc.zoo().items() if directory is not None}
    others = [name for name in task.models if knows_layouts(task, name) and name in local]
    return tuple(dict.fromkeys([task.models[0], *others[:1]]))


def _with_costs(task: rc.Task, name: str, head: str | None, trust_pickle: bool, progress: Progress) -> ModelWithCosts:
    """A world model with latent distance and, if there is a head or logs to fit one on, the repaired cost."""
    from reachcost.core.progress import escape_hidden
    from reachcost.costs.checks import require_one_model
    from reachcost.explorer.engine import ModelWithCosts
    from reachcost.explorer.heads import knows_layouts, repaired_head

    logs = task.generate_logs(EPISODES) if task.offers("generate_logs") else None
    model = model_option(name, task=task, logs=logs, trust_pickle=trust_pickle)
    all_layouts = head is None and knows_layouts(task, name)
    if head is None and logs is None:
        say(f"{escape_hidden(task.name)} logs nothing to fit a head on: give --head to see a repaired cost")
        return ModelWithCosts(model, {"raw": rc.LatentMSE()})
    fitted = rc.load_head(head) if head is not None else repaired_head(task, model, all_layouts, progress)
    costs = {"raw": rc.LatentMSE(), "repaired": rc.HeadCost(fitted)}
    require_one_model(costs, model)
    return ModelWithCosts(model, costs, all_layouts)
