"""Sample the evaluation sets of TwoRoom or PushT again, and write them into the package as JSON files.

Usage: `python examples/freeze_sets.py tworoom` or `pusht`. A test compares the stored files of TwoRoom with these.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

import reachcost as rc
from reachcost.core.files import write_file
from reachcost.tasks.pusht import logs as pusht
from reachcost.tasks.tworoom import logs as tworoom


def freeze(evaluation: rc.EvaluationSet, path: Path) -> None:
    """Write a set to a JSON file; floats survive as decimal numbers."""
    manifest = {
        "name": evaluation.name,
        "seed": evaluation.seed,
        **({} if evaluation.budget is None else {"budget": evaluation.budget}),
        "logs_sha256": evaluation.logs_sha256,
        "sha256": evaluation.fingerprint,
    }
    for name in ("episodes", "starts", "goals", "source_rows", "source_episodes"):
        manifest[name] = np.asarray(getattr(evaluation, name)).tolist()
    write_file(path, json.dumps(manifest) + "\n")


def sampled(world: str) -> Iterable[rc.EvaluationSet]:
    """The sets of TwoRoom, sampled from the 10,000 logged episodes of seed 0, or those of PushT."""
    if world == "pusht":
        return (pusht.sample_set(name, "pusht") for name in pusht.NAMES)
    task = rc.make_task("tworoom")
    logs = task.generate_logs()
    return (tworoom.sample_set(name, logs, tworoom.Layout()) for name in task.sets)


if __name__ == "__main__":
    [world] = sys.argv[1:]
    folder = {"tworoom": tworoom.FROZEN, "pusht": pusht.FROZEN}[world]
    for evaluation in sampled(world):
        freeze(evaluation, folder / f"{evaluation.name}.json")
