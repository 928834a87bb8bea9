"""JSON from strangers is read in one place, within bounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reachcost.core import json_files as jsons
from reachcost.core.json_files import parse_json, read_json, read_record
from reachcost.data.evaluation import read_evaluation_set
from reachcost.errors import ReachcostError
from reachcost.results.tables import read_table
from reachcost.tasks.tworoom.evaluation_sets import FROZEN

WRONG = {
    "no value": (b"{", "Expecting"),
    "NaN": (b"[NaN]", "NaN is not a number"),
    "infinity": (b"[-Infinity]", "-Infinity is not a number"),
    "too large a number": (b"[1e400]", "1e400 is not a number"),
    "too many digits": (b"[" + b"9" * 30 + b"]", "is not a number"),
    "digits without end": (b"[" + b"9" * 100_000 + b"]", "is not a number"),
    "one name twice": (b'{"a": 1, "a": 2}', "'a' occurs twice"),
    "depth that is walked": (b"[" * 70 + b"]" * 70, "nested too deeply"),
    "depth without end": (b"[" * 100_000, "nested too deeply"),
    "half a character": (rb'["\ud800"]', "surrogates not allowed"),
    "no text": (b'["\xff"]', "utf-8"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_plain_value_is_refused(case: str, tmp_path: Path) -> None:
    data, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        parse_json(data)
    (tmp_path / "record.json").write_bytes(data)
    with pytest.raises(ReachcostError, match=r"is not valid JSON .*: give a record as reachcost writes it"):
        read_record(tmp_path / "record.json")


def test_values_come_as_they_are() -> None:
    assert parse_json(rb'{"a": [1, -2.5, null, true, "\u00e9"], "b": {"a": 9223372036854775807}}') == {
        "a": [1, -2.5, None, True, "é"],
        "b": {"a": 2**63 - 1},
    }


def test_files_are_read_up_to_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsons, "LARGEST", 2**20)
    (tmp_path / "large.json").write_bytes(b" " * (2**20 + 1))
    with pytest.raises(ValueError, match="it has more than 1 MB"):
        read_json(tmp_path / "large.json")


@pytest.mark.parametrize(("old", "new"), [('"starts"', '"start"'), ("[[", "["), ("{", "")])
def test_a_damaged_evaluation_set_is_one_sentence(old: str, new: str, tmp_path: Path) -> None:
    text = (FROZEN / "balanced.json").read_text()
    (tmp_path / "set.json").write_text(text)
    assert len(read_evaluation_set(tmp_path / "set.json", np.float32)) == 40
    (tmp_path / "set.json").write_text(text.replace(old, new, 1))
    with pytest.raises(ReachcostError, match=r"set\.json is damaged .*: reinstall reachcost"):
        read_evaluation_set(tmp_path / "set.json", np.float32)


def test_an_interval_has_two_ends(tmp_path: Path) -> None:
    row = '{"cost": "raw", "model": "m", "n": 4, "ours": {"success": 1}, "interval": {"success": [2]}, "paper": null}'
    (tmp_path / "made.json").write_text(f'{{"table": "made", "rows": [{row}]}}')
    with pytest.raises(ReachcostError, match="interval"):
        read_table(tmp_path / "made.json")
