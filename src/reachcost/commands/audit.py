"""`reachcost audit`: which stage of a planner is at fault?"""

from __future__ import annotations

from pathlib import Path

from reachcost.commands import cem, console, require_new
from reachcost.errors import ReachcostError


def audit(
    model: str,
    logs: Path,
    task: str | None = None,
    head: str | None = None,
    held_out: Path | None = None,
    evaluation: str | None = None,
    episodes: int | None = None,
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
        evaluation: Evaluation set of the task; by default its first.
        episodes: Episodes of it, spread over the set; by default all.
        candidates: Candidate action sequences of the planner.
        iterations: Rounds of the planner.
        criteria: Check the paper's falsification criteria, too: minutes more.
        logs_only: Let the task draw frames but leave its simulator alone, as with a real robot.
        out: JSON file for stages, verdict and criteria; the numbers behind them, a row per episode, go beside it,
            into a file of that name that ends in .parquet.
        trust_pickle: Load an old pickled checkpoint, which can run any code it contains.
    """
    import json

    from reachcost.audits.planner import audit_planner
    from reachcost.audits.show import show_audit
    from reachcost.base.atomic import replaced_file, write_file
    from reachcost.base.progress import ConsoleProgress
    from reachcost.costs.checks import require_one_model
    from reachcost.costs.head import HeadCost
    from reachcost.costs.latent import LatentMSE
    from reachcost.data.latents import encode_logs
    from reachcost.data.logs.hdf5 import open_logs
    from reachcost.heads.storage import load_head
    from reachcost.results.records import write_rows
    from reachcost.tasks import make_task
    from reachcost.worldmodels.loading import load_world_model

    rows = None if out is None else out.with_suffix(".parquet")
    if out is not None and rows is not None:
        if out == rows:
            raise ReachcostError(f"--out {out} is where the rows would go: name a JSON file, they are kept beside it")
        require_new(out)
        require_new(rows)
    progress = ConsoleProgress(console)
    cost = LatentMSE() if head is None else HeadCost(load_head(head))
    planner = cem(candidates, iterations)
    world = None if task is None else make_task(task)
    observe = None if world is None else world.observe
    opened = open_logs(logs, observe=observe)
    loaded = load_world_model(model, logs=opened, trust_pickle=trust_pickle)
    require_one_model({"head": cost}, loaded)
    progress.step("latents")
    latents = encode_logs(loaded, opened, progress=progress)
    unseen = None if held_out is None else encode_logs(loaded, open_logs(held_out, observe=observe), progress=progress)
    simulator = None if logs_only else world
    goals = None if simulator is None else simulator.evaluation_set(evaluation or simulator.sets[0])
    goals = goals.spread(episodes) if goals is not None and episodes is not None else goals
    found = audit_planner(
        loaded, latents, cost, simulator, goals, planner, unseen, criteria=criteria, progress=progress
    )
    show_audit(found, console)
    if out is not None and rows is not None:
        with replaced_file(rows) as partial:
            write_rows(found.rows, partial)
        write_file(out, json.dumps(found.document(), indent=2, allow_nan=False) + "\n")
        console.print(f"record: {out}, its rows: {rows}", highlight=False)
