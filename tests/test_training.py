"""Training world models: what is written, what a resumed training gives, and what is refused."""

import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from reachcost.cli import main
from reachcost.core.files import read_with_checksum, write_with_checksum
from reachcost.core.modules import _checksum
from reachcost.core.progress import Progress
from reachcost.core.seeding import generator
from reachcost.data.actions import ActionBlocks
from reachcost.data.logs import Logs
from reachcost.data.logs_files import open_logs, write_logs
from reachcost.errors import ReachcostError
from reachcost.tasks.toponav.task import TopoNav
from reachcost.tasks.tworoom import TwoRoom
from reachcost.worldmodels import objectives, training
from reachcost.worldmodels.compact import CompactArchitecture, CompactParts
from reachcost.worldmodels.custom import check_world_model
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.loading import load_world_model
from reachcost.worldmodels.objectives import TrainingPlan
from reachcost.worldmodels.public import PublicArchitecture, PublicParts
from reachcost.worldmodels.training import Training, train_world_model
from reachcost.worldmodels.windows import Windows

TINY = TrainingPlan(
    seed=5, steps=4, refinement=4, windows=8, transitions=32, validate_every=2, holdout=0.2, threads=1, projections=16
)


@pytest.fixture(scope="module", autouse=True)
def quickly_settled() -> Iterator[None]:
    """Two batches have to do for BatchNorm."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objectives, "BATCH_NORM_BATCHES", 2)
        yield


@pytest.fixture(scope="module")
def logs() -> Logs:
    return TwoRoom().generate_logs(episodes=20, seed=3)


@pytest.fixture(scope="module")
def trained(logs: Logs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("model") / "lewm"
    train_world_model(logs, out, TINY)
    return out


def test_the_refinement_trains_all_weights_of_the_public_predictor(logs: Logs) -> None:
    small = PublicArchitecture(
        action_dim=10, image_size=28, patch=14, encoder_width=24, encoder_depth=1, encoder_heads=2, encoder_mlp=32,
        latent_dim=24, projector_hidden=32, pred_proj_hidden=32, predictor_width=24, depth=2, heads=2, dim_head=12,
        mlp=32, history=1,
    )  # fmt: skip
    parts = PublicParts(small).eval()
    for name, weight in parts.named_parameters():
        if "adaLN" in name:  # initially zero, which blocks gradients
            torch.nn.init.normal_(weight, std=0.1)
    windows = Windows(logs, ActionBlocks.of(logs, 5), parts.inputs, count=2, episodes=(0, 2))
    phase = objectives.Refinement(parts, TINY, windows)
    phase.update(0, share=0.1)
    without = [name for name, weight in parts.predictor.named_parameters() if weight.grad is None]
    assert without == []


def state_in(directory: Path) -> dict[str, Any]:
    """The saved state of an unfinished training."""
    return torch.load(io.BytesIO(read_with_checksum(directory / "training.pt")), weights_only=True)


def weights(directory: Path) -> bytes:
    return (directory / "weights.safetensors").read_bytes()


class Interrupt(Progress):
    """Stops a training in the middle, as Ctrl-C does."""

    def __init__(self, after: int) -> None:
        self.after = after

    def note(self, text: str) -> None:
        self.after -= 1
        if self.after == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("kind", "stop"), [("lewm", 3), ("lewm", 5), ("lewm", 7), ("pldm", 3)])
def test_an_interrupted_training_resumes_to_the_same_weights(
    logs: Logs, trained: Path, tmp_path: Path, kind: str, stop: int
) -> None:
    plan = replace(TINY, kind=kind)
    complete = trained if plan == TINY else tmp_path / "complete"
    train_world_model(logs, complete, plan)
    with pytest.raises(KeyboardInterrupt):
        train_world_model(logs, tmp_path / "cut", plan, Interrupt(after=stop))
    with pytest.raises(ReachcostError, match="not finished"):
        load_world_model(tmp_path / "cut")
    train_world_model(logs, tmp_path / "cut", plan)
    assert weights(tmp_path / "cut") == weights(complete)
    files = {path.name for path in (tmp_path / "cut").iterdir()} - {".lock"}
    assert files == {"README.md", "config.json", "curve.csv", "weights.safetensors"}


@pytest.fixture(scope="module")
def unfinished(logs: Logs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("unfinished") / "lewm"
    with pytest.raises(KeyboardInterrupt):
        train_world_model(logs, out, TINY, Interrupt(after=3))
    return out


@pytest.mark.parametrize("share", [0.001, 0.5, 0.999])
def test_a_damaged_training_state_is_refused(logs: Logs, unfinished: Path, tmp_path: Path, share: float) -> None:
    data = bytearray((unfinished / "training.pt").read_bytes())
    data[int(share * len(data))] ^= 1
    (tmp_path / "training.pt").write_bytes(data)
    with pytest.raises(ReachcostError, match="training state"):
        train_world_model(logs, tmp_path, TINY)


def of_other_shapes(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "parts": {name: part.reshape(-1)[:0] for name, part in state["parts"].items()}}


def of_other_weights(state: dict[str, Any]) -> dict[str, Any]:
    moments = {number: {**kept, "exp_avg": torch.zeros(3)} for number, kept in state["optimizer"]["state"].items()}
    return {**state, "optimizer": {**state["optimizer"], "state": moments}}


STATES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no state": lambda state: [],
    **{f"no {part}": lambda state, part=part: {**state, part: {}} for part in ("best", "parts", "optimizer", "origin")},
    "no curve": lambda state: {**state, "curve": []},
    "other weights": of_other_shapes,
    "other moments": of_other_weights,
}


@pytest.mark.parametrize("case", STATES)
def test_an_incomplete_training_state_is_refused(logs: Logs, unfinished: Path, tmp_path: Path, case: str) -> None:
    content = io.BytesIO()
    torch.save(STATES[case](state_in(unfinished)), content)
    write_with_checksum(tmp_path / "training.pt", content.getvalue())
    with pytest.raises(ReachcostError, match=r"training\.pt"):
        train_world_model(logs, tmp_path, TINY)


def test_a_trained_model_keeps_the_contract(trained: Path, logs: Logs) -> None:
    model = load_world_model(trained)
    rows = np.array([0, 7, 30])
    check_world_model(model, logs.observations(rows), torch.randn(3, 5, 4, 10))
    card = (trained / "README.md").read_text()
    for fact in (logs.fingerprint, "reachcost train-model lewm", "--seed 5", "probe_r2", "torch"):
        assert fact in card
    curve = (trained / "curve.csv").read_text().splitlines()
    assert len(curve) == 1 + 4
    assert curve[0].startswith("step,loss,prediction,sigreg")


def test_a_finished_training_is_kept_and_another_one_refused(logs: Logs, trained: Path) -> None:
    before = weights(trained)
    train_world_model(logs, trained, TINY)
    assert weights(trained) == before
    with pytest.raises(ReachcostError, match="seed"):
        train_world_model(logs, trained, replace(TINY, seed=6))
    with pytest.raises(ReachcostError, match="logs_sha256"):
        train_world_model(TwoRoom().generate_logs(episodes=20, seed=9), trained, TINY)


def test_the_weights_with_the_best_held_out_prediction_are_kept(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = iter([0.5, 0.4, 0.2, 0.9])
    monkeypatch.setattr(training, "prediction_error", lambda *_: {"one_step": 0.0, "rollout": next(errors)})
    model = train_world_model(logs, tmp_path / "out", TINY)
    assert model.card["training"]["best_step"] == 6
    monkeypatch.undo()
    with pytest.raises(KeyboardInterrupt):
        train_world_model(logs, tmp_path / "six", TINY, Interrupt(after=7))
    kept = model.parts.state_dict()
    assert all(torch.equal(kept[name], value) for name, value in state_in(tmp_path / "six")["parts"].items())


def test_constants_of_the_state_are_not_probed(logs: Logs, tmp_path: Path) -> None:
    model = train_world_model(logs, tmp_path, TINY, coordinates=lambda states: np.c_[states, np.ones(len(states))])
    assert np.isfinite(model.card["training"]["metrics"]["probe_r2"])


def test_held_out_episodes_are_never_trained_on(logs: Logs) -> None:
    made = Training(logs, TINY)
    first_held_out = logs.offsets[len(logs) - 4]
    assert made.train.rows(made.train.starts).max() < first_held_out <= made.held_out.starts.min()


def test_batch_norm_statistics_are_estimated_on_the_data(logs: Logs) -> None:
    made = Training(logs, TINY)
    for step in range(1, 4):
        made.update(step)
    made.phase.settle()
    seen = [
        made.train.sample(TINY.windows, generator(TINY.seed, "batch-norm", batch))[0]
        for batch in range(objectives.BATCH_NORM_BATCHES)
    ]
    first, norm, *_ = made.parts.get_submodule("projector").children()
    features = first(made.parts.get_submodule("encoder")(torch.cat(seen)))
    assert torch.allclose(norm.get_buffer("running_mean"), features.mean(0), atol=1e-4)


def test_the_second_phase_leaves_the_encoder_alone(logs: Logs) -> None:
    made = Training(logs, TINY)
    rows = logs.observations(np.array([0, 9]))

    def encoded(steps: range) -> torch.Tensor:
        for step in steps:
            made.update(step)
            made.validate()
        latents = JepaWorldModel(made.parts, made.blocks).encode(rows)
        made.parts.requires_grad_(True)
        return latents

    before = encoded(range(1, TINY.steps + 1))
    assert torch.equal(encoded(range(TINY.steps + 1, TINY.steps + 4)), before)


def test_windows_read_the_frames_and_actions_of_their_rows(logs: Logs) -> None:
    blocks = ActionBlocks.of(logs, 5)
    windows = Windows(logs, blocks, CompactParts(CompactArchitecture()).inputs, count=3, episodes=(0, len(logs)))
    start = windows.starts[17]
    pixels, actions = windows.read(np.array([start]))
    states = logs.columns["state"][start + np.array([0, 5, 10])]
    np.testing.assert_array_equal(pixels.numpy(), TwoRoom(pixels=64).render(states))
    raw = logs.columns["action"][start : start + 10].reshape(1, 2, 5, 2)
    np.testing.assert_allclose(blocks.environment(actions.numpy()), raw, atol=1e-6)


@pytest.mark.slow
def test_training_from_stored_frames_equals_training_from_rendered_ones(
    logs: Logs, trained: Path, tmp_path: Path
) -> None:
    task = TwoRoom(pixels=64)
    write_logs(logs, tmp_path / "pixels.h5", render=task.render)
    stored = train_world_model(open_logs(tmp_path / "pixels.h5"), tmp_path / "stored", TINY)
    assert stored.fingerprint == load_world_model(trained).fingerprint


@pytest.mark.slow
def test_the_papers_size_trains_with_the_same_command(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    public = PublicArchitecture()
    assert (public.image_size, public.patch, public.encoder_width, public.depth) == (224, 14, 192, 6)
    short = PublicArchitecture(history=1, encoder_depth=1, depth=1, image_size=28)
    monkeypatch.setattr(training, "build", lambda *_: PublicParts(short))
    write_logs(logs, tmp_path / "logs.h5", render=TwoRoom(pixels=28).render)
    files = ["--logs", str(tmp_path / "logs.h5"), "--out", str(tmp_path / "m")]
    assert main(["train-model", "lewm", *files, "--size", "paper", "--steps", "2", "--threads", "1"]) == 0
    model = load_world_model(tmp_path / "m")
    assert model.card["size"] == "paper"
    check_world_model(model, open_logs(tmp_path / "logs.h5").observations(np.array([0, 30])), torch.randn(2, 4, 3, 10))
    assert main(["check", str(tmp_path / "m"), "--logs", str(tmp_path / "logs.h5")]) == 0
    assert "holds" in capsys.readouterr().out


@pytest.mark.parametrize("size", ["compact", "paper"])
def test_an_update_of_the_real_size_gives_finite_losses(logs: Logs, size: objectives.Size) -> None:
    sized = TrainingPlan.of_size(size)
    made = Training(logs, replace(sized, windows=2, frames=2, holdout=0.2))
    assert np.isfinite(made.update(1)["loss"])


def resigned(directory: Path, **changes: Mapping[str, object]) -> bytes:
    """A config with changed values and a valid checksum."""
    config = json.loads((directory / "config.json").read_text())
    for section, values in changes.items():
        config[section] |= values
    config["sha256"] = _checksum(config, weights(directory))
    return json.dumps(config).encode()


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("weights.safetensors", lambda data, trained: data[:-4]),
        ("config.json", lambda data, trained: data.replace(b'"blocks": 2', b'"blocks": 3')),
        ("config.json", lambda data, trained: data.replace(b'"size": "compact"', b'"size": "huge"', 1)),
        ("config.json", lambda data, trained: b"{"),
        ("config.json", lambda data, trained: b"[" * 100_000),
        *(
            ("config.json", lambda data, trained, changes=changes: resigned(trained, **changes))
            for changes in (
                {"architecture": {"patch": 0}},
                {"architecture": {"blocks": 10**9}},
                {"architecture": {"unknown": 1}},
                {"actions": {"length": 4}},
                {"training": {"plan": None}},
            )
        ),
    ],
)
def test_damaged_models_are_refused(trained: Path, tmp_path: Path, name: str, damage: Callable[..., bytes]) -> None:
    for file in ("weights.safetensors", "config.json"):
        content = (trained / file).read_bytes()
        (tmp_path / file).write_bytes(damage(content, trained) if file == name else content)
    with pytest.raises(ReachcostError, match="cannot load the world model"):
        load_world_model(tmp_path)


def test_the_command_trains_and_reports_wrong_options(
    logs: Logs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_logs(logs, tmp_path / "logs.h5")
    files = ["--logs", str(tmp_path / "logs.h5"), "--out", str(tmp_path / "m")]
    command = ["train-model", "lewm", *files, "--threads", "1", "--refinement", "0", "--steps", "2"]
    assert main(command) == 0
    assert "probe_r2" in capsys.readouterr().out
    assert json.loads((tmp_path / "m" / "config.json").read_text())["training"]["plan"]["steps"] == 2
    missing = ["--logs", str(tmp_path / "none.h5")]
    for options, named in ((["--steps", "3"], "--out"), (missing, "no logs at"), (["--task", "maze"], "'maze'")):
        assert main([*command, *options]) == 1
        assert named in capsys.readouterr().err


def test_the_chosen_task_renders_the_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Logs] = []

    def stop(logs: Logs, *_: object) -> None:
        given.append(logs)
        raise ReachcostError("stop: here")

    monkeypatch.setattr(training, "train_world_model", stop)
    for task in (TwoRoom(), TopoNav()):
        write_logs(task.generate_logs(5), tmp_path / f"{task.name}.h5")
        files = ["--logs", str(tmp_path / f"{task.name}.h5"), "--out", str(tmp_path / "m")]
        named = [] if task.name == "tworoom" else ["--task", task.name]
        assert main(["train-model", "lewm", *files, *named]) == 1
        drawn = given[-1].observations(slice(0, 3))["pixels"]
        np.testing.assert_array_equal(drawn, task.render(given[-1].columns["state"][:3]))
