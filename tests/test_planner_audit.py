"""The audit of a planner names the stage that was broken, and no other."""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from reachcost.audits import criteria
from reachcost.audits.audit import Audit
from reachcost.audits.measurements import EXECUTED, run
from reachcost.audits.planner import audit_planner
from reachcost.audits.sasc import draw_pools, sasc
from reachcost.audits.stage import apply_rule, unknown
from reachcost.audits.stages import RULES, STAGES, success, verdict_of
from reachcost.audits.stages import ranking as ranking_stage
from reachcost.audits.stages.dynamics import logged_moves, skill
from reachcost.audits.stages.ranking import ranking_gain
from reachcost.audits.stages.representation import probe as probe_of
from reachcost.audits.subject import Subject
from reachcost.cli import main
from reachcost.costs.latent import DecodedDistance, HeadCost, LatentMSE, SubspaceCost
from reachcost.costs.oracle import OracleGeodesic
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.data.logs_files import write_logs
from reachcost.data.probe import LinearProbe
from reachcost.errors import ReachcostError
from reachcost.fitting.fit import fit
from reachcost.heads.kinds import PairHead
from reachcost.heads.recipe import Recipe
from reachcost.labels.imagined import ImaginedPairs
from reachcost.labels.oracle import OraclePairs, covered_latents
from reachcost.labels.temporal import TemporalPairs
from reachcost.planning.categorical_cem import CategoricalCEM
from reachcost.planning.cem import CEM
from reachcost.planning.control import control
from reachcost.planning.planner import RandomPolicy, SamplingPlanner
from reachcost.protocols import TerminalCost
from reachcost.tasks.exact import ExactDynamics
from reachcost.tasks.toponav.features import ExactTopoNav
from reachcost.tasks.toponav.task import TopoNav
from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.loading import load_world_model
from reachcost_paper.worlds.models import Wrapped

QUICK = Recipe(epochs=3, hidden=128)
SEARCH = CEM(candidates=150, iterations=6, elites=15)
"""A third of the default search: enough for a planner with true dynamics and the true distance."""
GRID_SEARCH = CategoricalCEM(candidates=128, iterations=3, elites=16, tie_break=0.01)
SMALL = CategoricalCEM(candidates=8, iterations=1, elites=2)
NOT_NEEDED = "not needed: other stages decide the verdict"


@dataclass(frozen=True)
class Parts:
    """The parts of an audit in a simulator."""

    model: Any
    latents: Latents
    task: Any
    goals: EvaluationSet
    search: SamplingPlanner

    def audit(self, cost: TerminalCost | None = None, search: SamplingPlanner | None = None, **options: Any) -> Audit:
        return audit_planner(self.model, self.latents, cost, self.task, self.goals, search or self.search, **options)


@pytest.fixture(scope="module")
def rooms(world: TwoRoom, lewm: JepaWorldModel, logged: Latents) -> Parts:
    return Parts(lewm, logged, world, world.evaluation_set("high-distance").subset(np.arange(0, 100, 16)), SEARCH)


@pytest.fixture(scope="module")
def limited(rooms: Parts) -> Parts:
    """Logs that keep away from the door."""
    latents = rooms.latents.without(rooms.goals)
    return replace(rooms, latents=covered_latents(latents, "limited", rooms.task, None, seed=0))


@pytest.fixture(scope="module")
def trm(rooms: Parts) -> HeadCost:
    return HeadCost(fit(TemporalPairs(rooms.latents.without(rooms.goals), 20_000), QUICK))


