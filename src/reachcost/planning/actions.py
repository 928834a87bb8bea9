"""Whether task, world model and planner mean the same actions; asked at the door, before anything is executed."""

from __future__ import annotations

import numpy as np

from reachcost.core.types import require_type
from reachcost.data.actions import ActionBlocks, blocks_of
from reachcost.data.fingerprint import name_of
from reachcost.data.rollouts import require_model
from reachcost.errors import ReachcostError
from reachcost.planning.planner import Planner, SamplingPlanner
from reachcost.protocols import WorldModel
from reachcost.tasks.contract import Task, require_task


def require_actions(task: Task, model: WorldModel) -> ActionBlocks | None:
    """The action blocks of a world model, None where actions are discrete; refuses those the task cannot execute.

    >>> from reachcost import load_world_model, make_task
    >>> require_actions(make_task("tworoom"), load_world_model("lewm-tworoom-3072")).length
    5
    """
    require_task(task)
    require_model(model)
    blocks, name = blocks_of(model), name_of(model)
    if task.discrete_actions is not None:
        if blocks is not None or model.action_dim != 1:
            found = "action blocks" if blocks is not None else f"action_dim {model.action_dim}"
            raise ReachcostError(
                f"{task.name} has {task.discrete_actions} discrete actions, but the world model {name} has {found}: "
                "give it action_dim 1, the index of an action, and no `actions`"
            )
        return None
    width = _width(task)
    if blocks is None:
        length = model.action_dim // width if width and model.action_dim % width == 0 else 1
        raise ReachcostError(
            f"{task.name} has continuous actions, and the world model {name} does not say how its action blocks stand "
            f"for them: add model = rc.with_actions(model, logs, length={length}), length being the steps of a block"
        )
    if blocks.size != model.action_dim:
        raise ReachcostError(
            f"the world model {name} takes blocks of {model.action_dim} numbers, but its `actions` make blocks of "
            f"{blocks.size}, {blocks.length} steps of {len(blocks.mean)}: make them agree"
        )
    if width is not None and width != len(blocks.mean):
        raise ReachcostError(
            f"the action blocks of the world model {name} stand for actions of {len(blocks.mean)} numbers, but those "
            f"of {task.name} have {width}: measure them on logs of this world, rc.with_actions(model, logs, length=...)"
        )
    return blocks


def require_planner(task: Task, planner: Planner, watched: bool = False) -> None:
    """Refuse a planner of other actions than the task has, and one that is to be `watched` and has no rounds."""
    require_type(planner, Planner, "planner", "make one, rc.CEM() or rc.CategoricalCEM(), or inherit from rc.Planner")
    name, count = type(planner).__name__, task.discrete_actions
    if planner.discrete is False and count is not None:
        raise ReachcostError(
            f"{name} samples continuous actions, but {task.name} has {count} discrete ones: plan with "
            f"rc.CategoricalCEM(actions={count})"
        )
    if planner.discrete is True and count is None:
        raise ReachcostError(
            f"{name} samples discrete actions, but those of {task.name} are continuous: plan with rc.CEM()"
        )
    if watched and not isinstance(planner, SamplingPlanner):
        raise ReachcostError(f"{name} cannot be watched, it samples no candidates in rounds: leave watch= out")
    if None not in (count, planner.actions) and planner.actions != count:
        raise ReachcostError(
            f"{name} samples {planner.actions} actions, but {task.name} has {count}: give it actions={count}"
        )


def some_action(model: WorldModel) -> np.ndarray:
    """An action of the task [a] that is nothing special: the mean of the logs, or the first of discrete ones."""
    blocks = blocks_of(model)
    return np.zeros(1, np.int64) if blocks is None else np.array(blocks.mean, np.float32)


def _width(task: Task) -> int | None:
    """Numbers in an action of a task: as it says, or as it logs."""
    if task.action_dim is not None or not task.offers("generate_logs"):
        return task.action_dim
    logged = task.generate_logs(1).columns
    return logged["action"].shape[-1] if "action" in logged else None
