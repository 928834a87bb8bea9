"""The `reachcost` command; every subcommand is a typed function, and its docstring is its help."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from reachcost.errors import ReachcostError

if TYPE_CHECKING:
    from reachcost.latents import Latents
    from reachcost.progress import Progress
    from reachcost.tasks.tworoom import TwoRoom
    from reachcost.worldmodels.jepa import JepaWorldModel

_console = Console()


def demo(out: Path = Path("reachcost-demo"), episodes: int = 100, log_episodes: int = 10_000) -> None:
    """Watch a planner fail and be repaired (TwoRoom, a bundled world model, three minutes on two cores).

    Args:
        out: Directory for records, table and picture.
        episodes: Evaluation episodes, at most 100.
        log_episodes: Logged episodes that the head learns from.
    """
    from reachcost.demo import run_demo
    from reachcost.progress import ConsoleProgress

    if not 1 <= episodes <= 100:
        raise ReachcostError(f"the evaluation set has 100 episodes, not {episodes}: choose 1 to 100")
    start = time.perf_counter()
    table, picture = run_demo(out, ConsoleProgress(_console), episodes=episodes, log_episodes=log_episodes)
    _console.print(table.terminal(f"TwoRoom, {table.rows[0].n} episodes: only the terminal cost changes"))
    _console.print(
        "raw is plain latent distance: it loses its way.\n"
        "trm learned from logged times alone: it goes through the door.\n"
        "trm-shuffled learned from permuted times; random is floor, oracle ceiling.\n"
        f"picture {picture or 'none: no episode was repaired, ask for more --episodes'}\n"
        f"table   {out / 'tables' / 'demo.md'}\n({time.perf_counter() - start:.0f} s)",
        highlight=False,
    )


def reproduce(name: Annotated[str, tyro.conf.Positional], out: Path = Path("results")) -> None:
    """Reproduce tables of the paper, with the paper's numbers beside ours. Interrupt and repeat at will.

    Args:
        name: `toponav`, `tworoom` (all its tables) or any single table; a wrong name lists them.
        out: Directory for records and tables.
    """
    from reachcost.experiments import reproduce as make_table
    from reachcost.experiments import tables_of
    from reachcost.progress import ConsoleProgress

    for table_name in tables_of(name):
        start, cpu = time.perf_counter(), time.process_time()
        table = make_table(table_name, out, ConsoleProgress(_console))
        _console.print(table.terminal(table_name))
        _console.print(
            f"{out / 'tables' / table_name}.md\n{out / 'tables' / table_name}.json\n"
            f"({time.perf_counter() - start:.0f} s, {time.process_time() - cpu:.0f} s of CPU time)",
            highlight=False,
        )


def logs(
    action: Annotated[Literal["generate"], tyro.conf.Positional],
    task: Annotated[Literal["tworoom"], tyro.conf.Positional],
    out: Path,
    episodes: int = 10_000,
    seed: int = 0,
    pixels: int = 0,
    overwrite: bool = False,
) -> None:
    """Log the public data policy of a task into an HDF5 file in the layout of stable-worldmodel.

    Args:
        action: What to do with logs.
        task: The task whose policy is logged.
        out: The HDF5 file to write.
        episodes: How many episodes to log.
        seed: Of starts, goals and noise.
        pixels: Side of the frames to store, 8 to 224; 0 stores states alone, and frames are drawn when read.
        overwrite: Replace the file if it exists.
    """
    from reachcost.logs.hdf5 import write_logs
    from reachcost.progress import ConsoleProgress
    from reachcost.tasks import make_task
    from reachcost.tasks.tworoom.statistics import PUBLIC_CACHE, log_statistics

    world = make_task(task)
    logged = world.generate_logs(episodes, seed)
    progress = ConsoleProgress(_console)
    progress.step("pixels")
    render = (lambda states: world.render(states, pixels)) if pixels else None
    write_logs(logged, out, render=render, overwrite=overwrite, progress=progress)
    table = Table(
        "", "ours", "public cache", box=box.SIMPLE_HEAD, show_edge=False, title=f"{out}", title_justify="left"
    )
    for name, value in log_statistics(logged).items():
        table.add_row(name, f"{value:,.4g}" if value < 1000 else f"{value:,.0f}", f"{PUBLIC_CACHE[name]:,}")
    _console.print(table)


def train_model(
    kind: Annotated[Literal["lewm", "pldm"], tyro.conf.Positional],
    logs: Path,
    out: Path,
    seed: int = 3072,
    size: Literal["compact", "paper"] = "compact",
    steps: int | None = None,
    refinement: int | None = None,
    threads: int = 2,
    device: str = "cpu",
) -> None:
    """Train a world model on logs. Interrupt and repeat at will: the same command continues to the same result.

    Args:
        kind: The objective: prediction with SIGReg (lewm), or with variance, covariance and alignment (pldm).
        logs: HDF5 file of states or frames with actions, as `reachcost logs generate` writes it.
        out: Directory for weights, configuration, training curve and model card.
        seed: Of initial weights, windows and projections.
        size: `compact` for two CPU cores; `paper` is the public ViT-tiny at 224 px, for a GPU.
        steps: Updates of all parts together; by default 3,000 (compact) or 50,000 (paper).
        refinement: Updates of the predictor alone, afterwards; by default 4,000 (compact) or none (paper).
        threads: CPU threads; more or fewer round differently.
        device: Where to train: cpu or cuda.
    """
    from reachcost.logs.hdf5 import open_logs
    from reachcost.progress import ConsoleProgress
    from reachcost.tasks import make_task
    from reachcost.worldmodels.training import TrainingPlan, train_world_model

    sized = TrainingPlan.paper() if size == "paper" else TrainingPlan()
    counts = {name: count for name, count in (("steps", steps), ("refinement", refinement)) if count is not None}
    plan = replace(sized, kind=kind, seed=seed, threads=threads, device=device, **counts)
    opened = open_logs(logs, observe=make_task("tworoom").observe)
    model = train_world_model(opened, out, plan, ConsoleProgress(_console))
    table = Table(
        "on held-out episodes", "", box=box.SIMPLE_HEAD, show_edge=False, title=f"{out}", title_justify="left"
    )
    for name, value in model.card["training"]["metrics"].items():
        table.add_row(name, f"{value:.5g}")
    _console.print(table)
    _console.print(f"{out / 'README.md'} says what they mean ({model.card['training']['seconds']} s)", highlight=False)


def check(model: Annotated[str, tyro.conf.Positional], logs: Path | None = None, trust_pickle: bool = False) -> None:
    """Load a world model, test the contract that planning relies on, and show where it comes from.

    Args:
        model: A bundled model, a directory of `reachcost train-model`, or a checkpoint of stable-worldmodel.
        logs: HDF5 file the model was trained on; a public checkpoint needs it for the statistics of its actions.
        trust_pickle: Load an old pickled checkpoint, which can run any code it contains.
    """
    import numpy as np
    import torch

    from reachcost.logs.hdf5 import open_logs
    from reachcost.tasks import make_task
    from reachcost.worldmodels.check import check_world_model
    from reachcost.worldmodels.loading import load_world_model

    task = make_task("tworoom")
    opened = None if logs is None else open_logs(logs, observe=task.observe)
    loaded = load_world_model(model, logs=opened, trust_pickle=trust_pickle)
    seen = opened or task.generate_logs(episodes=1)
    actions = torch.randn(2, 8, 5, loaded.action_dim, generator=torch.Generator().manual_seed(0))
    check_world_model(loaded, seen.observations(np.array([0, seen.rows // 2])), actions)
    facts = {
        "contract": "holds: frozen, deterministic, rows and candidates do not mix, actions matter",
        "latent": f"{loaded.latent_dim} numbers, from frames of {loaded.parts.pixels} px",
        "action block": f"{loaded.action_dim} numbers, {loaded.actions.length} steps",
        "weights": f"{sum(weight.numel() for weight in loaded.parts.parameters()):,}",
        "source": loaded.card["source"],
        "sha256": loaded.card["sha256"],
    }
    training = loaded.card.get("training", {})
    facts |= {name: f"{value:.5g}" for name, value in training.get("metrics", {}).items()}
    table = Table(loaded.card["name"], "", box=box.SIMPLE_HEAD, show_edge=False)
    for name, fact in facts.items():
        table.add_row(name, fact)
    _console.print(table)


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
        logs: HDF5 file with frames, or with states alone if --task draws them.
        out: Directory for the head.
        task: Draws frames of logged states, and keeps the episodes of its evaluation sets out of training.
        pairs: Training pairs of an epoch.
        seed: Of pairs and head.
        shuffled: Permute the labels: the control that must fail.
        trust_pickle: Load an old pickled checkpoint, which can run any code it contains.
    """
    from reachcost.fitting import fit as fit_head
    from reachcost.heads.storage import save_head
    from reachcost.pairs import TemporalPairs
    from reachcost.progress import ConsoleProgress

    if out.exists():
        raise ReachcostError(f"{out} exists already: choose another --out, or remove it first")
    progress = ConsoleProgress(_console)
    world, _, latents = _encoded(model, logs, task, trust_pickle, progress)
    sets = [] if world is None else [world.evaluation_set(name) for name in world.evaluation_sets]
    drawn = TemporalPairs(latents, pairs, exclude=sets, holdout=0.1, seed=seed)
    progress.step("head")
    head = fit_head(drawn.shuffled() if shuffled else drawn, seed=seed, progress=progress)
    save_head(head, out)
    excluded = drawn.record.get("exclusion", {}).get("excluded_episodes", 0)
    _console.print(
        f"{out}: a head on {drawn.record['train_pairs']:,} pairs an epoch, {excluded} evaluation episodes kept out\n"
        f"next: reachcost audit --model {model} --logs {logs} --head {out}{f' --task {task}' if task else ''}",
        highlight=False,
        soft_wrap=True,
    )


