"""The table `layouts-unseen`: heads of a few frames, in layouts that were not used for training."""

from dataclasses import replace
from pathlib import Path

import pytest

from reachcost.errors import ReachcostError
from reachcost.experiments.experiment import Experiment
from reachcost_paper.tworoom import new_layouts
from reachcost_paper.worlds.layouts import APART, TESTED
from tests.cells import record
from tests.small import EPISODES, STUDIES, quicker, small_table


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Imagine little, from few frames."""
    quick = quicker(replace(new_layouts.HEAD, rows=None))
    monkeypatch.setattr(new_layouts, "HEAD", quick)
    monkeypatch.setattr(new_layouts, "LOGS", {"episodes": 3, "seed": 7})


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
@pytest.mark.filterwarnings("ignore::reachcost.errors.ReachcostWarning")
def test_settings_count_the_episodes_of_their_layouts_together(tmp_path: Path) -> None:
    rows = small_table("tworoom", "layouts-unseen", tmp_path)["rows"]
    counted = {(row["setting"], row["cost"]): row["n"] for row in rows}
    for setting, names in new_layouts.SETTINGS.items():
        for cost, suffix in new_layouts.METHODS:
            assert counted[f"{setting}{suffix}", cost] == len(names) * EPISODES["tworoom"]
    assert {row["setting"] for row in rows} >= {"door 88", "door 150", "horizontal 88", "horizontal 120"}
    heads = {path.name for path in tmp_path.glob("runs/tworoom/heads/*")}
    assert heads == {f"layouts-3072-{name}-trm-imagined" for name in TESTED}


def test_training_layouts_are_far_from_tested_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = Experiment(STUDIES["tworoom"], tmp_path)
    (run,) = record(experiment.cell(new_layouts.SplitRun()))
    new_layouts.require_apart(run)
    split = run.table().to_pylist()
    assert sum(row["part"] == "trained" for row in split) == new_layouts.TRAINED["layouts"]
    assert min(row["to_judged"] for row in split if row["part"] == "trained") > APART
    monkeypatch.setattr(new_layouts, "training_layout", lambda seed, number: TESTED["door-88"])
    other = Experiment(STUDIES["tworoom"], tmp_path / "other")
    with pytest.raises(ReachcostError, match="layout"):
        new_layouts.require_apart(*record(other.cell(new_layouts.SplitRun())))
