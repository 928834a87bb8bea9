"""Watch, fit, audit, evaluate, reproduce."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from reachcost.commands import console
from reachcost.errors import ReachcostError

if TYPE_CHECKING:
    from reachcost.data.evaluation import EvaluationSet
    from reachcost.data.logs import Logs
    from reachcost.planning.cem import CEM
    from reachcost.tasks.tworoom import TwoRoom


def demo(out: Path = Path("reachcost-demo"), episodes: int = 100, log_episodes: int = 10_000) -> None:
    """Watch a planner fail and be repaired (TwoRoom, a bundled world model, three minutes on two cores).

    Args:
        out: Directory for records, table and picture.
        episodes: Evaluation episodes, at most 100.
        log_episodes: Logged episodes that the head learns from.
    """
    from reachcost.base.progress import ConsoleProgress
    from reachcost.demo import run_demo

    if not 1 <= episodes <= 100:
        raise ReachcostError(f"the evaluation set has 100 episodes, not {episodes}: choose 1 to 100")
    start = time.perf_counter()
    table, picture = run_demo(out, ConsoleProgress(console), episodes=episodes, log_episodes=log_episodes)
    console.print(table.terminal(f"TwoRoom, {table.rows[0].n} episodes: only the terminal cost changes"))
    console.print(
        "raw is plain latent distance: it loses its way.\n"
        "trm learned from logged times alone: it goes through the door.\n"
        "trm-shuffled learned from permuted times; random is floor, oracle ceiling.\n"
        f"picture {picture or 'none: no episode was repaired, ask for more --episodes'}\n"
        f"table   {out / 'tables' / 'demo.md'}\n({time.perf_counter() - start:.0f} s)",
        highlight=False,
        soft_wrap=True,
    )


def fit(
    model: str,
    logs: Path,
    out: Path,
    task: Literal["tworoom"] | None = None,
    pairs: int = 100_000,
    seed: int = 0,
    shuffled: bool = False,
    trust_pickle: bool = False,
) -> None:
    """Fit a head on logged times: the repaired terminal cost of a world model. A minute or two on a laptop.

    Args:
        model: A bundled model, a directory of `reachcost train-model`, or a checkpoint of stable-worldmodel.
        logs: Dataset of stable-worldmodel: an HDF5 file or a Lance table, with frames, or with states alone if --task
            draws them.
        out: Directory for the head.
        task: Draws frames of logged states, and keeps the episodes of its evaluation sets out of training.
        pairs: Training pairs of an epoch.
        seed: Of pairs and head.
        shuffled: Permute the labels: the control that must fail.
        trust_pickle: Load an old pickled checkpoint, which can run any code it contains.
    """
    from reachcost.base.progress import ConsoleProgress
    from reachcost.data.latents import encode_logs
    from reachcost.data.logs.hdf5 import open_logs
    from reachcost.heads.storage import save_head
    from reachcost.repair.fitting import fit as fit_head
    from reachcost.repair.temporal import TemporalPairs
    from reachcost.tasks import make_task
    from reachcost.worldmodels.loading import load_world_model

    _require_new(out)
    progress = ConsoleProgress(console)
    world = None if task is None else make_task(task)
    opened = open_logs(logs, observe=None if world is None else world.observe)
    progress.step("latents")
    latents = encode_logs(load_world_model(model, logs=opened, trust_pickle=trust_pickle), opened, progress=progress)
    sets = [] if world is None else [world.evaluation_set(name) for name in world.evaluation_sets]
    drawn = TemporalPairs(latents, pairs, exclude=sets, holdout=0.1, seed=seed)
    progress.step("head")
    head = fit_head(drawn.shuffled() if shuffled else drawn, seed=seed, progress=progress)
    save_head(head, out)
    kept_out = f", {drawn.record['exclusion']['excluded_episodes']} evaluation episodes kept out" if sets else ""
    labels = "shuffled labels" if shuffled else "logged times"
    given = f"--model {model} --logs {logs} --head {out}"
    console.print(
        f"{out}: a head on {labels}, {pairs:,} pairs an epoch{kept_out}\n"
        f"next: reachcost audit {given} {f'--task {task}' if task else '--held-out UNSEEN_LOGS'}"
        f"{f'{chr(10)}or in stable-worldmodel: reachcost evaluate {given}' if task else ''}",
        highlight=False,
        soft_wrap=True,
    )


def audit(
    model: str,
    logs: Path,
    task: Literal["tworoom"] | None = None,
    head: str | None = None,
    held_out: Path | None = None,
    evaluation: str = "high-distance",
    episodes: int = 100,
    candidates: int = 300,
    iterations: int = 10,
    criteria: bool = True,
    logs_only: bool = False,
    out: Path | None = None,
    trust_pickle: bool = False,
) -> None:
    """Find out which stage of a planner is at fault: representation, dynamics, coverage, sampling, ranking, execution.

    Args:
        model: A bundled model, a directory of `reachcost train-model`, or a checkpoint of stable-worldmodel.
        logs: Dataset (HDF5 file or Lance table) that the head was fitted on (or would be), with frames, or with states
            if --task draws them.
        task: The simulated world. Without it the audit uses logs alone.
        head: Directory of the head behind the terminal cost, or hf://user/name; without it latent distance is audited.
        held_out: Dataset that the head has not seen, for an audit without simulator.
        evaluation: Evaluation set of the task.
        episodes: Episodes of it, spread over the set.
        candidates: Candidate action sequences of the planner; a tenth are elites.
        iterations: Rounds of the planner.
        criteria: Check the paper's falsification criteria, too: minutes more.
        logs_only: Let the task draw frames but leave its simulator alone, as with a real robot.
        out: JSON file for stages, verdict and criteria.
        trust_pickle: Load an old pickled checkpoint, which can run any code it contains.
    """
    from reachcost.audits.falsification import check_criteria
    from reachcost.audits.planner import PlannerAudit
    from reachcost.audits.show import show_audit, show_criteria, write_audit
    from reachcost.base.progress import ConsoleProgress
    from reachcost.costs.checks import require_one_model
    from reachcost.costs.head import HeadCost
    from reachcost.costs.latent import LatentMSE
    from reachcost.data.latents import encode_logs
    from reachcost.data.logs.hdf5 import open_logs
    from reachcost.heads.storage import load_head
    from reachcost.tasks import make_task
    from reachcost.worldmodels.loading import load_world_model

    if out is not None:
        _require_new(out)
    progress = ConsoleProgress(console)
    cost = LatentMSE() if head is None else HeadCost(load_head(head))
    planner = _planner(candidates, iterations)
    world = None if task is None else make_task(task)
    observe = None if world is None else world.observe
    opened = open_logs(logs, observe=observe)
    loaded = load_world_model(model, logs=opened, trust_pickle=trust_pickle)
    require_one_model({"head": cost}, loaded)
    progress.step("latents")
    latents = encode_logs(loaded, opened, progress=progress)
    unseen = None if held_out is None else encode_logs(loaded, open_logs(held_out, observe=observe), progress=progress)
    simulator = None if logs_only else world
    goals = None if simulator is None else simulator.evaluation_set(evaluation).spread(episodes)
    audited = PlannerAudit(loaded, latents, cost, simulator, goals, planner, unseen, progress=progress)
    show_audit(audited, console)
    checked = check_criteria(audited) if criteria else []
    if criteria:
        show_criteria(checked, console)
    if out is not None:
        write_audit(audited, checked, out)
        console.print(f"record: {out}", highlight=False)


def evaluate(
    model: str,
    head: str,
    logs: Path | None = None,
    held_out: Path | None = None,
    goal_offset: int | None = None,
    evaluation: str | None = None,
    episodes: int = 50,
    weight: float | None = None,
    candidates: int = 300,
    iterations: int = 10,
    seed: int = 0,
    out: Path | None = None,
    trust_pickle: bool = False,
) -> None:
    """Compare success before and after a repair in stable-worldmodel's own World.evaluate, on its TwoRoom.

    Args:
        model: A bundled model, a directory of `reachcost train-model`, or a checkpoint of stable-worldmodel.
        head: Directory of the head, or hf://user/name.
        logs: Dataset the head was fitted on. A public checkpoint needs it for the statistics of its actions.
        held_out: Dataset that the head has not seen, to take starts and goals from, in place of an evaluation set.
        goal_offset: Steps between start and goal in it; by default 25.
        evaluation: Evaluation set of TwoRoom; by default high-distance.
        episodes: Starts and goals.
        weight: Add that much of the head to latent distance, each standardised, in place of replacing it.
        candidates: Candidate action sequences of the planner; a tenth are elites.
        iterations: Rounds of the planner.
        seed: Of the planner, and of starts and goals taken from a dataset.
        out: Directory for the table, as tables/*.json and .md in it.
        trust_pickle: Load an old pickled checkpoint, which can run any code it contains.
    """
    from reachcost.base.progress import ConsoleProgress
    from reachcost.data.logs.hdf5 import open_logs
    from reachcost.heads.storage import load_head
    from reachcost.swm.comparison import compare_in_world, doubt_of, table_name
    from reachcost.swm.package import import_stable_worldmodel
    from reachcost.tasks import make_task
    from reachcost.worldmodels.loading import load_world_model

    world, planner, fitted = make_task("tworoom"), _planner(candidates, iterations), load_head(head)
    complete, goals = _goals(world, evaluation, held_out, goal_offset, episodes, seed)
    if out is not None:
        _require_new(out / "tables" / f"{table_name(goals, weight)}.json")
        (out / "tables").mkdir(parents=True, exist_ok=True)
    import_stable_worldmodel()
    opened = None if logs is None else open_logs(logs, observe=world.observe)
    loaded = load_world_model(model, logs=opened, trust_pickle=trust_pickle)
    doubt = doubt_of(fitted, complete, opened)
    table = compare_in_world(loaded, fitted, goals, weight, planner, seed, doubt, ConsoleProgress(console))
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


def reproduce(name: Annotated[str, tyro.conf.Positional], out: Path = Path("results")) -> None:
    """Reproduce tables of the paper, with the paper's numbers beside ours. Interrupt and repeat at will.

    Args:
        name: `toponav`, `tworoom` (all its tables) or any single table; a wrong name lists them.
        out: Directory for records and tables.
    """
    from reachcost.base.progress import ConsoleProgress
    from reachcost.experiments import reproduce as make_table
    from reachcost.experiments import tables_of

    for table_name in tables_of(name):
        start, cpu = time.perf_counter(), time.process_time()
        table = make_table(table_name, out, ConsoleProgress(console))
        console.print(table.terminal(table_name))
        console.print(
            f"{out / 'tables' / table_name}.md\n{out / 'tables' / table_name}.json\n"
            f"({time.perf_counter() - start:.0f} s, {time.process_time() - cpu:.0f} s of CPU time)",
            highlight=False,
        )


def _goals(
    world: TwoRoom, evaluation: str | None, held_out: Path | None, offset: int | None, episodes: int, seed: int
) -> tuple[EvaluationSet, EvaluationSet]:
    """The whole set that starts and goals come from, and those of it that are wanted."""
    from reachcost.data.logs.goals import logged_goals
    from reachcost.data.logs.hdf5 import open_logs

    if held_out is None:
        if offset is not None:
            raise ReachcostError(f"--goal-offset {offset} is within a dataset: give one with --held-out")
        complete = world.evaluation_set(evaluation or "high-distance")
        return complete, complete.spread(episodes)
    if evaluation is not None:
        raise ReachcostError(f"goals come from --evaluation {evaluation} or from --held-out {held_out}: give one")
    logs = open_logs(held_out, observe=world.observe)
    _require_public_frames(world, logs, held_out)
    drawn = logged_goals(logs, 25 if offset is None else offset, episodes, seed)
    return drawn, drawn


def _require_public_frames(world: TwoRoom, logs: Logs, path: Path) -> None:
    """Refuse a dataset of another layout, where starts and goals would not be what they were."""
    import numpy as np

    from reachcost.data.observations import frames

    if "pixels" not in logs.columns or "state" not in logs.columns:
        return
    rows = np.linspace(0, logs.rows - 1, 8).astype(int)
    stored = np.stack([logs.columns["pixels"][row] for row in rows])
    # Means over areas as wide as a wall: what compressing and shrinking change is small there.
    coarse = [frames({"pixels": some}, 16).astype(int) for some in (stored, world.render(logs.columns["state"][rows]))]
    if (difference := np.abs(coarse[0] - coarse[1]).max()) > 40:
        raise ReachcostError(
            f"{path}: its frames differ from the public TwoRoom by {difference} of 255: give logs of that layout"
        )


def _planner(candidates: int, iterations: int) -> CEM:
    from reachcost.planning.cem import CEM

    if candidates < 2 or iterations < 1:
        raise ReachcostError(f"--candidates {candidates} --iterations {iterations}: give at least 2 and 1")
    return CEM(candidates=candidates, iterations=iterations, elites=max(2, candidates // 10))


def _require_new(out: Path) -> None:
    if out.exists():
        raise ReachcostError(f"{out} exists already: choose another --out, or remove it first")