@pytest.fixture(scope="module")
def repaired(rooms: Parts, trm: HeadCost) -> Iterator[Audit]:
    """The audit of the repaired planner, its criteria checked on few episodes and pairs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(criteria, "LARGER", 2)
        patch.setattr(criteria, "COVERAGE_PAIRS", 5_000)
        yield rooms.audit(trm, criteria=True)


@pytest.fixture(scope="module")
def cells(task: TopoNav, model: ExactTopoNav, latents: Latents, evaluation: EvaluationSet) -> Parts:
    return Parts(model, latents, task, evaluation.spread(6), GRID_SEARCH)


@pytest.fixture(scope="module")
def grid(cells: Parts) -> Audit:
    """The audit of latent distance on TopoNav."""
    return cells.audit()


def outcomes(audit: Audit) -> dict[str, str]:
    return {stage.name: stage.outcome for stage in audit.stages}


def advice(audit: Audit) -> dict[str, str]:
    """Why stages are unknown."""
    return {stage.name: stage.advice for stage in audit.stages if stage.outcome == "unknown"}


def test_latent_distance_fails_at_ranking(rooms: Parts) -> None:
    audit = rooms.audit()
    assert audit.verdict == "ranking"
    passed = {name for name, outcome in outcomes(audit).items() if outcome == "pass"}
    assert passed == {"goals", "sampling", "representation", "dynamics"}
    assert advice(audit) == {"coverage": "no logs were learned from", "foresight": NOT_NEEDED}
    assert sum(audit.categories.values()) == len(rooms.goals)
    assert not audit.criteria  # they were not asked for


@pytest.mark.slow
def test_a_repaired_planner_has_no_fault(repaired: Audit, rooms: Parts) -> None:
    assert {name for name, outcome in outcomes(repaired).items() if outcome != "pass"} == {"foresight"}
    assert advice(repaired) == {"foresight": NOT_NEEDED}
    assert repaired.verdict == "none"
    assert repaired.categories["success"] >= 0.8 * len(rooms.goals)


@pytest.mark.parametrize("labels", ["oracle", "temporal"])
def test_a_head_without_logs_of_the_doorway_fails_at_coverage(limited: Parts, labels: str) -> None:
    count = 15_000
    oracle = labels == "oracle"
    pairs = OraclePairs(limited.latents, limited.task, count) if oracle else None
    head = HeadCost(fit(pairs or TemporalPairs(limited.latents, count), QUICK))
    audit = limited.audit(head)
    assert audit.verdict == "coverage"
    assert outcomes(audit)["ranking"] == "fail"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::reachcost.errors.ReachcostWarning")
def test_the_advice_for_coverage_fixes_the_planner(limited: Parts) -> None:
    assert "reachcost fit --labels imagined" in RULES["coverage"].advice
    pairs = ImaginedPairs(limited.model, limited.latents, 50_000)
    audit = limited.audit(HeadCost(fit(pairs)))
    assert audit.verdict == "none"
    assert outcomes(audit)["ranking"] == outcomes(audit)["execution"] == "pass"


def test_a_pool_too_small_fails_at_sampling(rooms: Parts, trm: HeadCost) -> None:
    assert rooms.audit(trm, CEM(candidates=8, iterations=2, elites=2)).verdict == "sampling"


@pytest.mark.slow
def test_a_damaged_predictor_fails_at_dynamics(rooms: Parts, trm: HeadCost) -> None:
    damaged = copy.deepcopy(rooms.model)
    noise = torch.Generator().manual_seed(0)
    for weight in damaged.parts.predictor.parameters():
        weight.data += weight.data.std() * torch.randn(weight.shape, generator=noise)
    with_head = replace(rooms, model=damaged).audit(trm)
    assert with_head.verdict == "dynamics"
    assert outcomes(with_head)["representation"] == outcomes(with_head)["ranking"] == "pass"
    from_logs = STAGES["dynamics"](Subject(damaged, rooms.latents))
    assert from_logs.outcome == "fail"


class StandsStill(Wrapped):
    """Predicts everything well but the position, two of 192 dimensions."""

    def __init__(self, model: JepaWorldModel, probe: LinearProbe) -> None:
        super().__init__(model)
        self.rowspace = SubspaceCost(probe).projector

    def rollout(self, context: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        predicted = super().rollout(context, actions)
        return predicted - (predicted - context[:, -1:]) @ self.rowspace


def test_a_predictor_without_the_position_fails_at_dynamics(rooms: Parts) -> None:
    """The cost reads the position alone, as a head may find traces of it in the other 190 dimensions."""
    probe = probe_of(Subject(rooms.model, rooms.latents))
    assert probe is not None
    forgetful = StandsStill(rooms.model, probe)
    logged = Latents(rooms.latents.values, rooms.latents.logs)
    cost = DecodedDistance(probe, rooms.task.distance)
    audit = replace(rooms, model=forgetful, latents=logged).audit(cost)
    assert audit.verdict == "dynamics"
    assert outcomes(audit)["ranking"] == "pass"
    foreseen, change = skill(*logged_moves(forgetful, rooms.latents)[1:])
    assert foreseen.sum() / change.sum() > 0.8  # full latents would not show it


def permuted(latents: Latents) -> Latents:
    """Latents without the state."""
    order = torch.randperm(len(latents.values), generator=torch.Generator().manual_seed(0))
    return Latents(latents.values[order], latents.logs, latents.model)


def test_latents_without_the_state_fail_at_representation(rooms: Parts) -> None:
    audit = replace(rooms, latents=permuted(rooms.latents)).audit()
    assert audit.verdict == "representation"
    assert outcomes(audit)["ranking"] == "fail"  # else it would be excused


@pytest.fixture(scope="module")
def unseen(world: TwoRoom, lewm: JepaWorldModel) -> Latents:
    return encode_logs(lewm, world.generate_logs(200, seed=7))


@pytest.mark.slow
def test_logs_alone_separate_latent_distance_from_a_repaired_cost(
    lewm: JepaWorldModel, logged: Latents, trm: HeadCost, unseen: Latents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking_stage, "GOALS", 30)
    raw, head = (audit_planner(lewm, logged, cost, held_out=unseen) for cost in (LatentMSE(), trm))
    assert raw.verdict == "ranking"
    assert head.verdict == "cannot tell"  # nothing fails, but no episode ran
    assert outcomes(head)["coverage"] == outcomes(head)["ranking"] == "pass"
    assert advice(head) == {
        "goals": "needs a simulator with an oracle distance",
        "sampling": "needs a simulator with an oracle distance, and states that are vectors",
        "foresight": NOT_NEEDED,
        "execution": "needs a simulator or trials",
    }
    missing = advice(audit_planner(lewm, logged, trm))  # the head knows these logs
    assert missing["coverage"] == "needs --held-out, or --task without --logs-only"
    assert missing["ranking"] == "needs --held-out, or a --task with an oracle distance"


@pytest.mark.slow
def test_logs_alone_find_a_head_that_learned_nothing(
    lewm: JepaWorldModel, logged: Latents, trm: HeadCost, unseen: Latents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking_stage, "GOALS", 30)
    shuffled = HeadCost(fit(TemporalPairs(logged, 20_000).shuffled(), QUICK))
    ranking = STAGES["ranking"]
    repaired = ranking(Subject(lewm, logged, trm, held_out=unseen))
    useless = ranking(Subject(lewm, logged, shuffled, held_out=unseen))
    assert (repaired.outcome, useless.outcome) == ("pass", "fail")
    assert "minus that of reference" in useless.measured
    assert useless.interval is not None
    assert useless.interval[1] < useless.threshold == -ranking_stage.MARGIN
    few = logged.keep(np.arange(logged.logs.offsets[150]))
    for latents in (permuted(logged), few):  # these teach nothing but latent distance
        stage = ranking(Subject(lewm, latents))
        assert stage.outcome == "unknown"
        assert "more episodes" in stage.advice


def test_an_unknown_stage_names_what_is_missing(lewm: JepaWorldModel, logged: Latents) -> None:
    frames = Logs({"pixels_64": np.zeros((40, 8), np.uint8)}, np.array([20, 20]))
    audit = audit_planner(lewm, Latents(logged.values[:40], frames))
    assert "a column `state`" in advice(audit)["representation"]
    assert "column 'action'" in advice(audit)["dynamics"]
    assert "earlier logged states" in advice(audit)["ranking"]
    assert audit.verdict == "cannot tell"
    start = logged.keep(logged.logs.offsets[logged.logs.lengths.argmax()] + np.arange(20))
    short = advice(audit_planner(lewm, start))
    assert "five or more episodes" in short["representation"]
    assert "26 rows" in short["dynamics"]
    assert "dynamics" not in advice(audit_planner(lewm, start, planner=CEM(horizon=3)))


def test_every_stage_of_a_discrete_world_is_measured(grid: Audit, cells: Parts) -> None:
    assert grid.verdict == "ranking"  # latent distance leads into walls
    assert advice(grid) == {"coverage": "no logs were learned from", "foresight": NOT_NEEDED}
    found = {stage.name: stage for stage in grid.stages}
    assert found["dynamics"].value == pytest.approx(1)
    assert found["sampling"].outcome == "pass"
    assert found["execution"].outcome == "fail"
    assert grid.categories.keys() <= {"success", "wrong_room", "right_room"}
    document = json.loads(json.dumps(grid.document(), allow_nan=False))
    assert document["verdict"] == grid.verdict
    assert [stage["name"] for stage in document["stages"]] == list(STAGES)
    assert document["planner"]["tie_break"] == 0.01
    assert document["episodes"] == len(cells.goals)
    assert document["full_set_sha256"] == cells.goals.full_sha256


@pytest.mark.slow
def test_perfect_and_learned_costs_in_a_discrete_world(cells: Parts, head: PairHead) -> None:
    perfect = cells.audit(OracleGeodesic(cells.model))
    assert perfect.verdict == "none"
    assert next(stage.value for stage in perfect.stages if stage.name == "ranking") == pytest.approx(1)
    one = replace(cells.goals.subset(slice(1)), budget=20)
    learned = audit_planner(cells.model, cells.latents, HeadCost(head), cells.task, one)
    assert advice(learned).keys() <= {"foresight"}  # coverage, too
    assert learned.settings["planner"]["actions"] == 5  # the planner of discrete worlds, as none was given


def test_rows_reproduce_the_stages(grid: Audit, cells: Parts) -> None:
    rows, goals, task = grid.rows, cells.goals, cells.task
    assert set(map(len, rows.values())) == {5 * len(goals) + 1}
    values = {name: rows["value"][rows["measurement"] == name] for name in STAGES}
    for stage in grid.stages:
        assert len(values[stage.name]) == stage.n
        if stage.value is not None:
            assert values[stage.name].mean() == pytest.approx(stage.value)
    for name in ("goals", "sampling", "ranking", "dynamics", "execution"):
        np.testing.assert_array_equal(rows["episode"][rows["measurement"] == name], goals.episodes)
    exact = ExactDynamics(task)
    oracle = control(task, exact, {"oracle": OracleGeodesic(exact)}, goals, GRID_SEARCH)
    np.testing.assert_array_equal(values["sampling"], 100 * oracle.success[0])
    raw = {"raw": LatentMSE()}
    runs = control(task, cells.model, raw, goals, GRID_SEARCH)
    np.testing.assert_array_equal(values["execution"], 100 * runs.success[0])
    assert not runs.success.any()  # so a plan was made last one action before the end of every budget
    places = [goals, replace(goals, starts=runs.paths[0][:, -2])]
    pools = [draw_pools(task, cells.model, where, GRID_SEARCH.horizon, EXECUTED) for where in places]
    found = [sasc(task, cells.model, raw, where, pool) for where, pool in zip(places, pools, strict=True)]
    elites = EXECUTED * GRID_SEARCH.elites // GRID_SEARCH.candidates
    gain, possible = np.sum([ranking_gain(part.scores["raw"], part.diagnostic, elites) for part in found], axis=0)
    np.testing.assert_allclose(values["ranking"], gain / possible.mean(), rtol=1e-5)


@pytest.mark.parametrize("kind", [ArithmeticError, ReachcostError])
def test_an_error_in_a_stage_is_raised(
    cells: Parts, lewm: JepaWorldModel, logged: Latents, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of a cost (ranking) or a model (dynamics), in a simulator or on logs alone, and that of a task."""
    monkeypatch.setattr(ranking_stage, "PAIRS", 1000)
    monkeypatch.setattr(ranking_stage, "GOALS", 10)

    def broken(terminal: Any, goal: Any, *_: Any) -> NoReturn:
        raise kind("puncture")

    model_of_grid = type("Broken", (ExactTopoNav,), {"rollout": broken})(cells.task)
    task_of_grid = type("Broken", (TopoNav,), {"category": broken})()
    model_of_logs = type("Broken", (Wrapped,), {"rollout": broken})(lewm)
    small = replace(cells, search=SMALL)
    audits: list[Callable[[], Audit]] = [
        lambda: small.audit(broken),
        lambda: replace(small, model=model_of_grid).audit(),
        lambda: audit_planner(cells.model, cells.latents, broken),
        lambda: audit_planner(model_of_logs, Latents(logged.values, logged.logs)),
    ]
    for audit in audits:
        with pytest.raises((kind, ReachcostError), match="puncture"):
            audit()
    with pytest.raises(ReachcostError, match="puncture"):  # tasks are tried once before any episode runs
        replace(small, task=task_of_grid).audit()


