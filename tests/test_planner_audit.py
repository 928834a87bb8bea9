"""The audit of a whole planner names the stage that was broken, and no other."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reachcost.audits.doorway import doorway_latents
from reachcost.audits.falsification import check_criteria
from rich.console import Console

from reachcost.audits import falsification
from reachcost.audits.dynamics import logged_moves, prediction_skill
from reachcost.audits.planner import PlannerAudit
from reachcost.audits.show import show_audit, show_criteria, write_audit
from reachcost.audits.stages import RULES, judge, verdict
from reachcost.cli import main
from reachcost.costs.head import HeadCost
from reachcost.costs.latent import LatentMSE
from reachcost.costs.probe import SubspaceCost
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, encode_logs
from reachcost.data.logs import Logs
from reachcost.data.logs.hdf5 import write_logs
from reachcost.data.probe import LinearProbe
from reachcost.errors import ReachcostError
from reachcost.fitting.fit import fit
from reachcost.fitting.oracle import OraclePairs
from reachcost.fitting.recipe import Recipe
from reachcost.fitting.temporal import TemporalPairs
from reachcost.planning.cem import CEM
from reachcost.protocols import Observations
from reachcost.tasks.toponav.features import ExactTopoNav
from reachcost.tasks.toponav.task import TopoNav
from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.loading import load_world_model

QUICK = Recipe(epochs=3)


@pytest.fixture(scope="module")
def goals(world: TwoRoom) -> EvaluationSet:
    return world.evaluation_set("high-distance").subset(np.arange(0, 100, 12))


@pytest.fixture(scope="module")
def logged(world: TwoRoom, lewm: JepaWorldModel) -> Latents:
    return encode_logs(lewm, world.generate_logs(1000))


@pytest.fixture(scope="module")
def trm(logged: Latents, goals: EvaluationSet) -> HeadCost:
    return HeadCost(fit(TemporalPairs(logged, 60_000, exclude=goals), QUICK))


def outcomes(audit: PlannerAudit) -> dict[str, str]:
    return {stage.name: stage.outcome for stage in audit.stages}


def test_latent_distance_fails_at_ranking(
    lewm: JepaWorldModel, logged: Latents, world: TwoRoom, goals: EvaluationSet
) -> None:
    audit = PlannerAudit(lewm, logged, LatentMSE(), world, goals)
    assert audit.verdict == "ranking"
    passed = {name for name, outcome in outcomes(audit).items() if outcome == "pass"}
    assert passed == {"representation", "dynamics", "sampling"}


def test_a_repaired_planner_has_no_fault(
    lewm: JepaWorldModel, logged: Latents, trm: HeadCost, world: TwoRoom, goals: EvaluationSet
) -> None:
    audit = PlannerAudit(lewm, logged, trm, world, goals)
    assert set(outcomes(audit).values()) == {"pass"}
    assert audit.verdict == "none"


@pytest.mark.parametrize("labels", ["oracle", "temporal"])
def test_a_head_that_never_saw_the_doorway_fails_at_coverage(
    lewm: JepaWorldModel, logged: Latents, world: TwoRoom, goals: EvaluationSet, labels: str
) -> None:
    limited = doorway_latents(logged, "limited", world.layout, None, goals, seed=0)
    pairs = (
        OraclePairs(limited, world, 30_000, exclude=goals)
        if labels == "oracle"
        else TemporalPairs(limited, 30_000, exclude=goals)
    )
    audit = PlannerAudit(lewm, limited, HeadCost(fit(pairs, QUICK)), world, goals)
    assert audit.verdict == "coverage"
    assert outcomes(audit)["ranking"] == "fail"


def test_a_pool_too_small_fails_at_sampling(
    lewm: JepaWorldModel, logged: Latents, trm: HeadCost, world: TwoRoom, goals: EvaluationSet
) -> None:
    audit = PlannerAudit(lewm, logged, trm, world, goals, CEM(candidates=8, iterations=2, elites=2))
    assert audit.verdict == "sampling"


def test_a_damaged_predictor_fails_at_dynamics(
    lewm: JepaWorldModel, logged: Latents, trm: HeadCost, world: TwoRoom, goals: EvaluationSet
) -> None:
    damaged = copy.deepcopy(lewm)
    noise = torch.Generator().manual_seed(0)
    for weight in damaged.parts.predictor.parameters():
        weight.data += weight.data.std() * torch.randn(weight.shape, generator=noise)
    with_head = PlannerAudit(damaged, logged, trm, world, goals)
    assert with_head.verdict == "dynamics"
    assert outcomes(with_head)["representation"] == outcomes(with_head)["coverage"] == "pass"
    from_logs = PlannerAudit(damaged, logged)
    assert outcomes(from_logs)["dynamics"] == "fail"


class StandsStill:
    """Predicts everything well but the position, two of 192 dimensions."""

    def __init__(self, model: JepaWorldModel, probe: LinearProbe) -> None:
        self.latent_dim, self.action_dim, self.actions = model.latent_dim, model.action_dim, model.actions
        self.model, self.rowspace = model, SubspaceCost(probe).projector

    def encode(self, observations: Observations) -> torch.Tensor:
        return self.model.encode(observations)

    def rollout(self, context: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        predicted = self.model.rollout(context, actions)
        return predicted - (predicted - context[:, -1:]) @ self.rowspace


def test_a_predictor_that_forgets_the_position_alone_fails_at_dynamics(
    lewm: JepaWorldModel, logged: Latents, world: TwoRoom, goals: EvaluationSet
) -> None:
    probe = PlannerAudit(lewm, logged).probe
    assert probe is not None
    forgetful = StandsStill(lewm, probe)
    audit = PlannerAudit(forgetful, Latents(logged.values, logged.logs), LatentMSE(), world, goals)
    assert audit.verdict == "dynamics"
    moved = logged_moves(forgetful, logged)
    assert prediction_skill(*moved) > 0.8  # whole latents would not tell


def test_a_latent_that_forgets_the_state_fails_at_representation(lewm: JepaWorldModel, logged: Latents) -> None:
    order = torch.randperm(len(logged.values), generator=torch.Generator().manual_seed(0))
    forgetful = Latents(logged.values[order], logged.logs, logged.model)
    audit = PlannerAudit(lewm, forgetful)
    assert outcomes(audit)["representation"] == "fail"
    assert audit.verdict == "representation"


def test_logs_alone_tell_latent_distance_from_a_repaired_cost(
    lewm: JepaWorldModel, logged: Latents, trm: HeadCost, world: TwoRoom
) -> None:
    unseen = encode_logs(lewm, world.generate_logs(600, seed=7))
    raw, repaired = (PlannerAudit(lewm, logged, cost, held_out=unseen) for cost in (LatentMSE(), trm))
    assert raw.verdict == "ranking"
    assert repaired.verdict == "unknown"  # nothing fails, but nobody tried it
    assert outcomes(repaired)["coverage"] == outcomes(repaired)["ranking"] == "pass"
    assert outcomes(repaired)["sampling"] == outcomes(repaired)["execution"] == "unknown"
    blind = outcomes(PlannerAudit(lewm, logged, trm))
    assert blind["coverage"] == blind["ranking"] == "unknown"  # the head knows these logs


def test_what_cannot_be_judged_says_what_is_missing(lewm: JepaWorldModel, logged: Latents) -> None:
    frames = Logs({"pixels_64": np.zeros((40, 8), np.uint8)}, np.array([20, 20]))
    audit = PlannerAudit(lewm, Latents(logged.values[:40], frames))
    advice = {stage.name: stage.advice for stage in audit.stages if stage.outcome == "unknown"}
    assert "a column `state`" in advice["representation"]
    assert "column 'action'" in advice["dynamics"]
    assert "goals have 300 logged states" in advice["ranking"]
    assert audit.verdict == "unknown"


def test_a_world_without_action_blocks_is_judged_as_far_as_it_goes() -> None:
    task, model = TopoNav(), ExactTopoNav()
    latents = encode_logs(model, task.generate_logs(300))
    found = outcomes(PlannerAudit(model, latents, LatentMSE(), task, task.evaluation_set()))
    assert found["sampling"] == found["execution"] == found["dynamics"] == "unknown"


def test_a_head_that_saw_the_evaluation_says_so(
    lewm: JepaWorldModel, logged: Latents, trm: HeadCost, world: TwoRoom, goals: EvaluationSet
) -> None:
    cheat = HeadCost(fit(TemporalPairs(logged, 2_000), Recipe(epochs=1, hidden=8)))
    quick = CEM(candidates=8, iterations=1, elites=2)
    for cost, flattered in ((cheat, True), (trm, False)):
        caveats = PlannerAudit(lewm, logged, cost, world, goals, quick).caveats
        assert any("success flatters it" in caveat for caveat in caveats) == flattered
    assert "may have been trained on" in PlannerAudit(lewm, logged, trm).caveats[0]


def test_mismatched_parts_are_refused(
    lewm: JepaWorldModel, logged: Latents, trm: HeadCost, world: TwoRoom, goals: EvaluationSet
) -> None:
    with pytest.raises(ReachcostError, match=r"evaluation is 'high-distance': give a set, task.evaluation_set\(name\)"):
        PlannerAudit(lewm, logged, task=world, evaluation="high-distance")  # type: ignore[arg-type]
    with pytest.raises(ReachcostError, match="call encode_logs"):
        PlannerAudit(lewm, logged.logs)  # type: ignore[arg-type]
    with pytest.raises(ReachcostError, match="a task goes with an evaluation set"):
        PlannerAudit(lewm, logged, task=world)
    other = encode_logs(lewm, world.generate_logs(20, seed=5))
    with pytest.raises(ReachcostError, match="the head was fitted on other logs than these"):
        PlannerAudit(lewm, other, trm)
    stranger = load_world_model("lewm-tworoom-3073")
    with pytest.raises(ReachcostError, match="world model"):
        PlannerAudit(stranger, logged, trm, world, goals)
    with pytest.raises(ReachcostError, match=r"the latents are of .*3072.*, not of .*3073.*: encode with this model"):
        PlannerAudit(stranger, logged)
    with pytest.raises(ReachcostError, match="1000 of the held-out episodes are in the logs that heads learn from"):
        PlannerAudit(lewm, logged, held_out=logged)


@given(st.dictionaries(st.sampled_from(list(RULES)), st.sampled_from(["pass", "fail", "unknown"])))
def test_the_verdict_is_the_first_failure_unless_episodes_succeed(found: dict[str, str]) -> None:
    values = {"pass": {True: 1e9, False: -1e9}, "fail": {True: -1e9, False: 1e9}}
    stages = [
        judge(name, "missing" if outcome == "unknown" else values[outcome][RULES[name].higher])
        for name, outcome in found.items()
    ]
    assert [stage.outcome for stage in stages] == list(found.values())
    failing = [name for name in RULES if found.get(name) == "fail"]
    assert verdict(stages) == ("none" if found.get("execution") == "pass" else [*failing, "unknown"][0])


def test_a_value_that_is_no_number_is_unknown() -> None:
    assert judge("dynamics", float("nan")).outcome == judge("coverage", np.array([1.0, np.nan])).outcome == "unknown"


@given(st.lists(st.booleans(), min_size=2, max_size=50))
def test_intervals_of_a_stage_hold_its_value(success: list[bool]) -> None:
    stage = judge("execution", 100.0 * np.array(success))
    assert stage.value is not None
    assert stage.interval is not None
    assert stage.n == len(success)
    assert stage.interval[0] - 1e-9 <= stage.value <= stage.interval[1] + 1e-9
    assert stage.interval[1] - stage.interval[0] > 1  # some doubt remains, even if all agree


def test_the_criteria_are_checked_and_everything_is_shown(
    lewm: JepaWorldModel,
    logged: Latents,
    trm: HeadCost,
    world: TwoRoom,
    goals: EvaluationSet,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(falsification, "LARGER", 4)
    monkeypatch.setattr(falsification, "COVERAGE_PAIRS", 15_000)
    audit = PlannerAudit(lewm, logged, trm, world, goals)
    criteria = check_criteria(audit)
    buried, decoded, shuffled, larger, coverage = (criterion.outcome for criterion in criteria)
    assert decoded == shuffled == larger == coverage == "survives"
    assert buried != "refuted"  # nine episodes decide little
    console = Console(record=True, width=80)
    show_audit(audit, console)
    show_criteria(criteria, console)
    shown = console.export_text()
    assert "verdict: none" in shown
    assert shown.count("survives") >= 3
    write_audit(audit, criteria, tmp_path / "audit.json")
    document = json.loads((tmp_path / "audit.json").read_text())
    assert document["verdict"] == "none"
    assert len(document["stages"]) == 6
    assert len(document["criteria"]) == 5
    assert document["episodes"] == len(goals)


def test_criteria_without_simulator_are_unknown(lewm: JepaWorldModel, logged: Latents) -> None:
    criteria = check_criteria(PlannerAudit(lewm, logged))
    assert {criterion.outcome for criterion in criteria} == {"unknown"}
    assert all(criterion.evidence for criterion in criteria)


def test_the_command_line_fits_and_audits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs, head, out = (tmp_path / name for name in ("logs.h5", "head", "audit.json"))
    write_logs(TwoRoom().generate_logs(300), logs)
    parts = ["--model", "lewm-tworoom-3072", "--logs", str(logs), "--task", "tworoom"]
    assert main(["fit", *parts, "--out", str(head), "--pairs", "2000"]) == 0
    assert (
        f"reachcost audit --model lewm-tworoom-3072 --logs {logs} --head {head} --task tworoom"
        in capsys.readouterr().out
    )
    options = ["--episodes", "4", "--no-criteria", "--out", str(out)]
    assert main(["audit", *parts, "--head", str(head), *options]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in RULES)
    assert "verdict:" in shown
    assert len(json.loads(out.read_text())["stages"]) == 6
    assert main(["audit", *parts, "--logs-only"]) == 0
    shown = capsys.readouterr().out
    assert "needs a simulator" in shown
    assert shown.count("unknown") >= 5 + 3  # criteria, too
    assert main(["fit", *parts, "--out", str(head)]) == 1
    assert "exists already" in capsys.readouterr().err
    assert main(["audit", *parts, *options]) == 1
    assert "exists already" in capsys.readouterr().err
    assert main(["audit", *parts, "--candidates", "1"]) == 1
    assert "give at least 2 and 1" in capsys.readouterr().err
    assert main(["audit", *parts, "--head", str(tmp_path / "none")]) == 1
    assert "there is no head at" in capsys.readouterr().err
    assert main(["audit", *parts, "--episodes", "101"]) == 1
    assert "choose 1 to 100" in capsys.readouterr().err
