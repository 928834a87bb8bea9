"""`reachcost fit`, `compare` and `evaluate`: repaired terminal costs, learned from logs, and what they change."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

import reachcost as rc
from reachcost.commands import command_line, console, console_table, name_page, options, say
from reachcost.core.progress import ConsoleProgress
from reachcost.errors import ReachcostError

if TYPE_CHECKING:
    from reachcost.heads.base import LearnedHead
    from reachcost.results.tables import ResultTable

LEARNED = {
    "temporal": "logged times",
    "stitched": "shortest logged paths",
    "imagined": "imagined paths",
    "mixed": "logged and imagined paths",
    "shuffled": "shuffled labels",
}


def fit(
    model: options.ModelName,
    logs: Path,
    out: Path,
    task: options.Renderer = None,
    recipe: Literal["default", "paper", "auto"] = "default",
    labels: Literal["temporal", "stitched", "imagined", "mixed", "auto"] = "auto",
    pairs: int = 100_000,
    seed: int = 0,
    shuffled: options.Flag = False,
    report: options.OptionalPath = None,
    loading: options.LoadOptions = options.LOAD,
) -> None:
    """Learn a terminal cost from logs that replaces the latent distance of a world model.

    It takes two or three minutes on a laptop. Evaluation sets of --task are kept out of training.

    Args:
        logs: Dataset in the format of stable-worldmodel (HDF5 or Lance), D4RL, Minari or npz. It needs frames, or
            states if --task renders them.
        out: Directory for the head.
        recipe: Training recipe: `default`; `paper`; or `auto`, the best of several on held-out logs, which takes about
            ten times as long. The last two use temporal labels.
        labels: Label source. `auto` (default) picks the best source that the logs support; `temporal` uses time gaps
            within episodes; `stitched` the shortest paths through all episodes; `imagined` trajectories that the world
            model predicts from logged frames, in any order; `mixed` both of the last two.
        pairs: Number of training pairs per epoch.
        seed: Seed of pairs and head.
        shuffled: Permute the labels. This head is a control that must fail.
        report: HTML file for a report: how the head learned, and maps of its cost.
    """
    from reachcost.audits.comparison import PAIRS, choose_recipe
    from reachcost.fitting.repair import LabelledRecipe

    loading.prepare()
    options.require_least(1, pairs=pairs)
    options.require_least(0, seed=seed)
    if recipe != "default" and labels not in ("auto", "temporal"):
        raise ReachcostError(f"--recipe {recipe} has temporal labels: leave --recipe or --labels out")
    options.require_new(out)
    options.require_page(report)
    options.require_writable(out.parent)
    progress = ConsoleProgress(console)
    world = None if task is None else options.task_option(task)
    opened = options.logs_option(logs, world)
    progress.step("latents")
    loaded = loading.load(model, world, opened)
    latents = rc.encode_logs(loaded, opened, progress=progress)
    sets = [] if world is None else [world.evaluation_set(name) for name in world.sets]
    chosen_recipe = LabelledRecipe(rc.Recipe.paper()) if recipe == "paper" else LabelledRecipe(labels=labels)
    if recipe == "auto":
        choice = choose_recipe(loaded, latents, exclude=sets, pairs=min(pairs, PAIRS), seed=seed, progress=progress)
        console.print(choice.table.terminal(f"held-out logs, {choice.table.rows[0].n} goals"))
        say(f"recipe: {choice.name}, as {choice.reason}")
        chosen_recipe = choice.best
    head = rc.repair(
        loaded,
        latents,
        exclude=sets,
        pairs=pairs,
        recipe=chosen_recipe,
        seed=seed,
        shuffled=shuffled,
        progress=progress,
    )
    rc.save_head(head, out)
    console.print(_errors(head.record))
    learned = head.record["pairs"]
    source = learned.get("shuffled", learned["labels"])
    if chosen := learned.get("chosen"):
        refused = [f"\n  not {name}: {reason}" for name, reasons in chosen["against"].items() for reason in reasons]
        say(f"labels: {source} ({LEARNED[source]}), as {chosen['reason']}{''.join(refused)}")
    excluded = learned.get("exclusion", {}).get("excluded_episodes", 0)
    kept_out = f", {excluded} logged episodes left out, as they contain evaluation states" if sets else ""
    say(f"{out}: a head on {LEARNED[learned['labels']]}, {pairs:,} pairs an epoch{kept_out}")
    given = shlex.join(["--model", str(model), "--logs", str(logs), "--head", str(out)])
    chosen_task = f"--task {shlex.quote(task)}" if task else ""
    say(f"next: reachcost audit {given} {chosen_task or '--held-out UNSEEN_LOGS'}")
    if world is not None and world.public:
        say(f"or in stable-worldmodel: reachcost evaluate {given} {chosen_task}")
    if report is not None:
        _report_heads(report, "reachcost fit", {out.name: head}, world, loaded, latents)


def _errors(record: dict[str, Any]) -> Any:
    """Validation errors of a head, and of heads that cannot learn anything."""
    references = record["references"]
    this = {"loss": record["validation_loss"], "rmse": record["validation_rmse"]}
    what = "imagined trajectories" if "trajectories" in record["pairs"] else "episodes"
    title = f"validation, {'held-out ' if references['held_out'] else ''}{what}: {references['episodes']}"
    table = console_table("", "loss", "RMSE in steps", title=title)
    rows = {"this head": this, "best constant": references["constant"], "shuffled labels": references.get("shuffled")}
    for name, error in rows.items():
        if error is not None:
            table.add_row(name, f"{error['loss']:.4g}", f"{error['rmse']:.3g}")
    return table


def compare(
    heads: Annotated[tuple[str, ...], tyro.conf.Positional, options.shown_as("HEADS")],
    model: options.ModelName,
    logs: Path,
    task: options.Renderer = None,
    seed: int = 0,
    out: options.OptionalPath = None,
    report: options.OptionalPath = None,
    loading: options.LoadOptions = options.LOAD,
) -> None:
    """Compare heads on logs that no head was fitted on: how well they rank states, and how large their errors are.

    Args:
        heads: Directories of heads, or hf://user/name.
        logs: Dataset that no head was fitted on. It needs frames, or states if --task renders them.
        seed: Seed of the sampled goals and pairs.
        out: Directory for the table: OUT/tables/heads.json and .md.
        report: HTML file for a report with the table, and with maps of each head.
    """
    from reachcost.audits.comparison import compare_heads

    loading.prepare()
    options.require_least(0, seed=seed)
    if not heads:
        raise ReachcostError("there are no heads to compare: name directories of `reachcost fit`")
    if len({*heads}) < len(heads):
        raise ReachcostError("a head is named twice: name each once")
    if out is not None:
        options.require_new(out / "tables" / "heads.json")
        options.require_writable(out / "tables")
    options.require_page(report)
    short = [head.rstrip("/").rpartition("/")[2] for head in heads]
    names = short if len({*short}) == len(heads) else heads
    loaded_heads = dict(zip(names, map(rc.load_head, heads), strict=True))
    world = None if task is None else options.task_option(task)
    opened = options.logs_option(logs, world)
    loaded = loading.load(model, world, opened)
    table = compare_heads(loaded_heads, loaded, opened, seed=seed, progress=ConsoleProgress(console))
    console.print(table.terminal(f"{len(opened)} episodes, {table.rows[0].n} goals"))
    console.print(table.note, highlight=False)
    if out is not None:
        table.write(out)
        say(f"{out / 'tables' / table.name}.md")
    if report is not None:
        latents = rc.encode_logs(loaded, opened)
        _report_heads(report, "reachcost compare", loaded_heads, world, loaded, latents, table)


def evaluate(
    model: options.ModelName,
    head: str,
    logs: options.OptionalPath = None,
    task: options.DefaultTask = None,
    held_out: options.OptionalPath = None,
    goal_offset: options.OptionalInt = None,
    evaluation: options.OptionalText = None,
    episodes: int = 50,
    weight: Annotated[float | None, options.shown_as("FLOAT")] = None,
    candidates: int = 300,
    iterations: int = 10,
    from_logs: options.Flag = False,
    seed: int = 0,
    out: options.OptionalPath = None,
    loading: options.LoadOptions = options.LOAD,
) -> None:
    """Compare success before and after a repair in `World.evaluate` of stable-worldmodel.

    It requires a JEPA model and a world of stable-worldmodel. Evaluate others in Python, with `rc.control`.

    Args:
        head: Directory of the head, or hf://user/name.
        logs: Dataset that the head was fitted on. A public checkpoint needs it for the statistics of its actions.
        held_out: Dataset that the head was not fitted on, for starts and goals instead of an evaluation set.
        goal_offset: Number of steps between start and goal in that dataset; by default 25.
        evaluation: Evaluation set of the task; by default its first.
        episodes: Number of episodes.
        weight: Weight of the head in a sum with latent distance, both standardised. By default the head replaces
            latent distance.
        candidates: Number of candidate action sequences per iteration of the planner; a tenth are elites.
        iterations: Number of iterations of the planner.
        from_logs: Start plans from action sequences in --logs: --candidates 37 --iterations 5 are then enough.
        seed: Seed of the planner, and of starts and goals from a dataset.
        out: Directory for the table, which is written to OUT/tables as .json and .md.
    """
    from reachcost.swm.evaluation import compare_in_world, import_stable_worldmodel, table_name, warning_of
    from reachcost.worldmodels.jepa import JepaWorldModel

    loading.prepare()
    options.require_least(0, seed=seed)
    if from_logs and logs is None:
        raise ReachcostError("--from-logs starts plans from logged actions: give --logs")
    if out is not None:
        options.require_writable(out / "tables")
    world, planner = options.task_option(task), options.planner_option(None, candidates, iterations)
    opened = None if logs is None else options.logs_option(logs, world)
    loaded = loading.load(model, world, opened)
    if not isinstance(loaded, JepaWorldModel):
        raise ReachcostError(f"{model} is a {type(loaded).__name__}, not a JEPA: evaluate it in Python with rc.control")
    fitted = rc.load_head(head)
    complete, goals = _goals(world, evaluation, held_out, goal_offset, episodes, seed)
    if out is not None:
        options.require_new(out / "tables" / f"{table_name(goals, weight, from_logs)}.json")
    import_stable_worldmodel()
    warning, progress = warning_of(fitted, complete, opened), ConsoleProgress(console)
    known = rc.encode_logs(loaded, opened, progress=progress) if from_logs and opened is not None else None
    table = compare_in_world(world, loaded, fitted, goals, weight, planner, seed, warning, known, progress)
    console.print(table.terminal(f"{len(goals)} episodes of {goals.name}"))
    change = table.provenance["change"]
    say(
        f"the repair changes success by {change['points']:+.0f} points, {change['interval'][0]:+.0f} to "
        f"{change['interval'][1]:+.0f}: {change['gained']} gained, {change['lost']} lost"
    )
    if warning is not None:
        say(f"note: {warning}")
    if out is not None:
        table.write(out)
        say(f"{out / 'tables' / table.name}.md")


def _goals(
    world: rc.Task, evaluation: str | None, held_out: Path | None, offset: int | None, episodes: int, seed: int
) -> tuple[rc.EvaluationSet, rc.EvaluationSet]:
    """The full evaluation set, and the episodes of it that are run."""
    from reachcost.data.evaluation import logged_goals

    if held_out is None:
        if offset is not None:
            raise ReachcostError(f"--goal-offset {offset} requires a dataset: give one with --held-out")
        complete = options.evaluation_option(world, evaluation)
        return complete, complete.spread(episodes)
    if evaluation is not None:
        raise ReachcostError(f"goals come from --evaluation {evaluation} or from --held-out {held_out}: give one")
    goals = logged_goals(options.logs_option(held_out, world), 25 if offset is None else offset, episodes, seed)
    return goals, goals


def _report_heads(
    out: Path,
    title: str,
    heads: Mapping[str, LearnedHead],
    task: rc.Task | None,
    model: rc.WorldModel,
    latents: rc.Latents,
    *tables: ResultTable,
) -> None:
    """Write a report about heads: how they learned, and their costs next to latent distance."""
    from reachcost.report.material import Material, Training

    named = {f"head {name}" if name in ("raw", "oracle") else name: head for name, head in heads.items()}
    records = {name: Training.of(head.record, name) for name, head in heads.items()}
    page = rc.Report(
        *tables,
        Material(heads=records, commands=(command_line(),)),
        task=task,
        model=model,
        costs={"raw": rc.LatentMSE(), **{name: rc.HeadCost(head) for name, head in named.items()}},
        evaluation=None if task is None or not task.sets else task.evaluation_set(task.sets[0]),
        logs=latents,
        title=title,
    )
    name_page(page.save(out))