def test_a_cost_that_is_not_finite_is_named(cells: Parts) -> None:
    with pytest.raises(ReachcostError, match="'audited' of candidate 0"):
        cells.audit(lambda terminal, goal: terminal[..., 0] * np.nan, SMALL)


def test_caveats_report_near_thresholds_and_unused_logs(cells: Parts) -> None:
    unseen = encode_logs(cells.model, cells.task.generate_logs(20, seed=1))
    audit = cells.audit(None, CategoricalCEM(candidates=64, iterations=3, elites=8), held_out=unseen)
    assert any("held-out" in caveat for caveat in audit.caveats)
    near = [stage.name for stage in audit.stages if stage.near]
    assert near
    for name in near:
        assert any(f"interval of {name} contains" in caveat for caveat in audit.caveats)


def test_mismatched_parts_are_refused(rooms: Parts, trm: HeadCost) -> None:
    lewm, logged, world, goals = rooms.model, rooms.latents, rooms.task, rooms.goals
    other = encode_logs(lewm, world.generate_logs(20, seed=5))
    stranger = load_world_model("lewm-tworoom-3073")
    wrong: dict[str, tuple[Any, ...]] = {
        "'high-distance'": (lewm, logged, None, world, "high-distance"),
        "encode_logs": (lewm, logged.logs),
        "evaluation set": (lewm, logged, None, world),
        "RandomPolicy": (lewm, logged, None, world, goals, RandomPolicy()),
        "other logs": (lewm, other, trm),
        "world model": (stranger, logged, trm, world, goals),
        r"3072.*, not of .*3073": (stranger, logged),
        "400 held-out episodes": (lewm, logged, None, None, None, None, logged),
    }
    for message, arguments in wrong.items():
        with pytest.raises(ReachcostError, match=message):
            audit_planner(*arguments)


