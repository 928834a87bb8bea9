"""Options that several commands share: their help and checks, and how names of tasks, models and logs are resolved."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import tempfile
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from reachcost.core.files import expand_path
from reachcost.errors import ReachcostError, call_foreign, did_you_mean
from reachcost.tasks.registry import build_task, make_task, task_names

if TYPE_CHECKING:
    from reachcost.data.evaluation import EvaluationSet
    from reachcost.data.logs import Logs
    from reachcost.protocols import WorldModel
    from reachcost.tasks.contract import Task


def shown_as(metavar: str, help: str | None = None) -> Any:
    """Show an option in the help as `--option METAVAR`, without its default."""
    return tyro.conf.arg(metavar=metavar, help=help, help_behavior_hint="")


OptionalText = Annotated[str | None, shown_as("STR")]
OptionalPath = Annotated[Path | None, shown_as("PATH")]
OptionalInt = Annotated[int | None, shown_as("INT")]
ModelName = Annotated[
    str,
    tyro.conf.arg(
        help="World model: a name that `rc.zoo()` lists, a directory of `reachcost train-model`, a checkpoint of "
        "stable-worldmodel, hf://user/name, or a custom one as module:factory or file.py:factory."
    ),
]
OWN_TASK = "or a custom task as module:Class or file.py:Class"
DefaultTask = Annotated[
    str | None, shown_as("STR", f"World: {', '.join(task_names())}, {OWN_TASK}. By default the first of these.")
]
Renderer = Annotated[
    str | None, shown_as("STR", f"World that renders frames of logged states: {', '.join(task_names())}, {OWN_TASK}.")
]
Device = Annotated[str, tyro.conf.arg(help="Device of torch: cpu, cuda, or auto (a GPU if there is one).")]
Flag = Annotated[bool, tyro.conf.arg(help_behavior_hint="")]
REMEDY = "fix it, and try again"


def task_option(text: str | None, **options: Any) -> Task:
    """Return the task of a name, `module:Class`, or `file.py:Class`, where a function may replace the class.

    None is the default task. A custom task is checked first, unless its use checks it anyway.

    >>> task_option("reachcost.tasks.tworoom:TwoRoom", pixels=64).name
    'tworoom'
    """
    from reachcost.tasks.check import check_task
    from reachcost.tasks.contract import Task

    if text is None or text in task_names():
        return make_task(text, **options)
    if not is_custom(text):
        raise ReachcostError(
            f"unknown task {text!r}: choose one of {', '.join(task_names())}, or name a custom one as module:Class or "
            "path/to/file.py:Class"
        )
    found = custom_object(text)
    task = found if isinstance(found, Task) else build_task(text, _callable(text, found), **options)
    if task.offers("generate_logs") or (task.sets and task.discrete_actions is not None):
        check_task(task)
    return task


def logs_option(path: Path, task: Task | None, named: bool = True) -> Logs:
    """Return the logs that a command names. The task, which must be their world, renders missing frames.

    `named` is whether the user named the task: a default task only has to fit if it renders frames.
    """
    from reachcost.data.logs_files import open_logs
    from reachcost.tasks.compatibility import require_logs_of

    logs = open_logs(expand_path(path), observe=None if task is None else task.observe)
    if task is not None and (named or logs.observe is not None):
        try:
            require_logs_of(task, logs)
        except ReachcostError as error:
            raise ReachcostError(f"{path}: {error}") from error
    return logs


def model_option(
    text: str, *, task: Task | None = None, logs: Logs | None = None, trust_pickle: bool = False, clamp: bool = True
) -> WorldModel:
    """Return the world model that a command names.

    A factory, `module:factory` or `path/to/file.py:factory`, gets the task and logs of the command if it has arguments
    of these names. Any other name is for `load_world_model`.

    >>> model_option("lewm-tworoom-3072").latent_dim
    192
    """
    from reachcost.data.models import require_model
    from reachcost.protocols import WorldModel
    from reachcost.worldmodels.loading import load_world_model

    if not is_custom(text):
        return load_world_model(text, logs=logs, trust_pickle=trust_pickle, clamp=clamp)
    found = custom_object(text)
    if isinstance(found, type) or not isinstance(found, WorldModel):
        found = _made(text, found, {"task": task, "logs": logs})
    require_model(found)
    return found


@dataclass(frozen=True)
class Loading:
    """Options of commands that load world models."""

    trust_pickle: Flag = False
    """Load an old pickled checkpoint, although it can run any code."""
    device: Device = "auto"

    def prepare(self) -> None:
        """Make the device that of the command; a wrong one is refused before any work."""
        from reachcost.core.devices import use_device

        use_device(self.device)

    def load(self, model: str, task: Task | None, logs: Logs | None) -> WorldModel:
        """Return the world model of a name, see `model_option`."""
        return model_option(model, task=task, logs=logs, trust_pickle=self.trust_pickle)


LoadOptions = Annotated[Loading, tyro.conf.arg(name="")]
LOAD = Loading()


def evaluation_option(task: Task, name: str | None) -> EvaluationSet:
    """Return the evaluation set that a command names, by default the first of the task."""
    if not task.sets:
        raise ReachcostError(f"the task {task.name!r} has no evaluation sets: give it `sets` and `evaluation_set`")
    if name is not None and name not in task.sets:
        raise ReachcostError(f"{task.name} has no evaluation set {name!r}: {did_you_mean(name, task.sets)}")
    return task.evaluation_set(name or task.sets[0])


def planner_option(task: Task | None, candidates: int, iterations: int, horizon: int | None = None) -> Any:
    """Return the planner with this number of candidates and iterations, for the actions of the task."""
    from reachcost.planning.control import sized_planner

    require_least(2, candidates=candidates)
    require_least(1, iterations=iterations)
    planner = sized_planner(None if task is None else task.discrete_actions, candidates, iterations)
    return planner if horizon is None else replace(planner, horizon=horizon)


def require_new(out: Path) -> None:
    """Refuse to overwrite something."""
    if out.exists():
        raise ReachcostError(f"{out} exists already: choose another --out, or remove it first")


def require_writable(*directories: Path) -> None:
    """Refuse directories that could not be made or written to, before there is anything to write."""
    for directory in directories:
        place = next(parent for parent in (directory.absolute(), *directory.absolute().parents) if parent.exists())
        if not place.is_dir():
            raise ReachcostError(f"{place} is a file: choose another --out, a directory")
        try:
            with tempfile.TemporaryFile(dir=place):  # permissions do not show whether a medium is read-only
                pass
        except OSError as error:
            raise ReachcostError(
                f"{place} cannot be written to ({error.strerror or error}): choose another --out, or change its rights"
            ) from error


def require_least(least: int, **options: int | None) -> None:
    """Refuse values of options below a minimum; None is an option that was not given."""
    for name, number in options.items():
        if number is not None and number < least:
            raise ReachcostError(f"--{name.replace('_', '-')} {number}: give {least} or more")


def require_page(path: Path | None, option: str = "--report") -> None:
    """Refuse a path where no report could be written."""
    if path is not None:
        if path.is_dir():
            raise ReachcostError(f"{option} {path} is a directory: name a file, {path / 'report.html'}")
        require_writable(path.parent)


def is_custom(text: str) -> bool:
    """Whether a text is module:name or file.py:name, and not a path or a name on the Hub.

    >>> is_custom("my_world:Maze"), is_custom("./my_world.py:Maze"), is_custom("hf://me/model"), is_custom("runs/model")
    (True, True, False, False)
    """
    where, colon, name = text.rpartition(":")
    return bool(colon and where) and name.isidentifier() and not expand_path(text).exists()


def needs_trust(text: str) -> bool:
    """Whether a text names code outside of reachcost, which can do anything when it is imported.

    >>> needs_trust("tworoom"), needs_trust("reachcost.tasks.tworoom:TwoRoom"), needs_trust("my_world:Maze")
    (False, False, True)
    """
    where, colon, name = text.rpartition(":")
    ours = where.partition(".")[0] == "reachcost" and not _is_file(where) and name[:1].isupper()
    return bool(colon) and name.isidentifier() and not ours


def custom_object(text: str) -> Any:
    """Return the object of `module:name` or `path/to/file.py:name`; the working directory may hold the module."""
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
        return call_foreign(lambda: importlib.import_module(name), f"{name} failed", REMEDY)
    except ReachcostError as error:
        cause = error.__cause__
        if not isinstance(cause, ModuleNotFoundError) or cause.name not in (name, name.partition(".")[0]):
            raise
        raise ReachcostError(
            f"there is no module {name!r}, neither installed nor in {Path.cwd()}: check its name, or give the file, "
            "path/to/file.py:name"
        ) from error


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ReachcostError(f"there is no file {path}: check the path before the colon")
    path = path.resolve()
    for module in [*sys.modules.values()]:  # a task and a model from one file must share its classes
        if (known := getattr(module, "__file__", None)) and Path(known).exists() and path.samefile(known):
            return module
    name = path.stem if path.stem not in sys.modules else f"{path.stem}@{path}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or (loader := spec.loader) is None:
        raise ReachcostError(f"{path} is not a Python file: name one that ends in .py")
    module = importlib.util.module_from_spec(spec)
    if (neighbours := str(path.parent)) not in sys.path:
        sys.path.insert(0, neighbours)
    sys.modules[name] = module
    try:
        call_foreign(lambda: loader.exec_module(module), f"{path} failed", REMEDY)
    except ReachcostError:
        del sys.modules[name]
        raise
    return module


def _made(text: str, factory: Any, offered: dict[str, Any]) -> Any:
    """Call a factory with the offered arguments that it has."""
    wanted = {name: part for name, part in signature(_callable(text, factory)).parameters.items() if name in offered}
    for name, part in wanted.items():
        if offered[name] is None and part.default is Parameter.empty:
            raise ReachcostError(f"{text} has the parameter `{name}`, which is not given: give --{name}")
    given = {name: offered[name] for name in wanted if offered[name] is not None}
    return call_foreign(lambda: factory(**given), f"{text} failed", REMEDY)


def _callable(text: str, found: Any) -> Any:
    try:
        signature(found)
    except (TypeError, ValueError) as error:  # not callable, or without a signature
        raise ReachcostError(
            f"{text} is a {type(found).__name__}: name a class, or a function that makes one"
        ) from error
    return found
