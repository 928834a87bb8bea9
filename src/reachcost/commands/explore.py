"""`reachcost explore`: a local page with the live model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reachcost.commands import console
from reachcost.commands.options import model_option, task_option
from reachcost.core.machine import Terminated
from reachcost.errors import ReachcostError

if TYPE_CHECKING:
    from reachcost.core.progress import Progress
    from reachcost.explorer.engine import ModelWithCosts
    from reachcost.tasks.contract import Task


SOME = 200
"""Logged episodes that tell a world model without statistics of actions what they are."""


def explore(
    task: str | None = None,
    model: tuple[str, ...] = (),
    head: str | None = None,
    port: int = 0,
    open: bool = True,
    trust_pickle: bool = False,
    device: str = "auto",
) -> None:
    """Click a start and a goal on a local page, and watch a planner under two costs (pip install 'reachcost[ui]').

    The page is served on this machine alone, at an address with a secret in it; Ctrl-C ends it.

    Args:
        task: The world, which must be a plane, or your own, module:Class or file.py:Class.
        model: World models to choose from on the page; by default one that comes with the task, and one that knows its
            other layouts. Each is a name that `rc.zoo()` lists, a directory of `reachcost train-model`, a checkpoint of
            stable-worldmodel, hf://user/name, or your own, as module:factory or file.py:factory.
        head: Directory of the head behind the repaired cost of the first of them, or hf://user/name. Without it one is
            fitted on logs of the task and kept, half a minute each the first time.
        port: Where to serve; 0 takes any that is free.
        open: Open the page in a browser.
        trust_pickle: Load an old pickled checkpoint, which can run any code it contains.
        device: Where to compute, cpu, cuda or another of torch; by default a GPU if there is one.
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
    world.plane()  # a world without one is refused before anything is loaded
    names = model or usual_models(world)[: None if head is None else 1]
    heads = (head, *(None for _ in names[1:]))
    models = {
        name: _planned(world, name, given, trust_pickle, progress) for name, given in zip(names, heads, strict=True)
    }

    def ready(address: str) -> None:
        console.print(address, markup=False, highlight=False, soft_wrap=True)
        console.print("Ctrl-C ends it", style="dim")
        if open:
            _show(address)

    try:
        serve(Engine(world, models), port, ready)
    except Terminated:
        raise
    except KeyboardInterrupt:  # the usual way to end it
        pass


def usual_models(task: Task) -> tuple[str, ...]:
    """Default world models: the first of the task, and one that knows its other layouts if it is on this machine."""
    from reachcost.explorer.heads import knows_layouts
    from reachcost.worldmodels.loading import zoo

    if not task.models:
        raise ReachcostError(f"no world model comes with {task.name}: name yours, --model")
    here = {name for name, directory in zoo().items() if directory is not None}
    others = [name for name in task.models if knows_layouts(task, name) and name in here]
    return tuple(dict.fromkeys([task.models[0], *others[:1]]))


def _planned(task: Task, name: str, head: str | None, trust_pickle: bool, progress: Progress) -> ModelWithCosts:
    """A world model with its costs; without logs to learn from, latent distance is the only one."""
    from reachcost.core.progress import escape_hidden
    from reachcost.costs.checks import require_one_model
    from reachcost.costs.latent import HeadCost, LatentMSE
    from reachcost.explorer.engine import ModelWithCosts
    from reachcost.explorer.heads import knows_layouts, repaired_head
    from reachcost.heads.storage import load_head

    logs = task.generate_logs(SOME) if task.offers("generate_logs") else None
    model = model_option(name, task=task, logs=logs, trust_pickle=trust_pickle)
    all_layouts = head is None and knows_layouts(task, name)
    if head is None and logs is None:
        told = f"{escape_hidden(task.name)} logs nothing to fit a head on: give --head to see a repaired cost"
        console.print(told, markup=False, highlight=False)
        return ModelWithCosts(model, {"raw": LatentMSE()})
    fitted = load_head(head) if head is not None else repaired_head(task, model, all_layouts, progress)
    costs = {"raw": LatentMSE(), "repaired": HeadCost(fitted)}
    require_one_model(costs, model)
    return ModelWithCosts(model, costs, all_layouts)


def _show(address: str) -> None:
    """Open a page in a browser with windows; one within the terminal would hide what is printed there."""
    import webbrowser

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return
    if type(browser) is not webbrowser.GenericBrowser:
        browser.open(address)
