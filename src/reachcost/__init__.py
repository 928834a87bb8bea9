"""reachcost: find out why a latent world-model planner fails, and repair its terminal cost from logs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from reachcost.environments import register_environments

if TYPE_CHECKING:
    from reachcost.audits.sasc import Ranking, SascAudit, compare_rankings, sasc
    from reachcost.costs import HeadCost, HybridCost, LatentMSE
    from reachcost.errors import ReachcostError
    from reachcost.evaluation import EvaluationSet
    from reachcost.fitting import Recipe, fit
    from reachcost.heads.pair import PairHead
    from reachcost.heads.storage import load_head, save_head
    from reachcost.latents import Latents, encode_logs
    from reachcost.logs import Logs
    from reachcost.logs.hdf5 import open_logs, write_logs
    from reachcost.oracle import OracleGeodesic
    from reachcost.pairs import TemporalPairs
    from reachcost.planning.categorical_cem import CategoricalCEM
    from reachcost.planning.control import ControlRuns, control
    from reachcost.planning.random_policy import RandomPolicy
    from reachcost.protocols import Head, Planner, Task, TerminalCost, WorldModel
    from reachcost.tasks import make_task
    from reachcost.tasks.toponav import RouteProposal, TopoNav, sasc_pool
    from reachcost.tasks.tworoom import Layout, TwoRoom
    from reachcost.worldmodels.actions import ActionBlocks
    from reachcost.worldmodels.check import check_world_model
    from reachcost.worldmodels.loading import load_world_model, zoo
    from reachcost.worldmodels.tabular import tabulate
    from reachcost.worldmodels.toponav import ExactTopoNav
    from reachcost.worldmodels.training import TrainingPlan, train_world_model

# Name to the module that defines it, imported on first use: `import reachcost` alone does not load torch.
_HOME = {
    "audits.sasc": ("Ranking", "SascAudit", "compare_rankings", "sasc"),
    "costs": ("HeadCost", "HybridCost", "LatentMSE"),
    "errors": ("ReachcostError",),
    "evaluation": ("EvaluationSet",),
    "fitting": ("Recipe", "fit"),
    "heads.pair": ("PairHead",),
    "heads.storage": ("load_head", "save_head"),
    "latents": ("Latents", "encode_logs"),
    "logs": ("Logs",),
    "logs.hdf5": ("open_logs", "write_logs"),
    "oracle": ("OracleGeodesic",),
    "pairs": ("TemporalPairs",),
    "planning.categorical_cem": ("CategoricalCEM",),
    "planning.control": ("ControlRuns", "control"),
    "planning.random_policy": ("RandomPolicy",),
    "protocols": ("Head", "Planner", "Task", "TerminalCost", "WorldModel"),
    "tasks": ("make_task",),
    "tasks.toponav": ("RouteProposal", "TopoNav", "sasc_pool"),
    "tasks.tworoom": ("Layout", "TwoRoom"),
    "worldmodels.actions": ("ActionBlocks",),
    "worldmodels.check": ("check_world_model",),
    "worldmodels.loading": ("load_world_model", "zoo"),
    "worldmodels.tabular": ("tabulate",),
    "worldmodels.toponav": ("ExactTopoNav",),
    "worldmodels.training": ("TrainingPlan", "train_world_model"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
__all__ = sorted(_MODULE_OF)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'reachcost' has no attribute {name!r}")
    return getattr(importlib.import_module(f"reachcost.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__


register_environments()