def audit(
    model: str,
    logs: Path,
    task: Literal["tworoom"] | None = None,
    head: Path | None = None,
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
        logs: HDF5 file that the head was fitted on (or would be), with frames, or with states if --task draws them.
        task: The simulated world. Without it the audit uses logs alone.
        head: Directory of the head behind the terminal cost; without it latent distance is audited.
        held_out: HDF5 file that the head has not seen, for an audit without simulator.
        evaluation: Evaluation set of the task.
        episodes: Episodes of it, spread over the set.
        candidates: Candidate action sequences of the planner; a tenth are elites.
        iterations: Rounds of the planner.
        criteria: Check the paper's falsification criteria, too: minutes more.
        logs_only: Let the task draw frames but leave its simulator alone, as with a real robot.
        out: JSON file for stages, verdict and criteria.
        trust_pickle: Load an old pickled checkpoint, which can run any code it contains.
    """
    import numpy as np

    from reachcost.audits.falsification import check_criteria
    from reachcost.audits.planner import PlannerAudit
    from reachcost.costs import HeadCost, LatentMSE
    from reachcost.heads.storage import load_head
    from reachcost.planning.cem import CEM
    from reachcost.progress import ConsoleProgress
    from reachcost.report.planner_audit import show_audit, show_criteria, write_audit

    progress = ConsoleProgress(_console)
    cost = LatentMSE() if head is None else HeadCost(load_head(head))
    planner = CEM(candidates=candidates, iterations=iterations, elites=max(2, candidates // 10))
    world, loaded, latents = _encoded(model, logs, task, trust_pickle, progress)
    unseen = None if held_out is None else _encoded(model, held_out, task, trust_pickle, progress)[2]
    goals = None
    if world is not None and not logs_only:
        whole = world.evaluation_set(evaluation)
        if not 1 <= episodes <= len(whole):
            raise ReachcostError(f"evaluation set {evaluation!r} has {len(whole)} episodes, not {episodes}")
        goals = whole.subset(np.linspace(0, len(whole) - 1, episodes).astype(int))
    audited = PlannerAudit(
        loaded, latents, cost, None if goals is None else world, goals, planner, unseen, progress=progress
    )
    show_audit(audited, _console)
    checked = check_criteria(audited) if criteria and goals is not None else []
    if checked:
        show_criteria(checked, _console)
    if out is not None:
        write_audit(audited, checked, out)


COMMANDS = {
    "demo": demo,
    "audit": audit,
    "fit": fit,
    "reproduce": reproduce,
    "logs": logs,
    "train-model": train_model,
    "check": check,
}


def _encoded(
    model: str, logs: Path, task: Literal["tworoom"] | None, trust_pickle: bool, progress: Progress
) -> tuple[TwoRoom | None, JepaWorldModel, Latents]:
    """The task if there is one, the world model, and its latents of the logs."""
    from reachcost.latents import encode_logs
    from reachcost.logs.hdf5 import open_logs
    from reachcost.tasks import make_task
    from reachcost.worldmodels.loading import load_world_model

    world = None if task is None else make_task(task)
    opened = open_logs(logs, observe=None if world is None else world.observe)
    loaded = load_world_model(model, logs=opened, trust_pickle=trust_pickle)
    progress.step("latents")
    return world, loaded, encode_logs(loaded, opened, progress=progress)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; 0 on success, 1 on a mistake that the message explains."""
    try:
        tyro.extras.subcommand_cli_from_dict(COMMANDS, args=arguments, prog="reachcost")
    except ReachcostError as error:
        Console(stderr=True).print(f"reachcost: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        return 1
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        message = f"reachcost: the system refused{where} ({error.strerror or error}): choose another --out"
        Console(stderr=True).print(message, style="red", markup=False, highlight=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        Console(stderr=True).print(
            "reachcost: interrupted; what is saved is whole, run the same command again to go on", style="yellow"
        )
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
