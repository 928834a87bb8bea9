"""`reachcost evaluate`: success before and after a repair, measured by stable-worldmodel."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import reachcost as rc
from reachcost.commands import console, options, say
from reachcost.errors import ReachcostError


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
    from reachcost.core.progress import ConsoleProgress
    from reachcost.swm.evaluation import compare_in_world, import_stable_worldmodel, table_name, warning_of
    from reachcost.worldmodels.jepa import JepaWorldModel

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
