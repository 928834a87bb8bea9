"""A small part of `make faults`: damaged and hostile files give the undisturbed result or one sentence."""

from contextlib import closing
from pathlib import Path

import pytest

from reachcost.errors import ReachcostError
from reachcost_tools.faults import damage, hostile
from reachcost_tools.faults.browser import optional_browser, page_errors
from reachcost_tools.faults.damage import FORMATS
from reachcost_tools.faults.isolation import Here, Isolated
from reachcost_tools.faults.parsers import feed, parsers
from tests.browser import started


def test_damaged_files_of_every_format_are_refused_or_harmless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(FORMATS, "logs (Lance)", raising=False)  # it must not be loaded where others fork
    with optional_browser() as browser:
        found = [*damage.attempts(40, tmp_path, Here(), browser)]
    assert len(found) == 40
    assert [attempt for attempt in found if attempt.wrong] == []


def test_what_hangs_dies_or_raises_is_noticed() -> None:
    with closing(Isolated(1.0)) as process:
        assert process.run(eval, "1 + 1") == ("returned", 2)
        assert process.run(eval, "1 / 0").how == "raised"
        assert process.run(eval, "__import__('time').sleep(60)").how == "hung"
        assert process.run(eval, "__import__('os').abort()").how == "died"
        assert process.run(eval, "2 + 2") == ("returned", 4)


def test_hostile_files_run_nothing_and_get_a_sentence(tmp_path: Path) -> None:
    with optional_browser() as browser:
        found = [*hostile.attempts(42, tmp_path, Here(), browser, traps=40)]
    assert len(found) == 42
    assert [attempt for attempt in found if attempt.wrong] == []


BROKEN = {
    "<main>fine</main>": "",
    "<main></main>": "empty",
    "<main>broken<script>draw.all()</script></main>": "draw is not defined",
    "<main>late<select onchange='draw.all()'><option>1</select></main>": "draw is not defined",
    "<main>code<script>alert(1)</script></main>": "dialog",
    "<main>flat<canvas width=9 height=0></canvas></main>": "9 x 0",
}


def test_a_page_that_is_broken_is_noticed(tmp_path: Path) -> None:
    with started() as browser:
        for page, error in BROKEN.items():
            (tmp_path / "page.html").write_text(f"<!doctype html><link rel=icon href=data:,>{page}")
            found = page_errors(browser, tmp_path)
            assert error in found
            assert bool(error) is bool(found)
            assert not [*tmp_path.iterdir()]


def test_other_values_in_records_are_refused_or_make_a_page_that_works(tmp_path: Path) -> None:
    found: list[str] = []
    with optional_browser() as browser:
        for number in (15, 60, 151, 198):  # these once made broken pages
            (tmp_path / str(number)).mkdir()
            outcome = Here().run(hostile.read_changed_record, number, tmp_path / str(number))
            found.append(hostile.error_of(outcome, tmp_path, harmless=True) or page_errors(browser, tmp_path))
    assert found == [""] * 4


def test_every_parser_takes_what_it_begins_with_and_refuses_noise() -> None:
    for parse, seeds in parsers().values():
        for data in (*seeds, b"\xff{", b"", b"9" * 5000, b"seeds = [" + b"9" * 5000 + b"]"):
            feed(parse, data)


@pytest.mark.parametrize("error", [ReachcostError(), ValueError("invalid literal")])
def test_a_parser_may_only_raise_an_error_with_a_message(error: Exception) -> None:
    def parse(data: bytes) -> None:
        raise error

    with pytest.raises((AssertionError, ValueError)):
        feed(parse, b"")
