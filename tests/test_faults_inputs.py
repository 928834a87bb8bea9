"""A small part of `make faults`: damaged and hostile files, each undisturbed or one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults import hostile, mutated
from faults.formats import FORMATS
from faults.isolated import Here, isolated


def test_damaged_files_of_every_format_are_refused_or_harmless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(FORMATS, "logs (Lance)", raising=False)  # it must not be loaded where others fork
    found = [*mutated.tried(40, tmp_path, Here())]
    assert len(found) == 40
    assert [attempt for attempt in found if attempt.wrong] == []


def test_what_hangs_dies_or_raises_is_noticed() -> None:
    with isolated(1.0) as process:
        assert process.run(eval, "1 + 1") == ("returned", 2)
        assert process.run(eval, "1 / 0").how == "raised"
        assert process.run(eval, "__import__('time').sleep(60)").how == "hung"
        assert process.run(eval, "__import__('os').abort()") == ("died", "SIGABRT")
        assert process.run(eval, "2 + 2") == ("returned", 4)


def test_hostile_files_run_nothing_and_get_a_sentence(tmp_path: Path) -> None:
    found = [*hostile.tried(40, tmp_path, Here())]
    assert [attempt for attempt in found if attempt.wrong] == []
