"""What the documentation says is run: README code, docstring examples, links."""

from __future__ import annotations

import doctest
import importlib
import json
import pkgutil
import re
from pathlib import Path

import pytest

import reachcost

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NEEDS_SWM = "stable-worldmodel.md"  # `tests/swm/test_example.py` runs its code
MODULES = [name for _, name, _ in pkgutil.walk_packages(reachcost.__path__, "reachcost.")]


def run_python(page: Path) -> dict[str, object]:
    """Run all Python of a page and return its variables."""
    namespace: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
        exec(compile(block, page.name, "exec"), namespace)
    return namespace


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != NEEDS_SWM], ids=lambda page: page.name)
def test_python_in_the_documentation_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run_python(page)
    printed, text = capsys.readouterr().out, page.read_text()
    promised = "".join(re.findall(r"^```text\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    numbers = re.compile(r"[-\d.]+")
    assert numbers.sub("", printed) == numbers.sub("", promised)
    found, expected = ([float(number) for number in numbers.findall(text)] for text in (printed, promised))
    assert found == pytest.approx(expected, abs=8)  # other processors round otherwise


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
        if cost.strip("`") in reachcost.zoo():
            continue  # `test_zoo.py` compares these with the models' own records
        assert any(in_order(cells, row.strip("| ").split(" | ")) for row in published[cost.strip("`")]), line


def in_order(cells: list[str], row: list[str]) -> bool:
    """Whether the cells stand in the row in this order, with or without their intervals."""
    remaining = iter(row)
    return all(any(cell in (found, found.split(" [")[0]) for found in remaining) for cell in cells)


def test_the_example_in_the_readme_printed_that() -> None:
    printed = (ROOT / "results" / "examples" / "stable_worldmodel.txt").read_text()
    assert f"$ python examples/stable_worldmodel.py\n{printed}```" in (ROOT / "README.md").read_text()


def test_the_audit_in_the_readme_is_the_recorded_one() -> None:
    recorded = json.loads((ROOT / "results" / "audits" / "raw.json").read_text())
    text = (ROOT / "README.md").read_text()
    for stage in recorded["stages"]:
        (line,) = re.findall(rf"^{stage['name']} +{stage['outcome']} .*$", text, re.MULTILINE)
        assert "–" in line if stage["value"] is None else f" {stage['value']:.3g} " in line
    assert f"verdict: {recorded['verdict']}" in text