@given(st.dictionaries(st.sampled_from(list(STAGES)), st.one_of(st.none(), st.integers(0, 20).map(lambda n: 5.0 * n))))
def test_the_verdict_is_the_first_failure_unless_foresight_decides(found: dict[str, float | None]) -> None:
    """Values in percent of the stage's own scale, where 80 is enough."""
    stages = [
        unknown(RULES[name], "missing")
        if value is None
        else apply_rule(replace(RULES[name], threshold=80.0, higher=True), value)
        for name, value in found.items()
    ]
    failing = [name for name in STAGES if (value := found.get(name)) is not None and value < 80]
    reached, foreseen, known = (found.get(name) for name in ("execution", "foresight", "sampling"))
    by_the_cost = [name for name in failing if name in ("representation", "coverage", "ranking")]
    if reached is not None and reached >= 80:
        expected = "none"
    elif failing and failing[0] in ("goals", "sampling"):
        expected = failing[0]
    elif reached is not None and foreseen is not None:  # who loses more?
        lost_by_cost = (100 if known is None else known) - foreseen
        blamed = "cannot tell" if known is None else [*by_the_cost, "ranking"][0]
        expected = "dynamics" if foreseen - reached >= lost_by_cost else blamed
        if "representation" in failing and foreseen < 80:
            expected = "representation"
    elif by_the_cost and ("ranking" in failing or reached is None):
        expected = by_the_cost[0]
    else:
        expected = "dynamics" if "dynamics" in failing else [*by_the_cost, "cannot tell"][0]
    assert verdict_of(stages).blamed == expected


