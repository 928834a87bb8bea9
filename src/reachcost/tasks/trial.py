"""One episode of an evaluation set, tried in a task: what the task cannot do shows before episodes run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from reachcost.data.evaluation import EvaluationSet
from reachcost.errors import FOREIGN_ERRORS, ReachcostError
from reachcost.tasks.contract import Task


def try_task(task: Task, evaluation: EvaluationSet, action: np.ndarray) -> None:
    """Ask a task for everything that an episode asks for, from the first start to the first goal, with an action [a].

    >>> from reachcost import make_task
    >>> task = make_task("toponav")
    >>> try_task(task, task.evaluation_set(), np.array([0]))
    """
    start, goal = evaluation.starts[:1], evaluation.goals[:1]

    def ask(name: str, call: Callable[..., Any], *arguments: np.ndarray) -> Any:
        try:
            return call(*arguments)
        except ReachcostError:
            raise
        except FOREIGN_ERRORS as error:
            refuse(
                name,
                f"failed on states {_some(start)}, the first of evaluation set {evaluation.name!r} "
                f"({type(error).__name__}: {error})",
                "give states as the task logs them, or mend it",
                error,
            )

    def refuse(name: str, problem: str, remedy: str, error: Exception | None = None) -> NoReturn:
        raise ReachcostError(
            f"{task.name}: `{name}` {problem}: {remedy}; reachcost.check_task tests its methods"
        ) from error

    ask("observe", task.observe, start)
    ends = stepped(task, start.copy(), action[None])
    if np.shape(ends) != start.shape:
        refuse("step", f"made {_some(ends)} of states {_some(start)}", "return states of the same shape")
    if not np.can_cast(np.asarray(ends).dtype, start.dtype, "same_kind"):
        refuse(
            "step", f"made {_some(ends)} of states {_some(start)}", "give starts and goals as floats, or return those"
        )
    answers = {"success": ask("success", task.success, start, goal)}
    answers["category"] = ask("category", task.category, start, start, goal)
    if task.offers("distance"):
        answers["distance"] = ask("distance", task.distance, start, goal)
    for name, answer in answers.items():
        if np.shape(answer) != (1,):
            refuse(name, f"answered {_some(answer)} about one state", "return one value a state [N]")


def stepped(task: Task, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """What `step` of a task makes of states [N, ...] and actions [N, a]; what it raises becomes one sentence."""
    try:
        return task.step(states, actions)
    except ReachcostError:
        raise
    except FOREIGN_ERRORS as error:
        given = f"actions {_some(actions)} from {np.min(actions):.4g} to {np.max(actions):.4g}"
        indices = "" if task.discrete_actions is not None else ", declare `discrete_actions` if actions are indices"
        raise ReachcostError(
            f"{task.name}: `step` failed on states {_some(states)} with {given} ({type(error).__name__}: {error}): "
            f"give states as the task logs them{indices}, or mend it; reachcost.check_task tests its methods"
        ) from error


def _some(values: Any) -> str:
    return f"{list(np.shape(values))} of {np.asarray(values).dtype}"
