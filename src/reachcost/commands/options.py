"""What `--task` and `--model` may be: a name, or a class or function of one's own, as module:name or file.py:name."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from inspect import Parameter, signature
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from reachcost.core.files import expand_path
from reachcost.errors import ReachcostError

if TYPE_CHECKING:
    from reachcost.data.evaluation import EvaluationSet
    from reachcost.data.logs import Logs
    from reachcost.protocols import WorldModel
    from reachcost.tasks.contract import Task


def task_option(text: str | None, **options: Any) -> Task:
    """The task that a command names; one that is not ours keeps the contract, or the command ends here.

    Args:
        text: A name, or `module:Class`, or `path/to/file.py:Class`; a function that returns a task will do as well.
            None is the first task of ours.
        options: For the class or function.

    >>> task_option("reachcost.tasks.tworoom:TwoRoom", pixels=64).name
    'tworoom'
    """
    from reachcost.tasks.check import check_task
    from reachcost.tasks.contract import Task
    from reachcost.tasks.registry import build_task, make_task, task_names

    if text is None or text in task_names():
        return make_task(text, **options)
    if not is_own(text):
        raise ReachcostError(
            f"unknown task {text!r}: choose one of {', '.join(task_names())}, or name your own as module:Class or "
            "path/to/file.py:Class"
        )
    found = own_object(text)
    task = found if isinstance(found, Task) else build_task(text, _callable(text, found), **options)
    if task.offers("generate_logs") or (task.sets and task.discrete_actions is not None):  # else it shows in use
        check_task(task)
    return task


def logs_option(path: Path, task: Task | None, named: bool = True) -> Logs:
    """The logs that a command names; the task draws their frames where they hold none.

    Args:
        path: Where they are.
        task: The world that they must be of.
        named: Whether the user named the task; one that is taken by default is only asked for frames.
    """
    from reachcost.data.logs_hdf5 import open_logs
    from reachcost.tasks.compatibility import require_logs_of

    logs = open_logs(expand_path(path), observe=None if task is None else task.observe)
    if task is not None and (named or logs.observe is not None):
        try:
            require_logs_of(task, logs)
        except ReachcostError as error:
            raise ReachcostError(f"{path}: {error}") from error
    return logs


def model_option(
    text: str, *, task: Task | None = None, logs: Logs | None = None, trust_pickle: bool = False
) -> WorldModel:
    """The world model that a command names.

    Args:
        text: What `load_world_model` takes, or `module:factory`, or `path/to/file.py:factory`. A factory returns a
            world model; those of its arguments that are called `task` and `logs` are given what the command has.
        task: The world of the command.
        logs: The logs of the command.
        trust_pickle: As for `load_world_model`.

    >>> model_option("lewm-tworoom-3072").latent_dim
    192
    """
    from reachcost.protocols import WorldModel
    from reachcost.worldmodels.loading import load_world_model

    if not is_own(text):
        return load_world_model(text, logs=logs, trust_pickle=trust_pickle)
    found = own_object(text)
    if isinstance(found, type) or not isinstance(found, WorldModel):
        found = _made(text, found, {"task": task, "logs": logs})
    if not isinstance(found, WorldModel):
        missing = [part for part in ("latent_dim", "action_dim", "encode", "rollout") if not hasattr(found, part)]
        raise ReachcostError(
            f"{text} makes a {type(found).__name__} without {', '.join(missing)}: see reachcost.WorldModel"
        )
    return found


def evaluation_option(task: Task, name: str | None) -> EvaluationSet:
    """The evaluation set that a command names, by default the first of the task."""
    if not task.sets:
        raise ReachcostError(f"the task {task.name!r} has no evaluation sets: give it `sets` and `evaluation_set`")
    if name is not None and name not in task.sets:
        raise ReachcostError(f"{task.name} has no evaluation set {name!r}: choose one of {', '.join(task.sets)}")
    return task.evaluation_set(name or task.sets[0])


def head_name(name: str) -> str:
    """What a head is called beside latent distance and the oracle, which keep their names.

    >>> head_name("my-head"), head_name("raw")
    ('my-head', 'head raw')
    """
    return f"head {name}" if name in ("raw", "oracle") else name


def shown_set(task: Task | None) -> EvaluationSet | None:
    """Whose goals a report shows where nothing is run: the first set of the task, if it has any."""
    return None if task is None or not task.sets else task.evaluation_set(task.sets[0])


def is_own(text: str) -> bool:
    """Whether a text names something of the user's: module:name, neither a path nor one on the hub.

    >>> is_own("my_world:Maze"), is_own("./my_world.py:Maze"), is_own("hf://me/model"), is_own("runs/model")
    (True, True, False, False)
    """
    where, colon, name = text.rpartition(":")
    return bool(colon and where) and name.isidentifier() and not expand_path(text).exists()


def needs_trust(text: str) -> bool:
    """Whether a text names code that is not a class of reachcost: to import or call it can run anything.

    >>> needs_trust("tworoom"), needs_trust("reachcost.tasks.tworoom:VariedTwoRoom"), needs_trust("my_world:Maze")
    (False, False, True)
    """
    where, colon, name = text.rpartition(":")
    ours = where.partition(".")[0] == "reachcost" and not _is_file(where) and name[:1].isupper()
    return bool(colon) and name.isidentifier() and not ours


def own_object(text: str) -> Any:
    """What `module:name` or `path/to/file.py:name` stands for; modules are looked for in this directory, too."""
    where, _, name = text.rpartition(":")
    here = str(Path.cwd())
    if needs_trust(text) and here not in sys.path:  # no file here replaces a package that reachcost imports
        sys.path.insert(0, here)
    module = _file(expand_path(where)) if _is_file(where) else _module(where)
    if not hasattr(module, name):
        offered = [key for key, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
        raise ReachcostError(f"{where} has no {name!r}: it defines {', '.join(offered) or 'nothing'}")
    return getattr(module, name)


def _is_file(where: str) -> bool:
    return where.endswith(".py") or "/" in where


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in (name, name.partition(".")[0]):
            raise _failed(name, error) from error
        raise ReachcostError(
            f"there is no module {name!r}, neither installed nor in {Path.cwd()}: check its name, or give the file, "
            "path/to/file.py:name"
        ) from error
    except Exception as error:  # the user's module may raise anything
        raise _failed(name, error) from error


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ReachcostError(f"there is no file {path}: check the path before the colon")
    path = path.resolve()
    for module in [*sys.modules.values()]:  # task and model of one file must share its classes
        if (known := getattr(module, "__file__", None)) and Path(known).exists() and path.samefile(known):
            return module
    name = path.stem if path.stem not in sys.modules else f"{path.stem}@{path}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ReachcostError(f"{path} is no Python file: name one that ends in .py")
    module = importlib.util.module_from_spec(spec)
    if (neighbours := str(path.parent)) not in sys.path:
        sys.path.insert(0, neighbours)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the user's file may raise anything
        del sys.modules[name]
        raise _failed(str(path), error) from error
    return module


def _made(text: str, factory: Any, offered: dict[str, Any]) -> Any:
    """Call a factory with those of the offered arguments that it asks for."""
    asked = {name: part for name, part in signature(_callable(text, factory)).parameters.items() if name in offered}
    for name, part in asked.items():
        if offered[name] is None and part.default is Parameter.empty:
            raise ReachcostError(f"{text} asks for `{name}`, and there is none: give --{name}")
    try:
        return factory(**{name: offered[name] for name in asked if offered[name] is not None})
    except ReachcostError:
        raise
    except Exception as error:  # the user's factory may raise anything
        raise _failed(text, error) from error


def _callable(text: str, found: Any) -> Any:
    try:
        signature(found)
    except (TypeError, ValueError) as error:  # it cannot be called, or nobody knows with what
        raise ReachcostError(
            f"{text} is a {type(found).__name__}: name a class, or a function that makes one"
        ) from error
    return found


def _failed(where: str, error: Exception) -> ReachcostError:
    return ReachcostError(f"{where} failed ({type(error).__name__}: {error}): mend it, and try again")
