"""Logs that several worker processes learn from: one of them draws them, and all read the same files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from reachcost.core.arrays import open_memory_map
from reachcost.core.atomic import new_directory
from reachcost.data.logs import Logs
from reachcost.tasks.contract import Task


def shared_logs(directory: Path, task: Task, settings: Mapping[str, Any]) -> Logs:
    """What a task generates with these settings, drawn by whoever comes first and read as memory maps.

    Args:
        directory: Where the files are; it must not outlive the code that draws.
        task: The world.
        settings: What its logs are generated with.
    """
    said = json.dumps([type(task).__module__, type(task).__qualname__, task.world, settings], default=repr)
    path = directory / f"logs-{hashlib.sha256(said.encode()).hexdigest()[:32]}"
    with FileLock(path.with_suffix(".lock")):
        if not path.exists():
            logs = task.generate_logs(**settings)
            if logs.observe not in (None, task.observe):
                return logs  # nobody else could make its further columns
            _write(logs, path)
    names = json.loads((path / "columns.json").read_text(encoding="utf-8"))
    columns = {name: open_memory_map(path / f"{number}.npy") for number, name in enumerate(names["columns"])}
    return Logs(columns, np.load(path / "lengths.npy"), task.observe if names["observed"] else None)


def _write(logs: Logs, path: Path) -> None:
    with new_directory(path) as partial:
        for number, column in enumerate(logs.columns.values()):
            np.save(partial / f"{number}.npy", column)
        np.save(partial / "lengths.npy", logs.lengths)
        names = {"columns": [*logs.columns], "observed": logs.observe is not None}
        (partial / "columns.json").write_text(json.dumps(names), encoding="utf-8")