def shown(audit: Audit) -> str:
    console = Console(record=True, width=200)
    audit.show(console)
    return console.export_text()


class Frozen(ExactTopoNav):
    """Predicts that nothing ever moves."""

    def rollout(self, context: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return context[:, -1:].expand(-1, actions.shape[1], -1)


@pytest.mark.slow
def test_foresight_decides_where_nothing_else_explains_the_failures(
    cells: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every other stage passes; true ends then show whether the cost or the predicted ends are at fault."""
    asked: list[Subject] = []
    monkeypatch.setattr(success, "run", lambda subject, *a, **kw: asked.append(subject) or run(subject, *a, **kw))
    whatever = {"ranking": -1e9, "dynamics": -1e9}
    frozen = replace(cells, model=Frozen(cells.task), latents=Latents(cells.latents.values, cells.latents.logs))
    plain = cells.audit(thresholds={"dynamics": -1e9})
    assert (plain.verdict, len(asked)) == ("ranking", 0)
    blind = cells.audit(thresholds=whatever)
    assert (blind.verdict, len(asked)) == ("ranking", 1)
    assert outcomes(blind)["ranking"] == "pass"
    assert outcomes(blind)["foresight"] == "fail"
    assert "fix few failures" in shown(blind)
    oracle = OracleGeodesic(cells.model)
    misled = frozen.audit(oracle, thresholds=whatever)
    assert (misled.verdict, len(asked)) == ("dynamics", 2)
    assert outcomes(misled)["dynamics"] == outcomes(misled)["foresight"] == "pass"
    assert "fix most failures" in shown(misled)
    assert frozen.audit(oracle).verdict == "dynamics"
    assert cells.audit(oracle).verdict == "none"
    assert len(asked) == 3  # not where episodes succeed


def test_goals_beyond_the_budget_are_blamed(cells: Parts) -> None:
    hasty = replace(cells, goals=replace(cells.goals, budget=2))
    audit = hasty.audit(OracleGeodesic(cells.model))
    assert audit.verdict == "goals"
    assert outcomes(audit)["sampling"] == outcomes(audit)["execution"] == "fail"
    assert outcomes(audit)["ranking"] == "pass"
    assert replace(hasty, goals=replace(hasty.goals, goals=hasty.goals.starts)).audit().verdict == "none"


@pytest.mark.slow
def test_a_failing_representation_is_not_blamed_if_the_cost_succeeds(cells: Parts) -> None:
    frozen = replace(cells, model=Frozen(cells.task), latents=Latents(cells.latents.values, cells.latents.logs))
    audit = frozen.audit(OracleGeodesic(cells.model), thresholds={"representation": 2.0})
    assert outcomes(audit)["representation"] == "fail"
    assert audit.verdict == "dynamics"
    assert cells.audit(thresholds={"representation": 2.0}).verdict == "representation"  # the cost could be better


def test_every_threshold_is_an_argument(grid: Audit, cells: Parts) -> None:
    value = {stage.name: stage.value for stage in grid.stages}["ranking"]
    assert value is not None
    asked = {"ranking": value, "execution": 0.0, "representation": 0.5}
    audit = cells.audit(thresholds=asked)
    assert {stage.name: stage.threshold for stage in audit.stages if stage.name in asked} == asked
    assert audit.verdict == "none"
    assert outcomes(audit)["ranking"] == "pass"
    for name, threshold, problem in (("rank", 0.5, "'rank'"), ("ranking", np.nan, "nan")):
        with pytest.raises(ReachcostError, match=problem):
            cells.audit(thresholds={name: threshold})


def test_the_representation_is_measured_on_the_chosen_columns(lewm: JepaWorldModel, logged: Latents) -> None:
    """No encoder of single frames can show a velocity."""
    states = np.asarray(logged.logs.columns["state"])
    hidden = np.random.default_rng(0).normal(size=(len(states), 1)).astype(states.dtype)
    logs = Logs({"state": np.hstack([states, hidden])}, logged.logs.lengths)
    moving = Latents(logged.values, logs, logged.model)
    measure = STAGES["representation"]
    assert measure(Subject(lewm, moving)).outcome == "fail"
    assert measure(Subject(lewm, moving, state_columns=[2])).outcome == "fail"
    visible = measure(Subject(lewm, moving, state_columns=(0, 1)))
    assert visible.outcome == "pass"
    assert visible.value == measure(Subject(lewm, logged)).value
    for wrong in ([3], [-1], []):
        with pytest.raises(ReachcostError, match="state_columns"):
            Subject(lewm, moving, state_columns=wrong)


@pytest.mark.slow
def test_criteria_are_checked_and_shown(repaired: Audit, rooms: Parts) -> None:
    buried, *others = (criterion.outcome for criterion in repaired.criteria)
    assert others == ["survives"] * 4
    assert buried != "refuted"  # seven episodes decide little
    rows = repaired.rows
    for criterion, episodes in zip(repaired.criteria, (7, 7, 7, 2, 7), strict=True):
        chosen = rows["measurement"] == criterion.claim
        assert set(rows["episode"][chosen].tolist()) <= set(rooms.goals.episodes.tolist())
        assert f"difference {rows['value'][chosen].mean():.1f} " in criterion.evidence
        assert f", {episodes} episodes" in criterion.evidence
    text = shown(repaired)
    assert f"7 episodes of {rooms.goals.name}" in text
    assert all(name in text for name in STAGES)
    assert "verdict: none" in text
    assert text.count("survives") >= 3


def test_untested_criteria_name_what_is_missing(limited: Parts, cells: Parts) -> None:
    rooms = limited.audit(None, CEM(candidates=8, iterations=1, elites=2), criteria=True)
    logs = Logs({"action": cells.latents.logs.columns["action"]}, cells.latents.logs.lengths)
    stateless = replace(cells, latents=Latents(cells.latents.values, logs), goals=cells.goals.subset(slice(2)))
    grid = stateless.audit(None, SMALL, criteria=True)
    head, state = "give a head that was fitted on logs (--head)", "needs logs with a column `state`"
    for audit, expected in (
        (rooms, {2: head, 4: "only 0 of 1 states for balanced coverage: log more episodes"}),
        (grid, {1: f"{state}, of five or more episodes", 2: head, 4: state}),
    ):
        missing = {number: found.evidence for number, found in enumerate(audit.criteria) if found.outcome == "unknown"}
        assert missing == expected


@pytest.mark.slow
def test_the_command_line_fits_and_audits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking_stage, "GOALS", 30)
    logs, head, out = (tmp_path / name for name in ("logs.h5", "head", "audit.json"))
    write_logs(TwoRoom().generate_logs(150), logs)
    parts = ["--model", "lewm-tworoom-3072", "--logs", str(logs), "--task", "tworoom"]
    assert main(["fit", *parts, "--out", str(head), "--pairs", "2000"]) == 0
    assert (
        f"reachcost audit --model lewm-tworoom-3072 --logs {logs} --head {head} --task tworoom"
        in capsys.readouterr().out
    )
    options = ["--episodes", "4", "--no-criteria", "--out", str(out)]
    code = main(["audit", *parts, "--head", str(head), "--candidates", "60", "--iterations", "3", *options])
    shown = capsys.readouterr().out
    assert all(name in shown for name in STAGES)
    record = json.loads(out.read_text())
    assert f"verdict: {record['verdict']}" in shown
    assert code == {"none": 0, "cannot tell": 4}.get(record["verdict"], 3)
    assert len(record["stages"]) == 8
    assert (record["planner"]["candidates"], record["planner"]["elites"]) == (60, 6)
    assert main(["audit", *parts, "--logs-only"]) == 4  # too few to learn anything better than latent distance from
    shown = capsys.readouterr().out
    assert "verdict: cannot tell" in shown
    assert "logged times" in shown
    assert "needs a simulator" in shown
    assert shown.count("falsification criteria") == 1
    for command, problem in (
        (["fit", *parts, "--out", str(head)], "exists already"),
        (["audit", *parts, *options], "exists already"),
        (["audit", *parts, "--candidates", "1"], "--candidates"),
        (["audit", *parts, "--head", str(tmp_path / "none")], "no head"),
        (["audit", *parts, "--episodes", "101"], "101"),
    ):
        assert main(command) == 1
        assert problem in capsys.readouterr().err
