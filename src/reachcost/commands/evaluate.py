"""`reachcost evaluate`: before and after a repair, in stable-worldmodel's own evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reachcost.commands import cem, console, require_least, require_new, require_writable
from reachcost.commands.options import evaluation_option, logs_option, model_option, task_option
from reachcost.errors import ReachcostError

if TYPE_CHECKING:
    from reachcost.data.evaluation import EvaluationSet
    from reachcost.data.logs import Logs
    from reachcost.tasks.contract import Task


def evaluate(
    model: str,
    head: str,
    logs: Path | None = None,
    task: str | None = None,
    held_out: Path | None = None,
    goal_offset: int | None = None,
    evaluation: str | None = None,
    episodes: int = 50,
    weight: float | None = None,
    candidates: int = 300,
    iterations: int = 10,
    from_logs: bool = False,
    seed: int = 0,
    out: Path | None = None,
    trust_pickle: bool = False,
    device: str = "auto",
) -> None:
    """Compare success before and after a repair in stable-worldmodel's own World.evaluate.

    Args:
        model: A name that `rc.zoo()` lists, a directory of `reachcost train-model`, a checkpoint of stable-worldmodel,
            or hf://user/name: a JEPA, as stable-worldmodel plans with. Others are evaluated in Python, by rc.control.
        head: Directory of the head, or hf://user/name.
        logs: Dataset the head was fitted on. A public checkpoint needs it for the statistics of its actions.
        task: A world that stable-worldmodel has, too; by default the first of ours.
        held_out: Dataset that the head has not seen, to take starts and goals from, in place of an evaluation set.
        goal_offset: Steps between start and goal in it; by default 25.
        evaluation: Evaluation set of the task; by default its first.
        episodes: Starts and goals.
        weight: Add that much of the head to latent distance, each standardised, in place of replacing it.
        candidates: Candidate action sequences of the planner; a tenth are elites.
        iterations: Rounds of the planner.
        from_logs: Begin plans with what the --logs know of the way: --candidates 37 --iterations 5 are then enough.
        seed: Of the planner, and of starts and goals taken from a dataset.
        out: Directory for the table, as tables/*.json and .md in it.
        trust_pickle: Load an old pickled checkpoint, which can run any code it contains.
        device: Where to compute, cpu, cuda or another of torch; by default a GPU if there is one.
    """
    from reachcost.core.devices import use_device
    from reachcost.core.progress import ConsoleProgress
    from reachcost.data.latents import encode_logs
    from reachcost.heads.storage import load_head
    from reachcost.swm.evaluation import compare_in_world, doubt_of, table_name
    from reachcost.swm.package import import_stable_worldmodel
    from reachcost.worldmodels.jepa import JepaWorldModel

    use_device(device)
    require_least(0, seed=seed)
    if from_logs and logs is None:
        raise ReachcostError("--from-logs begins with what was logged: give the --logs")
    if out is not None:
        require_writable(out / "tables")
    world, planner = task_option(task), cem(candidates, iterations)
    opened = None if logs is None else logs_option(logs, world)
    loaded = model_option(model, task=world, logs=opened, trust_pickle=trust_pickle)
    if not isinstance(loaded, JepaWorldModel):
        raise ReachcostError(f"{model} is a {type(loaded).__name__}, not a JEPA: evaluate it in Python, by rc.control")
    fitted = load_head(head)
    complete, goals = _goals(world, evaluation, held_out, goal_offset, episodes, seed)
    if out is not None:
        require_new(out / "tables" / f"{table_name(goals, weight, from_logs)}.json")
    import_stable_worldmodel()
    doubt, progress = doubt_of(fitted, complete, opened), ConsoleProgress(console)
    known = encode_logs(loaded, opened, progress=progress) if from_logs and opened is not None else None
    table = compare_in_world(world, loaded, fitted, goals, weight, planner, seed, doubt, known, progress)
    console.print(table.terminal(f"{len(goals)} episodes of {goals.name}"))
    change = table.provenance["change"]
    console.print(
        f"the repair changes success by {change['points']:+.0f} points, {change['interval'][0]:+.0f} to "
        f"{change['interval'][1]:+.0f}: {change['gained']} gained, {change['lost']} lost",
        highlight=False,
    )
    if doubt is not None:
        console.print(f"note: {doubt}", highlight=False)
    if out is not None:
        table.write(out)
        console.print(f"{out / 'tables' / table.name}.md", highlight=False, soft_wrap=True)


def _goals(
    world: Task, evaluation: str | None, held_out: Path | None, offset: int | None, episodes: int, seed: int
) -> tuple[EvaluationSet, EvaluationSet]:
    """The whole set that starts and goals come from, and those of it that are wanted."""
    from reachcost.data.evaluation import logged_goals

    if held_out is None:
        if offset is not None:
            raise ReachcostError(f"--goal-offset {offset} is within a dataset: give one with --held-out")
        complete = evaluation_option(world, evaluation)
        return complete, complete.spread(episodes)
    if evaluation is not None:
        raise ReachcostError(f"goals come from --evaluation {evaluation} or from --held-out {held_out}: give one")
    logs = logs_option(held_out, world)
    _require_public_frames(world, logs, held_out)
    drawn = logged_goals(logs, 25 if offset is None else offset, episodes, seed)
    return drawn, drawn


def _require_public_frames(world: Task, logs: Logs, path: Path) -> None:
    """Refuse a dataset of another world, where starts and goals would not be what they were."""
    import numpy as np

    from reachcost.data.observations import frames_of_size

    if "pixels" not in logs.columns or "state" not in logs.columns:
        return
    rows = np.linspace(0, logs.rows - 1, 8).astype(int)
    stored = np.stack([logs.columns["pixels"][row] for row in rows])
    # Means over areas as wide as a wall: what compressing and shrinking change is small there.
    coarse = [
        frames_of_size({"pixels": some}, 16).astype(int) for some in (stored, world.render(logs.columns["state"][rows]))
    ]
    if (difference := np.abs(coarse[0] - coarse[1]).max()) > 40:
        raise ReachcostError(
            f"{path}: its frames differ from those of {world.world} by {difference} of 255: give logs of that world"
        )
