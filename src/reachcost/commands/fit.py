"""`reachcost fit`: the repaired terminal cost of a world model."""

from __future__ import annotations

from pathlib import Path

from reachcost.commands import console, require_new


def fit(
    model: str,
    logs: Path,
    out: Path,
    task: str | None = None,
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
        task: The world that draws frames of logged states; episodes of its evaluation sets are kept out of training.
        pairs: Training pairs of an epoch.
        seed: Of pairs and head.
        shuffled: Permute the labels: the control that must fail.
        trust_pickle: Load an old pickled checkpoint, which can run any code it contains.
    """
    from reachcost.base.progress import ConsoleProgress
    from reachcost.data.latents import encode_logs
    from reachcost.data.logs.hdf5 import open_logs
    from reachcost.fitting.default import repair_latents
    from reachcost.heads.storage import save_head
    from reachcost.tasks import make_task
    from reachcost.worldmodels.loading import load_world_model

    require_new(out)
    progress = ConsoleProgress(console)
    world = None if task is None else make_task(task)
    opened = open_logs(logs, observe=None if world is None else world.observe)
    progress.step("latents")
    latents = encode_logs(load_world_model(model, logs=opened, trust_pickle=trust_pickle), opened, progress=progress)
    sets = [] if world is None else [world.evaluation_set(name) for name in world.sets]
    head = repair_latents(latents, exclude=sets, pairs=pairs, seed=seed, shuffled=shuffled, progress=progress)
    save_head(head, out)
    excluded = head.record["pairs"].get("exclusion", {}).get("excluded_episodes", 0)
    kept_out = f", {excluded} evaluation episodes kept out" if sets else ""
    labels = "shuffled labels" if shuffled else "logged times"
    given = f"--model {model} --logs {logs} --head {out}"
    console.print(
        f"{out}: a head on {labels}, {pairs:,} pairs an epoch{kept_out}\n"
        f"next: reachcost audit {given} {f'--task {task}' if task else '--held-out UNSEEN_LOGS'}"
        f"{f'{chr(10)}or in stable-worldmodel: reachcost evaluate {given}' if world and world.public else ''}",
        highlight=False,
        soft_wrap=True,
    )
