"""reachcost: find out why a latent world-model planner fails, and repair its terminal cost from logs."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from typing import Any

if sys.argv[:1] == ["-m"] and "reachcost" in sys.orig_argv:  # `python -m reachcost`: what follows takes a while
    from reachcost_command import listen

    listen()

from reachcost.tasks.registry import register_environments

# Name to the module that defines it, imported on first use: `import reachcost` alone does not load torch.
_HOME = {
    "audits.choice": ("Choice", "choose_recipe"),
    "audits.comparison": ("compare_heads",),
    "audits.criteria": ("Criterion",),
    "audits.planner": ("Audit", "audit_planner"),
    "data.probe": ("LinearProbe", "fit_probe", "score_probe"),
    "audits.sasc": ("SascAudit", "gaussian_pools", "sasc"),
    "audits.stage": ("Stage",),
    "costs.head": ("HeadCost",),
    "costs.hybrid": ("HybridCost",),
    "costs.latent": ("LatentMSE",),
    "errors": ("ReachcostError", "ReachcostWarning"),
    "data.evaluation": ("EvaluationSet",),
    "fitting.peers.budget": ("BudgetRecipe", "fit_budget"),
    "fitting.choose": ("LabelledRecipe",),
    "fitting.repair": ("repair",),
    "fitting.fit": ("fit",),
    "fitting.peers.inverse": ("InverseRecipe", "fit_inverse"),
    "fitting.peers.hilp": ("fit_hilp",),
    "fitting.logged_audit": ("LoggedPools", "logged_audit", "logged_pools"),
    "fitting.peers.qrl": ("fit_qrl",),
    "heads.recipe": ("Recipe",),
    "heads.base": ("LearnedHead",),
    "heads.budget": ("BudgetHead",),
    "heads.embedding": ("EmbeddingHead",),
    "heads.inverse": ("InverseDynamics",),
    "heads.euclidean": ("EuclideanHead",),
    "heads.iqe": ("IntervalHead",),
    "heads.kinds": ("register_head",),
    "heads.mrn": ("ResidualHead",),
    "heads.pair": ("PairHead",),
    "heads.storage": ("load_head", "save_head"),
    "core.hub": ("Hub",),
    "data.fingerprint": ("fingerprint_of",),
    "data.latents": ("Latents", "encode_logs"),
    "data.logs": ("Logs",),
    "data.logs.goals": ("logged_goals",),
    "data.logs.hdf5": ("open_logs", "write_logs"),
    "costs.oracle": ("OracleGeodesic",),
    "labels.imagined": ("Imagination", "ImaginedPairs"),
    "labels.oracle": ("OraclePairs",),
    "labels.pairs": ("Pairs",),
    "labels.stitched": ("StitchedPairs",),
    "labels.temporal": ("TemporalPairs",),
    "planning.categorical_cem": ("CategoricalCEM",),
    "planning.cem": ("CEM",),
    "planning.control": ("ControlRuns", "control"),
    "planning.effort": ("ActionCost", "cost_per_action"),
    "planning.inverse": ("InversePolicy",),
    "planning.planner": ("PlanContext", "Planner"),
    "planning.random_policy": ("RandomPolicy",),
    "costs.probe": ("DecodedDistance", "StandardisedL2", "SubspaceCost"),
    "protocols": ("Head", "TerminalCost", "WorldModel"),
    "report.report": ("Report",),
    "results.ranking": ("Ranking", "compare_rankings"),
    "hub.sharing": ("push",),
    "tasks.gym": ("GymTask",),
    "tasks.registry": ("make_task", "register_task"),
    "tasks.contract": ("PublicEnvironment", "Task"),
    "tasks.plane": ("Handle", "Plane"),
    "tasks.check": ("check_task",),
    "tasks.toponav.task": ("RouteProposal", "TopoNav", "sasc_pool"),
    "tasks.tworoom": ("Layout", "TwoRoom"),
    "data.actions": ("ActionBlocks",),
    "worldmodels.check": ("check_world_model",),
    "worldmodels.half": ("halved",),
    "worldmodels.adapter": ("with_actions",),
    "worldmodels.loading": ("load_world_model", "zoo"),
    "planning.tabular": ("tabulate",),
    "tasks.toponav.features": ("ExactTopoNav",),
    "tasks.exact": ("ExactDynamics",),
    "worldmodels.training.train": ("TrainingPlan", "train_world_model"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
__all__ = sorted(_MODULE_OF)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.metadata.version("reachcost")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'reachcost' has no attribute {name!r}")
    return getattr(importlib.import_module(f"reachcost.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__


register_environments()
