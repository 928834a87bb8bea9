"""What the documentation says is run: README code, docstring examples, links."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import reachcost

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MODULES = [name for _, name, _ in pkgutil.walk_packages(reachcost.__path__, "reachcost.")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_in_the_documentation_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page.name, "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_hold(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def published_rows() -> dict[str, list[str]]:
    """Rows of every published table by the name of their cost."""
    rows: dict[str, list[str]] = {}
    for table in (ROOT / "results" / "tables").glob("*.md"):
        for line in table.read_text().splitlines():
            if line.startswith("| "):
                rows.setdefault(line.split(" | ")[0].strip("| "), []).append(line)
    return rows


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_numbers_in_the_documentation_are_published_ones(page: Path) -> None:
    published = published_rows()
    for line in (line for line in page.read_text().splitlines() if re.match(r"\| `[^`]+` \| [-\d]", line)):
        cost, *cells = (cell.strip() for cell in line.strip("| ").split(" | "))
        rows = published[cost.strip("`")]
        assert any(all(cell in row for cell in cells) for row in rows), line
