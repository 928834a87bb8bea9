"""The audit tables: small ones made from scratch, and what the published ones claim."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reachcost.base.progress import Progress
from reachcost.experiments import GROUPS, tables_of
from reachcost.experiments.tworoom import Experiment
from reachcost.experiments.tworoom_audit_tables import AUDITS, reproduce_audit
from reachcost.experiments.tworoom_settings import LAYOUTS, Setting
from reachcost.results.figures.distributions import draw_distributions
from reachcost.results.figures.dot_plot import Dot, draw_dots

from .test_reproduce import contents
from .test_tworoom_tables import SMALL, published, rows_of

ROOT = Path(__file__).parent.parent
QUICKLY_MADE = sorted(set(AUDITS) - {"logged-audit"})  # which encodes a thousand unseen episodes


def small_table(name: str, out: Path) -> dict[str, Any]:
    reproduce_audit(name, out, Progress(), SMALL, log_episodes=300, episodes=2)
    return json.loads((out / "tables" / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audits")


@pytest.mark.parametrize("name", QUICKLY_MADE)
def test_a_small_audit_has_the_lines_and_columns_of_the_published_one(name: str, out: Path) -> None:
    small, whole = small_table(name, out), published(name)
    for row, known in zip(small["rows"], whole["rows"], strict=True):
        for key in ("cost", "model", "seed", "setting", "paper"):
            assert row.get(key) == known.get(key)
        assert row["ours"].keys() == known["ours"].keys()
        for metric, (low, high) in row["interval"].items():
            assert low <= row["ours"][metric] + 1e-4
            assert high >= row["ours"][metric] - 1e-4
    picture = out / "figures" / f"{name}.png"
    assert picture.exists() == (ROOT / "results" / "figures" / f"{name}.png").exists()
    before = contents(out)
    small_table(name, out)
    assert contents(out) == before  # the second time everything is read back, and drawn with the same bytes


@pytest.mark.parametrize("name", sorted(AUDITS))
def test_published_audits_say_what_they_are(name: str) -> None:
    text = (ROOT / "results" / "tables" / f"{name}.md").read_text()
    assert AUDITS[name].note in text
    assert f"Made by `reachcost reproduce {name}`." in text
    drawn = bool(AUDITS[name].drawn) or name == "sasc"
    assert (ROOT / "results" / "figures" / f"{name}.png").exists() == drawn


def test_audits_stands_for_all_of_them() -> None:
    assert tables_of("audits") == GROUPS["audits"] == tuple(AUDITS)


def values(name: str, metric: str, **wanted: object) -> list[float]:
    return [row["ours"][metric] for row in rows_of(name, **wanted) if metric in row["ours"]]


def test_published_rankings_agree_with_the_paper() -> None:
    (raw,), (trm,), (shuffled,) = (values("sasc", "rank", cost=cost, seed=None) for cost in ("raw", "trm", "shuffled"))
    assert trm < 1 < 20 < raw < shuffled
    (difference,) = rows_of("statistics", cost="trm-complete minus raw", seed=3072)
    assert difference["interval"]["rho_geo"][0] > 0
    assert difference["interval"]["rank"][1] < 0
    assert values("statistics", "p_value", cost="trm minus raw") == [0.25]


def test_published_representation_and_subspace_agree_with_the_paper() -> None:
    assert min(values("probe", "r2")) > 0.998
    assert max(values("subspace", "mse_share")) < 1
    far = {"setting": "high-distance set", "seed": None}
    (rowspace,), (residual,) = (values("subspace", "success", cost=cost, **far) for cost in ("rowspace", "residual"))
    assert rowspace > residual + 40
    assert min(values("attribution", "gradient_share")) > 2 * 100 * 2 / 192
    for full, averaged in zip(
        *(values("features", "rho_geo", setting=s) for s in ("all features", "both orders averaged")), strict=True
    ):
        assert averaged > full


def test_published_stress_tests_agree_with_the_paper() -> None:
    (limited,), (balanced,) = (values("coverage", "success", setting=setting) for setting in ("limited", "balanced"))
    assert limited <= 10
    assert balanced >= 95
    for setting in ("door 88", "door 150"):
        (raw,), (moved,) = (values("layout", "success", cost=cost, setting=setting) for cost in ("raw", "trm"))
        assert raw + 20 < moved < 90
    assert max(values("layout", "success", cost="geodesic-mlp", setting="horizontal 88")) < 30


def test_the_audit_of_logs_orders_costs_as_the_simulator_does() -> None:
    for judges in ("logs and SASC", "logs and success"):
        (both,) = rows_of("logged-audit", cost=judges)
        assert both["ours"]["agreement"] >= 0.8
        assert min(both["per_model"]) >= 0.8
        assert both["n"] == len(published("logged-audit")["rows"]) - 4 >= 14


def test_every_layout_has_an_evaluation_set_of_its_own(tmp_path: Path) -> None:
    experiment = Experiment(tmp_path, Progress())
    for name, layout in LAYOUTS.items():
        world, goals = experiment.world(name), experiment.evaluation(name)
        assert world.layout == layout
        assert len(goals) == 100
        assert goals.world == world.world
        assert (layout.room(goals.starts) != layout.room(goals.goals)).sum() == 50
        assert Setting("lewm-tworoom-3072", "trm", evaluation=name).excluded == "high-distance"


def test_pictures_can_be_drawn_without_intervals_and_paper(tmp_path: Path) -> None:
    dots = [Dot("one", "group", {"success": 3.0}), Dot("two", "other", {}, {}, {"success": 4.0})]
    draw_dots(dots, {"success": "success %"}, tmp_path / "dots.png", "Two lines", {"success": (2.0, "half")})
    draw_distributions({"one": np.arange(10.0), "two": np.full(3, 7.0)}, tmp_path / "lines.png", "Ranks", "rank %")
    for name in ("dots", "lines"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
