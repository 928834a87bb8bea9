"""`reachcost fit`: the repaired terminal cost of a world model."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich import box
from rich.table import Table

from reachcost.commands import (
    command_line,
    console,
    name_page,
    require_least,
    require_new,
    require_page,
    require_writable,
)
from reachcost.commands.options import head_name, logs_option, model_option, shown_set, task_option
from reachcost.errors import ReachcostError

if TYPE_CHECKING:
    from reachcost.core.progress import Progress
    from reachcost.data.evaluation import EvaluationSet
    from reachcost.data.latents import Latents
    from reachcost.fitting.labelled_recipe import LabelledRecipe, Labels

LEARNED = {
    "temporal": "logged times",
    "stitched": "shortest logged ways",
    "imagined": "imagined ways",
    "mixed": "logged and imagined ways",
    "shuffled": "shuffled labels",
}


def fit(
    model: str,
    logs: Path,
    out: Path,
    task: str | None = None,
    recipe: Literal["default", "paper", "auto"] = "default",
    labels: Literal["temporal", "stitched", "imagined", "mixed", "auto"] = "auto",
    pairs: int = 100_000,
    seed: int = 0,
    shuffled: bool = False,
    report: Path | None = None,
    trust_pickle: bool = False,
    device: str = "auto",
) -> None:
    """Fit a head on times: the repaired terminal cost of a world model. Two or three minutes on a laptop.

    Args:
        model: A name that `rc.zoo()` lists, a directory of `reachcost train-model`, a checkpoint of stable-worldmodel, hf://user/name,
            or your own, as module:factory or file.py:factory.
        logs: Dataset of stable-worldmodel (HDF5 or Lance), D4RL, Minari or npz, with frames, or with states alone if
            --task draws them.
        out: Directory for the head.
        task: The task that renders frames of logged states; its evaluation sets are kept out of training.
            A custom task is module:Class or file.py:Class.
        recipe: Training recipe: ours; the paper's (paper); or the best of several on held-out logs (auto), which takes
            about ten times as long. The last two use temporal labels.
        labels: Label source. `auto` (default) picks the best source that the logs support; `temporal` uses time gaps
            within episodes; `stitched` the shortest paths through all episodes; `imagined` trajectories that the world
            model predicts from logged frames, in any order; `mixed` both of the last two.
        pairs: Number of training pairs per epoch.
        seed: Seed of pairs and head.
        shuffled: Permute the labels: the control that must fail.
        report: HTML file for a report: how the head learned, and what it says about the world.
        trust_pickle: Load an old pickled checkpoint, which can run any code it contains.
        device: Where to compute, cpu, cuda or another of torch; by default a GPU if there is one.
    """
    from reachcost.core.devices import use_device
    from reachcost.core.progress import ConsoleProgress
    from reachcost.costs.latent import HeadCost, LatentMSE
    from reachcost.data.latents import encode_logs
    from reachcost.fitting.repair import repair
    from reachcost.heads.storage import save_head
    from reachcost.report.material import Material
    from reachcost.report.report import Report
    from reachcost.report.training import Training

    use_device(device)
    require_least(1, pairs=pairs)
    require_least(0, seed=seed)
    require_new(out)
    require_page(report)
    require_writable(out.parent)
    progress = ConsoleProgress(console)
    world = None if task is None else task_option(task)
    opened = logs_option(logs, world)
    progress.step("latents")
    loaded = model_option(model, task=world, logs=opened, trust_pickle=trust_pickle)
    latents = encode_logs(loaded, opened, progress=progress)
    sets = [] if world is None else [world.evaluation_set(name) for name in world.sets]
    head = repair(
        loaded,
        latents,
        exclude=sets,
        pairs=pairs,
        recipe=_recipe(recipe, labels, latents, sets, pairs, seed, progress),
        seed=seed,
        shuffled=shuffled,
        progress=progress,
    )
    save_head(head, out)
    console.print(_errors(head.record))
    drawn = head.record["pairs"]
    excluded = drawn.get("exclusion", {}).get("excluded_episodes", 0)
    kept_out = f", {excluded} evaluation episodes kept out" if sets else ""
    learned, source = LEARNED[drawn["labels"]], drawn.get("shuffled", drawn["labels"])
    if chosen := drawn.get("chosen"):
        doubts = "".join(f"\n  not {name}: {doubt}" for name, found in chosen["against"].items() for doubt in found)
        taken = f"labels: {source} ({LEARNED[source]}), as {chosen['reason']}{doubts}"
        console.print(taken, highlight=False, soft_wrap=True)
    given = shlex.join(["--model", str(model), "--logs", str(logs), "--head", str(out)])
    chosen_task = f"--task {shlex.quote(task)}" if task else ""
    there = f"\nor in stable-worldmodel: reachcost evaluate {given} {chosen_task}" if world and world.public else ""
    console.print(
        f"{out}: a head on {learned}, {pairs:,} pairs an epoch{kept_out}\n"
        f"next: reachcost audit {given} {chosen_task or '--held-out UNSEEN_LOGS'}"
        f"{there}",
        highlight=False,
        soft_wrap=True,
    )
    if report is not None:
        called = head_name(out.name)
        page = Report(
            Material(heads={called: Training.of(head.record, called)}, commands=(command_line(),)),
            task=world,
            model=loaded,
            costs={"raw": LatentMSE(), called: HeadCost(head)},
            evaluation=shown_set(world),
            logs=latents,
            title="reachcost fit",
        )
        name_page(page.save(report))


def _recipe(
    name: str,
    labels: Labels,
    latents: Latents,
    sets: list[EvaluationSet],
    pairs: int,
    seed: int,
    progress: Progress,
) -> LabelledRecipe:
    """The recipe that an option stands for; the best of several is shown among the others."""
    from reachcost.audits.comparison import PAIRS, choose_recipe
    from reachcost.fitting.labelled_recipe import LabelledRecipe
    from reachcost.heads.recipe import Recipe

    if name == "default":
        return LabelledRecipe(labels=labels)
    if labels not in ("auto", "temporal"):
        raise ReachcostError(f"--recipe {name} is for logged times: leave it out beside --labels {labels}")
    if name == "paper":
        return LabelledRecipe(Recipe.paper())
    choice = choose_recipe(latents, exclude=sets, pairs=min(pairs, PAIRS), seed=seed, progress=progress)
    console.print(choice.table.terminal(f"held-out logs, {choice.table.rows[0].n} goals"))
    console.print(f"recipe: {choice.name}, as {choice.reason}", highlight=False)
    return choice.best


def _errors(record: dict[str, Any]) -> Table:
    """Validation error beside those of heads that cannot know anything."""
    beside = record["references"]
    known = {"loss": record["validation_loss"], "rmse": record["validation_rmse"]}
    judges = "imagined trajectories" if "trajectories" in record["pairs"] else "episodes"
    title = f"validation, {'held-out ' if beside['held_out'] else ''}{judges}: {beside['episodes']}"
    table = Table("", "loss", "RMSE in steps", box=box.SIMPLE_HEAD, show_edge=False, title=title, title_justify="left")
    lines = {"this head": known, "best constant": beside["constant"], "shuffled labels": beside.get("shuffled")}
    for name, error in lines.items():
        if error is not None:
            table.add_row(name, f"{error['loss']:.4g}", f"{error['rmse']:.3g}")
    return table
