"""What an audit has to show: the episodes that it ran, beside latent distance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from reachcost.audits.planner import Audit
from reachcost.costs.latent import RAW, LatentMSE
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents
from reachcost.planning.control import control
from reachcost.planning.planner import SamplingPlanner
from reachcost.protocols import TerminalCost, WorldModel
from reachcost.report.look import Outcomes, Parts, choose, groups_of, look
from reachcost.report.scene import Scene
from reachcost.tasks.contract import Task


def audited(
    audit: Audit,
    model: WorldModel,
    latents: Latents,
    cost: TerminalCost,
    task: Task | None,
    evaluation: EvaluationSet | None,
    planner: SamplingPlanner,
) -> Scene:
    """A scene of what was audited; arguments are those of `audit_planner`, whose seed is its default."""
    runs = audit.runs
    costs: dict[str, TerminalCost] = {RAW: LatentMSE(), audit.cost: cost}
    if runs is not None and task is not None and evaluation is not None and RAW not in runs.costs:
        shown = choose(Outcomes.of(runs), groups_of(task, evaluation.starts, evaluation.goals))
        some = evaluation.subset(np.sort(shown))
        runs = control(task, model, {RAW: LatentMSE()}, some, planner).beside(runs)
    scene = look(Parts(task, model, costs, runs, evaluation, latents))
    return scene if runs is None else replace(scene, of=audit.settings["episodes"])
