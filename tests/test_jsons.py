"""Untrusted JSON is read in one place, within limits."""

from pathlib import Path

import numpy as np
import pytest

from reachcost.core import json_files as jsons
from reachcost.core.json_files import parse_json, read_json, read_record
from reachcost.data.evaluation import read_evaluation_set
from reachcost.errors import ReachcostError
from reachcost.results.tables import read_table
from reachcost.tasks.tworoom.logs import FROZEN

WRONG = {
    "no value": (b"{", "Expecting"),
    "NaN": (b"[NaN]", "NaN"),
    "infinity": (b"[-Infinity]", "-Infinity"),
    "too large a number": (b"[1e400]", "1e400"),
    "too many digits": (b"[" + b"9" * 30 + b"]", "9999"),
    "one name twice": (b'{"a": 1, "a": 2}', "'a'"),
    "depth beyond the limit": (b"[" * 70 + b"]" * 70, "nested"),
    "depth beyond the recursion limit": (b"[" * 100_000, "nested"),
    "a lone surrogate": (rb'["\ud800"]', "surrogates"),
    "no text": (b'["\xff"]', "utf-8"),
}


@pytest.mark.parametrize("case", WRONG)
def test_invalid_json_is_refused(case: str, tmp_path: Path) -> None:
    data, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        parse_json(data)
    (tmp_path / "record.json").write_bytes(data)
    with pytest.raises(ReachcostError, match="JSON"):
        read_record(tmp_path / "record.json")


def test_valid_json_is_read() -> None:
    assert parse_json(rb'{"a": [1, -2.5, null, true, "\u00e9"], "b": {"a": 9223372036854775807}}') == {
        "a": [1, -2.5, None, True, "é"],
        "b": {"a": 2**63 - 1},
    }


def test_large_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsons, "LARGEST", 2**20)
    (tmp_path / "large.json").write_bytes(b" " * (2**20 + 1))
    with pytest.raises(ValueError, match="1 MB"):
        read_json(tmp_path / "large.json")


@pytest.mark.parametrize(("old", "new"), [('"starts"', '"start"'), ("[[", "["), ("{", "")])
def test_a_damaged_evaluation_set_is_refused(old: str, new: str, tmp_path: Path) -> None:
    text = (FROZEN / "balanced.json").read_text()
    (tmp_path / "set.json").write_text(text)
    assert len(read_evaluation_set(tmp_path / "set.json", np.float32)) == 40
    (tmp_path / "set.json").write_text(text.replace(old, new, 1))
    with pytest.raises(ReachcostError, match=r"set\.json"):
        read_evaluation_set(tmp_path / "set.json", np.float32)


def test_an_interval_with_one_end_is_refused(tmp_path: Path) -> None:
    row = '{"cost": "raw", "model": "m", "n": 4, "ours": {"success": 1}, "interval": {"success": [2]}, "paper": null}'
    (tmp_path / "made.json").write_text(f'{{"table": "made", "rows": [{row}]}}')
    with pytest.raises(ReachcostError, match="interval"):
        read_table(tmp_path / "made.json")
