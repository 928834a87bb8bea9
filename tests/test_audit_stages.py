"""Intervals and rows of stages, the gain of an order of candidates, caveats, and the command."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from reachcost.audits.planner import audit
from reachcost.audits.sasc import roll_out
from reachcost.audits.stage import NO_EPISODE, Rule, apply_rule, apply_rule_to_ratio
from reachcost.audits.stages import RULES, STAGES
from reachcost.audits.stages import ranking as ranking_stage
from reachcost.audits.stages.coverage import PLACES
from reachcost.audits.stages.dynamics import logged_moves, skill
from reachcost.audits.stages.ranking import ranking_gain
from reachcost.audits.stages.representation import read
from reachcost.audits.subject import Subject
from reachcost.cli import main
from reachcost.costs.latent import HeadCost, LatentMSE
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs_files import write_logs
from reachcost.errors import ReachcostError
from reachcost.fitting.fit import fit
from reachcost.heads.kinds import PairHead
from reachcost.heads.recipe import Recipe
from reachcost.labels.temporal import TemporalPairs
from reachcost.planning.categorical_cem import CategoricalCEM
from reachcost.planning.cem import CEM
from reachcost.protocols import Observations, TerminalCost
from reachcost.results.stats import wilson
from reachcost.tasks.toponav.features import ExactTopoNav
from reachcost.tasks.toponav.task import TopoNav
from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels.jepa import JepaWorldModel

GRID = CategoricalCEM(candidates=16, iterations=1, elites=2)
QUICK = Recipe(epochs=1, hidden=8)
ENDS = (".json", ".parquet", ".scene.json")


@pytest.fixture(scope="module")
def grid(task: TopoNav, model: ExactTopoNav, latents: Latents, evaluation: EvaluationSet) -> Subject:
    return Subject(model, latents, task=task, evaluation=replace(evaluation.spread(6), budget=20), planner=GRID)


@pytest.fixture
def few_goals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking_stage, "GOALS", 5)
    monkeypatch.setattr(ranking_stage, "PAIRS", 1000)


def test_only_declared_shares_have_the_interval_of_a_share() -> None:
    """A constant cost gains nothing in any episode, which is no share of episodes."""
    shares = {name for name in STAGES if RULES[name].share}
    assert shares == {"goals", "sampling", "coverage", "foresight", "execution"}
    nothing = np.zeros(30)
    assert apply_rule(RULES["ranking"], nothing, np.arange(30)).interval == (0, 0)
    assert apply_rule_to_ratio(RULES["ranking"], nothing, nothing + 1, np.arange(30)).interval == (0, 0)
    assert apply_rule(RULES["execution"], nothing, np.arange(30)).interval == pytest.approx(
        [100 * bound for bound in wilson(0, 30)]
    )


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=40))
def test_intervals_count_episodes_not_places(places: list[tuple[int, bool]]) -> None:
    rule = Rule("coverage", "% lost", 10.0, False, "log more", share=True)
    episodes, lost = (np.array(column) for column in zip(*places, strict=True))
    once, twice = (apply_rule(rule, np.repeat(100.0 * lost, times), np.repeat(episodes, times)) for times in (1, 2))
    assert once.value == pytest.approx(100 * lost.mean())
    assert once.n == len(set(episodes.tolist()))
    assert twice.value == pytest.approx(once.value)
    assert (once.interval is None) == (twice.interval is None) == (once.n == 1)
    assert once.interval is None or twice.interval == pytest.approx(once.interval)
    for number, row in zip(once.episodes, once.rows, strict=True):
        assert row == pytest.approx(100 * lost[episodes == number].mean())


@given(st.integers(0, 1000))
def test_the_mean_of_the_rows_is_the_ratio(seed: int) -> None:
    random, rule = np.random.default_rng(seed), RULES["dynamics"]
    parts, wholes, episodes = random.normal(size=30), random.uniform(1, 2, 30), random.integers(0, 6, 30)
    found = apply_rule_to_ratio(rule, parts, wholes, episodes)
    assert found.episodes.tolist() == sorted({*episodes.tolist()})
    assert found.value == pytest.approx(parts.sum() / wholes.sum())
    assert found.value is not None
    assert found.rows.mean() == pytest.approx(found.value)
    assert found.interval is not None
    assert found.interval[0] - 1e-9 <= found.value <= found.interval[1] + 1e-9
    repeated = apply_rule_to_ratio(rule, *(np.tile(part, 4) for part in (parts, wholes, episodes)))
    assert repeated.interval == pytest.approx(found.interval)  # what is of one episode adds no certainty


def test_a_ratio_of_zeros_is_unknown() -> None:
    rule, nothing = RULES["dynamics"], np.zeros(4)
    still = apply_rule_to_ratio(rule, nothing, nothing, np.arange(4))
    assert (still.outcome, still.interval) == ("unknown", None)
    assert "states that never vary" in still.advice
    once = apply_rule_to_ratio(rule, nothing, np.ones(4), np.zeros(4, int))
    assert (once.outcome, once.value, once.interval) == ("fail", 0, None)


numbers = st.integers(0, 20).map(float)
"""Few different numbers, so that many are equal."""
pools = array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=12).flatmap(
    lambda shape: st.tuples(arrays(float, shape, elements=numbers), arrays(float, shape, elements=numbers))
)


@given(pools, st.data())
def test_the_gain_lies_between_chance_and_truth(pool: tuple[np.ndarray, np.ndarray], data: st.DataObject) -> None:
    scores, distances = pool
    elites = data.draw(st.integers(1, scores.shape[1]))
    gain, possible = ranking_gain(scores, distances, elites)
    assert gain.shape == possible.shape == (len(scores),)
    np.testing.assert_array_less(-1e-9, possible)
    np.testing.assert_array_less(gain, possible + 1e-9)
    nothing, same = ranking_gain(np.full(scores.shape, 3.0), distances, elites)
    np.testing.assert_allclose(nothing, 0, atol=1e-9)
    np.testing.assert_array_equal(same, possible)
    np.testing.assert_allclose(ranking_gain(distances, distances, elites)[0], possible, atol=1e-9)
    worst = ranking_gain(-distances, distances, elites)[0]
    np.testing.assert_array_less(worst, gain + 1e-9)


@given(pools, st.data())
def test_only_the_order_of_a_cost_counts(pool: tuple[np.ndarray, np.ndarray], data: st.DataObject) -> None:
    scores, distances = pool
    elites = data.draw(st.integers(1, scores.shape[1]))
    change = data.draw(st.sampled_from([np.exp, np.sqrt, lambda cost: 3 * cost - 7, lambda cost: cost**3]))
    gain, possible = ranking_gain(scores, distances, elites)
    np.testing.assert_array_equal(ranking_gain(change(scores), distances, elites), (gain, possible))
    nearer = ranking_gain(scores, 5 * distances + 2, elites)  # the unit cancels in the share, an offset at once
    np.testing.assert_allclose(nearer, (5 * gain, 5 * possible), atol=1e-9)


@given(pools, st.data())
def test_ties_count_as_a_random_order(pool: tuple[np.ndarray, np.ndarray], data: st.DataObject) -> None:
    scores, distances = (part[:1] for part in pool)
    elites = data.draw(st.integers(1, scores.shape[1]))
    random = np.random.default_rng(0)
    noise = random.uniform(0, 0.5, (3000, scores.shape[1]))
    broken = ranking_gain(scores + noise, np.repeat(distances, len(noise), 0), elites)[0]
    expected = ranking_gain(scores, distances, elites)[0]
    assert broken.mean() == pytest.approx(expected[0], abs=6 * broken.std() / len(noise) ** 0.5 + 1e-9)


def test_ends_without_a_path_count_as_twice_the_farthest() -> None:
    distances = np.array([[1.0, 3.0, np.inf, np.inf]])
    known = np.array([[1.0, 3.0, 6.0, 6.0]])
    for scores in (np.array([[0.0, 1.0, 2.0, 3.0]]), np.array([[3.0, 2.0, 1.0, 0.0]]), np.zeros((1, 4))):
        np.testing.assert_array_equal(ranking_gain(scores, distances, 2), ranking_gain(scores, known, 2))
    nowhere = ranking_gain(np.array([[0.0, 1.0]]), np.full((1, 2), np.inf), 1)
    np.testing.assert_array_equal(nowhere, np.zeros((2, 1)))


def test_an_example_by_hand() -> None:
    """Of distances 0, 1, 2, 9 two elites at best have mean 0.5, the pool has 3; one tie for the second place."""
    distances = np.array([[0.0, 1.0, 2.0, 9.0]])
    gain, possible = ranking_gain(np.array([[0.0, 5.0, 5.0, 9.0]]), distances, 2)
    assert possible.tolist() == [2.5]
    assert gain.tolist() == [3 - (0 + 1.5) / 2]


def test_rows_belong_to_evaluated_episodes(grid: Subject, head: PairHead) -> None:
    found = {stage.name: stage for stage in audit(replace(grid, cost=HeadCost(head))).stages}
    episodes = grid.require_simulator()[1].episodes
    assert found["representation"].episodes.tolist() == [NO_EPISODE]
    for name in ("goals", "sampling", "ranking", "dynamics", "execution"):
        np.testing.assert_array_equal(found[name].episodes, episodes)
        assert found[name].n == len(episodes)
        assert found[name].rows.mean() == pytest.approx(found[name].value)
        assert found[name].interval is not None
    failed = episodes[found["execution"].rows == 0]
    assert len(failed) > 0
    np.testing.assert_array_equal(found["coverage"].episodes, failed)
    assert {*found["coverage"].rows.tolist()} <= {0, 100}  # a path leads through a gap, or not
    assert found["coverage"].rows.mean() == pytest.approx(found["coverage"].value)


def test_coverage_uses_all_paths_if_no_episode_fails(grid: Subject, head: PairHead) -> None:
    goals = grid.require_simulator()[1]
    there = replace(grid, cost=HeadCost(head), evaluation=replace(goals, goals=goals.starts))
    found = STAGES["coverage"](there)
    np.testing.assert_array_equal(found.episodes, goals.episodes)
    assert found.value == 0  # every start is at its goal


@pytest.mark.slow
@pytest.mark.usefixtures("few_goals")
def test_rows_belong_to_logged_episodes(world: TwoRoom, lewm: JepaWorldModel, logged: Latents) -> None:
    unseen = encode_logs(lewm, world.generate_logs(60, seed=7))
    head = HeadCost(fit(TemporalPairs(logged, 500), QUICK))
    found = {stage.name: stage for stage in audit(Subject(lewm, logged, head, held_out=unseen)).stages}
    for name in ("dynamics", "coverage", "ranking"):
        assert found[name].episodes.min() >= 0
        assert found[name].episodes.max() < len(unseen.logs)
        assert found[name].n == len(found[name].rows) == len(found[name].episodes)
    for name in ("dynamics", "coverage"):
        assert len(np.unique(found[name].episodes)) == found[name].n < PLACES
    foreseen, change = skill(*(read(Subject(lewm, logged), part) for part in logged_moves(lewm, unseen)[1:]))
    assert found["dynamics"].value == pytest.approx(foreseen.sum() / change.sum(), abs=1e-5)


class Broken:
    """A world model whose predictions, or latents of everything after the start, are not finite."""

    def __init__(self, model: Any, starts: int | None = None) -> None:
        self.latent_dim, self.action_dim = model.latent_dim, model.action_dim
        self.model, self.starts = model, starts
        self.actions = getattr(model, "actions", None)

    def encode(self, observations: Observations) -> torch.Tensor:
        latent = self.model.encode(observations)
        return latent if self.starts is None or len(latent) <= self.starts else latent * torch.nan

    def rollout(self, context: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        predicted = self.model.rollout(context, actions)
        return predicted * torch.nan if self.starts is None else predicted


@pytest.mark.usefixtures("few_goals")
def test_predictions_that_are_not_finite_are_an_error(grid: Subject, lewm: JepaWorldModel, logged: Latents) -> None:
    (task, goals), model = grid.require_simulator(), grid.model
    known = Latents(grid.latents.values, grid.latents.logs)
    wild = replace(grid, model=Broken(model), latents=known)
    learned = HeadCost(fit(TemporalPairs(known, 500), QUICK))
    calls: list[tuple[str, Callable[[], object]]] = [
        ("rollout", lambda: audit(wild)),
        ("rollout", lambda: audit(replace(wild, cost=learned))),
        ("rollout", lambda: roll_out(task, Broken(model), goals, np.zeros((6, 2, 3, 1), np.int64))),
        ("episode 0", lambda: audit(replace(wild, model=Broken(model, starts=len(goals))))),
        ("rollout", lambda: audit(Subject(Broken(lewm), Latents(logged.values, logged.logs)))),
    ]
    for problem, call in calls:
        with pytest.raises(ReachcostError, match=problem):
            call()


@pytest.mark.slow
def test_a_caveat_reports_a_head_fitted_on_the_evaluation_set(
    lewm: JepaWorldModel, logged: Latents, world: TwoRoom
) -> None:
    """A head that excluded a set excluded its parts; other sets may or may not contain the part."""
    full = world.evaluation_set("high-distance")
    assert full.source_episodes is not None
    seen = np.flatnonzero((full.source_episodes < len(logged.logs)).any(1))
    unseen = np.setdiff1d(np.arange(len(full)), seen)
    assert len(seen) >= 2
    part, tiny = full.subset(seen[:2]), CEM(candidates=8, iterations=1, elites=2)
    maybe, surely = "may have been fitted on episodes of this one", "was fitted on episodes of the evaluation set"

    def caveats(cost: TerminalCost) -> list[str]:
        found = audit(Subject(lewm, logged, cost, world, part, tiny)).caveats
        return [caveat for caveat in found if "overestimate" in caveat]

    assert not caveats(LatentMSE())
    for excluded, caveat in (
        (None, surely),
        (full, ""),
        (part, ""),
        ([full.subset(unseen), part], ""),
        (full.subset(unseen), maybe),
    ):
        found = caveats(HeadCost(fit(TemporalPairs(logged.without(excluded), 500), QUICK)))
        assert len(found) == bool(caveat)
        assert all(caveat in one for one in found)


def test_the_command_writes_rows_next_to_the_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs, out = tmp_path / "logs.h5", tmp_path / "audit.json"
    write_logs(TwoRoom().generate_logs(20), logs)
    command = ["audit", "--model", "lewm-tworoom-3072", "--logs", str(logs), "--task", "tworoom", "--no-criteria"]
    options = ["--episodes", "3", "--candidates", "20", "--iterations", "1"]
    assert main([*command, *options, "--out", str(out)]) == 3
    assert {path.name for path in tmp_path.iterdir()} == {f"audit{end}" for end in ENDS} | {"logs.h5"}
    rows = pq.read_table(tmp_path / "audit.parquet").to_pydict()
    recorded = {stage["name"]: stage for stage in json.loads(out.read_text())["stages"]}
    for name, stage in recorded.items():
        values = [value for kind, value in zip(rows["measurement"], rows["value"], strict=True) if kind == name]
        assert len(values) == stage["n"]
        assert stage["value"] is None or np.mean(values) == pytest.approx(stage["value"], abs=1e-5)
    before = out.read_bytes()
    out.unlink()  # as if it had been killed before it wrote its record
    assert main([*command, *options, "--out", str(out)]) == 3
    assert out.read_bytes() == before
    out.unlink()
    (tmp_path / "audit.parquet").write_text("mine")
    capsys.readouterr()
    assert main([*command, *options, "--out", str(out)]) == 1
    assert "audit.parquet exists already" in capsys.readouterr().err
    assert main([*command, "--out", str(tmp_path / "new.parquet")]) == 1
    assert "name a JSON file" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["audit", "--help"])
    assert ".parquet" in capsys.readouterr().out


@pytest.fixture(scope="module")
def command(task: TopoNav, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    logs, model = tmp_path_factory.mktemp("grid") / "logs.h5", "reachcost.tasks.toponav.features:ExactTopoNav"
    write_logs(task.generate_logs(300), logs)
    return ["audit", "--model", model, "--logs", str(logs), "--task", "toponav", "--episodes", "4"]


@pytest.mark.slow
def test_exit_codes(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    lenient = ["--threshold", "ranking=-9", "dynamics=-9", "representation=-9", "coverage=100"]
    for options, code, verdict in (
        (["--no-criteria", "--threshold", "sampling=50"], 3, "ranking"),
        (["--no-criteria", "--threshold", "execution=0", "ranking=0.9", "--horizon", "6"], 0, "none"),
        (["--logs-only", *lenient], 4, "cannot tell"),
    ):
        assert main([*command, *options]) == code
        assert f"verdict: {verdict}" in capsys.readouterr().out
    with pytest.raises(SystemExit) as usage:
        main([*command, "--episodes", "many"])
    assert usage.value.code == 2
    with pytest.raises(SystemExit):
        main(["audit", "--help"])
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "3 if a stage" in text


@pytest.mark.parametrize("candidates", ["2", "3"])
def test_a_tiny_pool_does_not_pass_ranking(
    command: list[str], candidates: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two of three candidates are elites: almost every order keeps the best one."""
    assert main([*command, "--no-criteria", "--candidates", candidates, "--iterations", "1"]) == 3
    text = capsys.readouterr().out
    assert "verdict: sampling" in text
    ranking = next(line for line in text.splitlines() if line.startswith("ranking"))
    assert "pass" not in ranking


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--threshold", "ranking"], "--threshold ranking: give NAME=VALUE"),
        (["--threshold", "ranking=much"], "--threshold ranking=much: give NAME=VALUE"),
        (["--threshold", "rank=1"], "there is no threshold 'rank'"),
        (["--threshold", "ranking=nan"], "nan"),
        (["--state-columns", "0", "9"], "state_columns are [0, 9]"),
        (["--horizon", "0"], "make every count positive"),
    ],
)
def test_wrong_options_are_one_sentence(
    command: list[str], options: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, *options]) == 1
    error = capsys.readouterr().err.strip()
    assert problem in error
    assert len(error.splitlines()) == 1
