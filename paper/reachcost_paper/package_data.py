"""Files next to the studies: notes of their tables (`notes.md`) and the values that the paper prints (`paper.toml`)."""

import re
import tomllib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any


def read_notes(package: str) -> dict[str, str]:
    """Notes of a study's tables by heading, one line per paragraph; `{name}` inserts the section of that name."""
    text = files(package).joinpath("notes.md").read_text("utf-8")
    _, *parts = re.split(r"^## (\S+)$", text, flags=re.MULTILINE)
    sections = {
        name: "\n\n".join(" ".join(paragraph.split()) for paragraph in body.strip().split("\n\n"))
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }
    return {name: re.sub(r"\{([\w-]+)\}", lambda found: sections[found[1]], note) for name, note in sections.items()}


def read_paper(package: str) -> dict[str, Any]:
    """Values that the paper prints for a study, by table; below `columns`, each list becomes a mapping by column."""
    return _with_columns(tomllib.loads(files(package).joinpath("paper.toml").read_text("utf-8")))


def _with_columns(node: Any, columns: Sequence[str] = ()) -> Any:
    if isinstance(node, dict):
        columns = node.get("columns", columns)
        return {name: _with_columns(child, columns) for name, child in node.items() if name != "columns"}
    if isinstance(node, list) and node and isinstance(node[0], list):
        return [_with_columns(child, columns) for child in node]
    return dict(zip(columns, node, strict=True)) if columns else node
