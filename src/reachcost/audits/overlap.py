"""Episodes that the logs and the evaluation set share, and whether the audited head was fitted on them."""

from __future__ import annotations

import numpy as np

from reachcost.audits.subject import Subject, once
from reachcost.labels.exclusion import Exclusion


@once
def evaluated_episodes(subject: Subject) -> np.ndarray:
    """Logged episodes that hold a start or goal of the evaluation set [N]."""
    logs = subject.latents.logs
    if subject.evaluation is None or "state" not in logs.columns:
        return np.empty(0, np.int64)
    return Exclusion(logs, [subject.evaluation]).episodes


def kept_out(subject: Subject) -> bool | None:
    """Whether the heads' records prove that they were not fitted on the evaluation set; None if they name other sets.

    A record names sets by fingerprint. A larger set may contain this one. If the task has the larger set, the logged
    episodes that it excludes decide.
    """
    if subject.evaluation is None or not evaluated_episodes(subject).size:
        return True
    proofs = [record.get("exclusion", {}).get("evaluation_sets_sha256", []) for record in subject.records]
    if not all(proofs):
        return False
    return all(subject.evaluation.fingerprint in proof or _excluded(subject, proof) for proof in proofs) or None


def _excluded(subject: Subject, proof: list[str]) -> bool:
    """Whether sets of the task with these fingerprints exclude every logged episode of the evaluation set."""
    sets = [] if subject.task is None else [subject.task.evaluation_set(name) for name in subject.task.sets]
    named = [chosen for chosen in sets if chosen.fingerprint in proof]
    return bool(np.isin(evaluated_episodes(subject), Exclusion(subject.latents.logs, named).episodes).all())
