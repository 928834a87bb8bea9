"""Packages import downwards only, and worlds are named in their own folders and in the registries, nowhere else."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import reachcost
from reachcost.tasks.registry import TASKS

ORDER = (
    *("errors", "core", "protocols", "results", "data", "tasks", "heads", "worldmodels", "costs", "labels", "fitting"),
    *("peers", "planning", "audits", "experiments", "report", "hub", "swm", "explorer"),
    *("__init__", "commands", "cli", "__main__"),
)
"""Packages and top-level modules; each imports only those before it."""
REGISTRIES = ("__init__", "tasks/registry", "experiments/demo")
"""Modules that may name a world; the demo runs in one."""
ROOT = Path(str(reachcost.__file__)).parent


@cache
def modules() -> dict[str, list[ast.AST]]:
    """The syntax nodes of every module."""
    trees = {str(file.relative_to(ROOT).with_suffix("")): ast.parse(file.read_text()) for file in ROOT.rglob("*.py")}
    return {name: [*ast.walk(tree)] for name, tree in trees.items()}


def imports() -> Iterator[tuple[str, str]]:
    """Every module with the names of modules that it imports, anywhere in it."""
    for module, nodes in modules().items():
        for node in nodes:
            if isinstance(node, ast.Import):
                yield from ((module, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield module, "." * node.level + (node.module or "")


def own_imports() -> Iterator[tuple[str, str]]:
    """Imports of the library itself, with paths of modules."""
    for module, name in imports():
        package, *path = name.split(".")
        if package in ("", "reachcost"):
            yield module, "/".join(path) or "__init__"


def layer(module: str) -> int:
    return ORDER.index(module.split("/")[0])


def world(module: str) -> str | None:
    """The world whose folder a module lies in."""
    top, name, *_ = f"{module}/".split("/")
    return name if top == "tasks" and name in TASKS else None


def test_packages_import_downwards_only() -> None:
    assert {ORDER[layer(module)] for module in modules()} == {*ORDER}
    assert [(module, other) for module, other in own_imports() if layer(other) > layer(module)] == []


def test_the_library_does_not_name_the_paper_or_the_tools() -> None:
    for file in ROOT.rglob("*.py"):
        assert not {"reachcost_paper", "reachcost_tools"} & {*re.findall(r"\w+", file.read_text())}, file


def test_one_module_imports_ray() -> None:
    importers = {module for module, name in imports() if name.split(".")[0] == "ray"}
    assert importers == {"experiments/cells/ray_tasks"}


def test_worlds_do_not_import_each_other() -> None:
    foreign = [(module, other) for module, other in own_imports() if world(other) not in (None, world(module))]
    assert [(module, other) for module, other in foreign if module not in REGISTRIES] == []


def test_worlds_are_named_in_their_folders_and_registries_only() -> None:
    for module, nodes in modules().items():
        said = {node.value for node in nodes if isinstance(node, ast.Expr)}  # docstrings, among others
        code = [node for node in nodes if node not in said or not isinstance(node, ast.Constant)]
        words = {value.lower() for node in code for _, value in ast.iter_fields(node) if isinstance(value, str)}
        named = {name for name in TASKS for word in words if name in word} - {world(module)}
        assert not named or module in REGISTRIES, module
