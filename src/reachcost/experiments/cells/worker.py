"""What a worker does with a cell: it builds the study again, computes the cell and returns what it made."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from reachcost.core.devices import use_device
from reachcost.core.progress import Progress
from reachcost.errors import ReachcostError, reason_of
from reachcost.experiments.cells.cell import Cell, Job, StudyRef
from reachcost.experiments.experiment import Experiment, Recording
from reachcost.experiments.study import Study
from reachcost.results.records import Result, computed, differences


class Answer(NamedTuple):
    """What a cell came to, or why it was not computed, and warnings for the user."""

    outcome: Result | str
    warned: Sequence[tuple[str, type[Warning]]] = ()


class Recordings:
    """Studies below one output directory, each built once, so that its tables share logs, models and latents.

    Args:
        out: The output directory.
        progress: Where cells that are computed here show how far they are.
        shared: A directory for logs that several processes learn from.
    """

    def __init__(self, out: Path, progress: Progress, shared: Path | None = None) -> None:
        self._out, self._progress, self._shared = out, progress, shared
        self._built: dict[StudyRef, Recording] = {}

    def of(self, reference: StudyRef) -> Recording:
        """The study, in which only declared runs can be read."""
        base = reference._replace(variants=())
        if base not in self._built:
            study, given = base.study(*base.given), (self._out, self._progress, base.episodes)
            recording = Experiment(study, *given) if isinstance(study, Study) else Recording(study, *given)
            recording.reference, recording.shared, recording.recorder.computes = base, self._shared, False
            self._built[base] = recording
        recording = self._built[base]
        for make, given in reference.variants:
            recording = recording.derive(make, *given)
        return recording


class Worker:
    """Computes cells in one process, and records nothing.

    Args:
        out: The output directory, where runs that cells need are read.
        scratch: A directory for what cells write meanwhile, and for logs that workers share.
        threads: Threads of torch; no result depends on their number.
        device: Where networks compute.
    """

    def __init__(self, out: Path, scratch: Path, threads: int, device: str) -> None:
        self.scratch, self._recordings = scratch, Recordings(out, Progress(), shared=scratch)
        torch.set_num_threads(threads)
        use_device(device)

    def compute(self, job: Job) -> Answer:
        """Compute a cell; an error becomes a sentence, as errors of other packages may not be picklable."""
        with warnings.catch_warnings(record=True) as caught:
            try:
                reference, spec, config = job
                cell = self._recordings.of(reference).cell(spec)
                _require_same(cell, config)
                outcome = computed(cell.compute, self.scratch)
            except Exception as error:  # other cells go on
                outcome = reason_of(error)
        return Answer(outcome, [(str(one.message), one.category) for one in caught])


def _require_same(cell: Cell, config: Any) -> None:
    """Refuse a cell that would be another run here: a file of the user differs, or code draws random numbers."""
    for where, expected, found in differences(config, cell.config):
        raise ReachcostError(
            f"{cell.name} would be another run in a worker ({where} is {found!r} there and {expected!r} in the "
            "driver): let nothing change while it runs, and let the study declare the same runs each time"
        )
