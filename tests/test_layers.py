"""Packages import downwards only, and worlds are named in their own folders and in the registries, nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import reachcost
from reachcost.tasks.registry import TASKS

ORDER = (
    *(
        "errors",
        "core",
        "protocols",
        "results",
        "data",
        "tasks",
        "heads",
        "worldmodels",
        "costs",
        "labels",
        "fitting",
        "peers",
    ),
    *("planning", "audits", "experiments", "report", "hub", "swm", "explorer"),
    *("__init__", "commands", "cli", "__main__"),
)
"""Packages and top-level modules, from below: `results` are files and statistics, which know nothing of worlds."""
REGISTRIES = ("__init__", "tasks/registry", "experiments/demo")
"""Modules that may name a world; the demo runs in one."""
ROOT = Path(str(reachcost.__file__)).parent


@cache
def modules() -> dict[str, list[ast.AST]]:
    """What every module consists of."""
    trees = {str(file.relative_to(ROOT).with_suffix("")): ast.parse(file.read_text()) for file in ROOT.rglob("*.py")}
    return {name: [*ast.walk(tree)] for name, tree in trees.items()}


def imports() -> Iterator[tuple[str, str]]:
    """Every module and what it imports of reachcost, anywhere in it."""
    for module, nodes in modules().items():
        for node in nodes:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += ["." * node.level + (node.module or "")] if isinstance(node, ast.ImportFrom) else []
            for name in (name for name in names if name.split(".")[0] in ("", "reachcost")):
                yield module, "/".join(name.split(".")[1:]) or "__init__"


def room(module: str) -> int:
    return ORDER.index(module.split("/")[0])


def world(module: str) -> str | None:
    """The world whose folder a module lies in."""
    top, name, *_ = f"{module}/".split("/")
    return name if top == "tasks" and name in TASKS else None


def test_packages_import_downwards_only() -> None:
    assert {ORDER[room(module)] for module in modules()} == {*ORDER}
    assert [(module, other) for module, other in imports() if room(other) > room(module)] == []


def test_the_library_does_not_name_the_paper_or_the_tools() -> None:
    words = {
        (module, value)
        for module, nodes in modules().items()
        for node in nodes
        for _, value in ast.iter_fields(node)
        if isinstance(value, str) and ("reachcost_paper" in value or "reachcost_tools" in value)
    }
    assert words == set()


def test_one_module_imports_ray() -> None:
    named = {
        (module, name.split(".")[0])
        for module, nodes in modules().items()
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])
    }
    assert {module for module, name in named if name == "ray"} == {"experiments/cells/ray_tasks"}


def test_worlds_do_not_import_each_other() -> None:
    foreign = [(module, other) for module, other in imports() if world(other) not in (None, world(module))]
    assert [(module, other) for module, other in foreign if module not in REGISTRIES] == []


def test_worlds_are_named_in_their_folders_and_registries_only() -> None:
    for module, nodes in modules().items():
        said = {node.value for node in nodes if isinstance(node, ast.Expr)}  # docstrings, among others
        code = [node for node in nodes if node not in said or not isinstance(node, ast.Constant)]
        words = {value.lower() for node in code for _, value in ast.iter_fields(node) if isinstance(value, str)}
        named = {name for name in TASKS for word in words if name in word} - {world(module)}
        assert not named or module in REGISTRIES, module
