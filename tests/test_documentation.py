"""The code of the documentation prints what the pages show, its numbers are published, and its names exist."""

import doctest
import importlib
import json
import linecache
import pkgutil
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

import reachcost
from reachcost.experiments.registry import all_tables, results_of

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
BRIEF = {
    "episodes=10_000": "episodes=60",
    'evaluation_set("high-distance")': 'evaluation_set("high-distance").spread(2)',
    "exclude=goals": "exclude=goals, pairs=2000, recipe=rc.Recipe(epochs=1)",
    "rc.CEM()": "rc.CEM(candidates=20, iterations=2, elites=4)",
}
SMALLER = {
    "README.md": BRIEF,
    "repair.md": BRIEF,
    "toponav.md": {
        "episodes=2500": "episodes=60",
        "evaluation_set()": "evaluation_set().spread(3)",
        "count=60_000": "count=2000",
    },
}
"""Substitutions that make long examples take seconds. `python examples/pages.py PAGE` runs one in full."""
NUMBER = r"-?\d+(?:\.\d+)?%?"
NEEDS_SWM = "stable-worldmodel.md"  # `tests/swm/test_example.py` runs its code
MODULES = [name for _, name, _ in pkgutil.walk_packages(reachcost.__path__, "reachcost.")]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def printed_by(page: Path, capsys: pytest.CaptureFixture[str], smaller: Mapping[str, str]) -> tuple[str, str]:
    """Output of all Python of a page after some substitutions, and the output that the page shows."""
    namespace: dict[str, object] = {}
    for block in blocks(page, "python"):
        for full, small in smaller.items():
            block = block.replace(full, small)
        exec(compile(block, page.name, "exec"), namespace)
    return capsys.readouterr().out, "".join(blocks(page, "text"))


def agrees(found: str, shown: str) -> bool:
    """Whether two printed numbers are close: another processor rounds differently, and trains another head."""
    correlation = re.fullmatch(r"-?[01]\.\d+", shown)
    tolerance = {"rel": 0, "abs": 0.15} if correlation else {"rel": 0.25, "abs": 0}
    return float(found.rstrip("%")) == pytest.approx(float(shown.rstrip("%")), **tolerance)


@pytest.fixture
def next_to_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory with the results of the repository, as pages expect it."""
    (tmp_path / "results").symlink_to(ROOT / "results")
    monkeypatch.chdir(tmp_path)


FULL = [page for page in PAGES if page.name not in (NEEDS_SWM, README.name, "repair.md")]
LONG = ("audits.md", "toponav.md")
"""Pages whose code takes ten seconds."""


@pytest.mark.usefixtures("next_to_results")
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] if page.name in LONG else []) for page in FULL],
    ids=[page.name for page in FULL],
)
def test_python_in_the_documentation_prints_what_the_page_shows(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed, shown = printed_by(page, capsys, {})
    assert re.sub(NUMBER, "", printed) == re.sub(NUMBER, "", shown)
    for found, known in zip(re.findall(NUMBER, printed), re.findall(NUMBER, shown), strict=True):
        assert agrees(found, known), f"{found} instead of {known}"


@pytest.mark.usefixtures("next_to_results")
@pytest.mark.parametrize("page", [page for page in PAGES if page.name in SMALLER], ids=lambda page: page.name)
def test_python_of_long_examples_runs_in_small(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert all(full in page.read_text() for full in SMALLER[page.name])
    printed, shown = printed_by(page, capsys, SMALLER[page.name])
    assert printed
    assert re.sub(NUMBER, "", printed) == re.sub(NUMBER, "", shown)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_hold(name: str) -> None:
    linecache.clearcache()  # before every example, doctest looks whether a file in it has changed
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
    for line in (
        line for line in page.read_text().splitlines() if re.match(r"\| `[^`]+` \|( (un)?clamped \|)? [-\d]", line)
    ):
        cost, *cells = (cell for cell in line.strip("| ").split(" | ") if not cell.endswith("clamped"))
        if cost.strip("`") in reachcost.zoo():
            continue  # `test_zoo.py` compares these with the models' own records
        assert any(in_order(cells, row.strip("| ").split(" | ")) for row in published.get(cost.strip("`"), [])), line


def in_order(cells: list[str], row: list[str]) -> bool:
    """Whether the cells stand in the row in this order, with or without their intervals."""
    remaining = iter(row)
    return all(any(cell in (found, found.split(" [")[0]) for found in remaining) for cell in cells)


EXAMPLES = {"stable_worldmodel": "docs/stable-worldmodel.md", "readme": "README.md", "repair": "docs/repair.md"}


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_pages_show_what_the_examples_printed(example: str) -> None:
    printed = (ROOT / "results" / "examples" / f"{example}.txt").read_text()
    assert f"\n{printed}```" in (ROOT / EXAMPLES[example]).read_text()


def test_tables_that_are_named_exist_and_tables_that_exist_are_named() -> None:
    text = "\n".join(page.read_text() for page in (*PAGES, ROOT / "Makefile"))
    for name in re.findall(r"reachcost reproduce ([a-z][\w-]*)", text):
        assert results_of(name)
    linked = re.findall(r"tables/([a-z][\w-]*)\.(?:md|json)", text)
    assert {name for name in linked if not name.startswith("stable-worldmodel-")} <= {*all_tables()}
    named = {name for name in all_tables() if re.search(rf"(`|reproduce |tables/){name}(`|\.md|\.json|\s)", text)}
    assert named == {*all_tables()}


def test_the_audit_in_the_readme_is_the_recorded_one() -> None:
    recorded = json.loads((ROOT / "results" / "audits" / "raw.json").read_text())
    text = (ROOT / "README.md").read_text()
    for stage in recorded["stages"]:
        (line,) = re.findall(rf"^{stage['name']} +{stage['outcome']} .*$", text, re.MULTILINE)
        assert "–" in line if stage["value"] is None else f" {stage['value']:.3g} " in line
    assert f"verdict: {recorded['verdict']}" in text
