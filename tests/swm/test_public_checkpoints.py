"""Public checkpoints: what the real stable-worldmodel 0.1.1 saves, our loader runs, number by number."""

import copy
import json
import re
import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from reachcost.data.actions import ActionBlocks
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError
from reachcost.worldmodels.checkpoints import VIT_RENAMED, load_checkpoint
from reachcost.worldmodels.custom import check_world_model
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost.worldmodels.loading import load_world_model
from reachcost.worldmodels.public import PublicArchitecture, PublicParts
from reachcost.worldmodels.public_config import read_architecture
from tests.hubs import Folder

BLOCKS = ActionBlocks(mean=(0.0, 0.1), std=(1.0, 0.5), low=(-1.0, -1.0), high=(1.0, 1.0), length=5)
SIZE = 56
ENCODER = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 96}
FRAMES = np.random.default_rng(0).integers(0, 256, (3, 3, SIZE, SIZE, 3), dtype=np.uint8)  # [B, T, height, width, 3]
ACTIONS = torch.randn(3, 4, 6, 10, generator=torch.Generator().manual_seed(1))  # [B, S, T - 1 + H, A]


def config_tree(family: str = "lewm", history: int = 3, width: int = 24, norm: str | None = "BatchNorm1d") -> Any:
    """The tree of the public `lewm.yaml` and `pldm.yaml`, smaller; latents have 24 numbers, the ViT 48."""
    module = f"stable_worldmodel.wm.{family}.module"
    norm_fn = None if norm is None else {"_target_": f"torch.nn.{norm}", "_partial_": True}
    mlp = {"_target_": f"{module}.MLP", "hidden_dim": 64, "output_dim": 24, "norm_fn": norm_fn}
    return {
        "_target_": {"lewm": "stable_worldmodel.wm.lewm.LeWM", "pldm": "stable_worldmodel.wm.pldm.pldm.PLDM"}[family],
        "encoder": {
            "_target_": "stable_pretraining.backbone.utils.vit_hf",
            "size": "tiny",
            "patch_size": 14,
            "image_size": SIZE,
            "pretrained": False,
            "use_mask_token": False,
            **ENCODER,
        },
        "predictor": {
            "_target_": f"{module}.Predictor",
            "num_frames": history,
            "input_dim": 24,
            "hidden_dim": width,
            "output_dim": 24,
            "depth": 2,
            "heads": 4,
            "mlp_dim": 40,
            "dim_head": 8,
            "dropout": 0.1,
            "emb_dropout": 0.0,
        },
        "action_encoder": {"_target_": f"{module}.Embedder", "input_dim": 10, "emb_dim": 24},
        "projector": {**mlp, "input_dim": 48},
        "pred_proj": {**mlp, "input_dim": 24},
    }


def real_model(config: Any) -> Any:
    """What hydra would build from the tree, with every weight random: zeros would hide the AdaLN blocks."""
    name = config["_target_"].rpartition(".")[2]
    package = f"stable_worldmodel.wm.{name.lower()}"
    model_class = getattr(import_module(f"{package}.{name.lower()}"), name)
    modules = import_module(f"{package}.module")

    def build(part_name: str) -> Any:
        part = config[part_name]
        if part is None:
            return None
        arguments = {key: value for key, value in part.items() if key != "_target_"}
        if arguments.get("norm_fn"):
            arguments["norm_fn"] = getattr(nn, arguments["norm_fn"]["_target_"].rpartition(".")[2])
        return getattr(modules, part["_target_"].rpartition(".")[2])(**arguments)

    torch.manual_seed(0)
    names = ("predictor", "action_encoder", "projector", "pred_proj")
    model = model_class(encoder=real_vit(config["encoder"]), **{name: build(name) for name in names})
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if "running_var" in name:
                tensor.uniform_(0.5, 2)
            elif tensor.is_floating_point():
                tensor.add_(0.15 * torch.randn_like(tensor))
    return model.eval()


def real_vit(section: Any) -> nn.Module:
    """As stable-pretraining's `vit_hf` makes it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers import ViTConfig, ViTModel

    arguments = {key: value for key, value in section.items() if key not in ("_target_", "size", "pretrained")}
    mask = arguments.pop("use_mask_token")
    return ViTModel(ViTConfig(**arguments), add_pooling_layer=False, use_mask_token=mask)


def save(config: Any, cache: Path, run: str = "run") -> tuple[Any, Path]:
    """The real model, and the directory where the real `save_pretrained` put it."""
    from omegaconf import OmegaConf
    from stable_worldmodel.wm.utils import save_pretrained

    model = real_model(config)
    save_pretrained(model, run, config=OmegaConf.create(config), cache_dir=str(cache))  # pyright: ignore[reportArgumentType]
    return model, cache / "checkpoints" / run


def real_pixels(frames: np.ndarray, size: int = SIZE) -> Tensor:
    """Frames uint8 [B, T, height, width, 3] as `img_transform` of the public planning script gives them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchvision.transforms import v2
    normalise = v2.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])
    transform = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True), normalise, v2.Resize(size=size)])
    flat = frames.reshape(-1, *frames.shape[2:])
    return torch.stack([torch.as_tensor(transform(frame)) for frame in flat]).unflatten(0, frames.shape[:2])


@torch.no_grad()
def real_rollout(model: Any, frames: np.ndarray, actions: Tensor) -> tuple[Tensor, Tensor]:
    """Latents [B, T, D] of the frames and terminal latents [B, S, D], by the package's own code."""
    pixels = real_pixels(frames)
    latents = model.encode({"pixels": pixels})["emb"]
    info = {"pixels": pixels[:, None].expand(-1, actions.shape[1], -1, -1, -1, -1)}
    return latents, model.rollout(info, actions.clone())["predicted_emb"][:, :, -1]


def epsilons(model: nn.Module) -> dict[str, float]:
    """Of every norm, by its name: at this size a wrong one may hide below the tolerance."""
    norms = (nn.LayerNorm, nn.BatchNorm1d)
    return {name: module.eps for name, module in model.named_modules() if isinstance(module, norms)}


def our_latents(model: JepaWorldModel, frames: np.ndarray) -> Tensor:
    return model.encode({"pixels": frames.reshape(-1, *frames.shape[2:])}).unflatten(0, frames.shape[:2])


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    return save(config_tree(), tmp_path_factory.mktemp("public"))


@pytest.fixture
def copied(saved: tuple[Any, Path], tmp_path: Path) -> Path:
    """A directory whose files a test may spoil."""
    return Path(shutil.copytree(saved[1], tmp_path / "copy"))


CONFIGS = {
    "lewm": config_tree("lewm"),
    "pldm": config_tree("pldm"),
    "lewm, history 1": config_tree("lewm", history=1),
    "pldm, history 1": config_tree("pldm", history=1),
    "wider predictor": config_tree("lewm", width=32),
    "layer norm": config_tree("lewm", norm="LayerNorm"),
    "no norm": config_tree("pldm", norm=None),
    "one head of full width": config_tree(),
    "no projectors": config_tree(),
}
CONFIGS["one head of full width"]["predictor"] |= {"heads": 1, "dim_head": 24}
CONFIGS["no projectors"]["encoder"] |= {"hidden_size": 24, "use_mask_token": True}
CONFIGS["no projectors"] |= {"projector": None, "pred_proj": None}


@pytest.mark.parametrize("name", CONFIGS)
def test_latents_and_rollouts_equal_those_of_the_real_package(name: str, tmp_path: Path) -> None:
    theirs, directory = save(CONFIGS[name], tmp_path)
    generator = torch.random.get_rng_state()
    ours = load_checkpoint(directory, actions=BLOCKS)
    assert torch.equal(torch.random.get_rng_state(), generator)
    history = CONFIGS[name]["predictor"]["num_frames"]
    assert (ours.latent_dim, ours.action_dim, ours.history) == (24, 10, history)
    assert epsilons(ours.parts) == epsilons(theirs)
    for given in (1, 3):
        frames = FRAMES[:, -given:]
        latents, terminal = real_rollout(theirs, frames, ACTIONS)
        context = our_latents(ours, frames)
        assert latents.flatten(0, 1).std(0).min() > 0.01  # the frames differ, also to the model
        torch.testing.assert_close(context, latents, rtol=0, atol=1e-5)
        read = min(given, history)  # their rollout cuts a context that is too long, ours asks the caller to
        mine = ours.rollout(context[:, -read:], ACTIONS[:, :, given - read :])
        torch.testing.assert_close(mine, terminal, rtol=1e-5, atol=1e-5)


def test_the_loaded_model_keeps_the_contract(saved: tuple[Any, Path]) -> None:
    model = load_checkpoint(saved[1], actions=BLOCKS)
    check_world_model(model, {"pixels": FRAMES[:, 0]}, ACTIONS)
    assert (model.card["family"], model.card["name"], model.card["source"]) == ("lewm", "run", str(saved[1]))
    assert re.fullmatch("[0-9a-f]{64}", model.card["sha256"])
    assert not model.clamp
    with pytest.raises(ReachcostError, match="T = 1 to 3"):
        model.rollout(torch.zeros(1, 4, 24), torch.zeros(1, 2, 6, 10))


def public_tree() -> Any:
    """The public `lewm.yaml` in full size."""
    config = config_tree()
    config["encoder"] |= {"image_size": 224, "hidden_size": 192, "num_hidden_layers": 12, "intermediate_size": 768}
    config["predictor"] |= {"input_dim": 192, "hidden_dim": 192, "output_dim": 192, "depth": 6, "heads": 16}
    config["predictor"] |= {"dim_head": 64, "mlp_dim": 2048}
    config["action_encoder"]["emb_dim"] = 192
    for name in ("projector", "pred_proj"):
        config[name] |= {"input_dim": 192, "output_dim": 192, "hidden_dim": 2048}
    return config


def test_the_defaults_are_the_public_model(tmp_path: Path) -> None:
    theirs, directory = save(public_tree(), tmp_path)
    ours = load_checkpoint(directory, actions=BLOCKS)
    assert ours.parts.architecture == PublicArchitecture()
    frames = np.random.default_rng(1).integers(0, 256, (2, 1, 224, 224, 3), dtype=np.uint8)
    with torch.no_grad():
        expected = theirs.encode({"pixels": real_pixels(frames, size=224)})["emb"]
    torch.testing.assert_close(our_latents(ours, frames), expected, rtol=1e-4, atol=1e-4)


def test_named_sizes_are_those_of_vit_hf() -> None:
    """The `encoder` section of the released `quentinll/lewm-tworooms` gives the size by name."""
    config = config_tree()
    config["encoder"] = {name: value for name, value in config["encoder"].items() if name not in ENCODER}
    config["encoder"]["image_size"] = 224
    config["projector"]["input_dim"] = 192
    _, architecture = read_architecture(Path("config.json"), config)
    public = PublicArchitecture()
    for field in ("image_size", "patch", "encoder_width", "encoder_depth", "encoder_heads", "encoder_mlp"):
        assert getattr(architecture, field) == getattr(public, field)


def test_names_of_transformers_4_load_alike(saved: tuple[Any, Path], copied: Path) -> None:
    weights = torch.load(copied / "weights.pt", weights_only=True)
    old = {}
    for name, tensor in weights.items():
        layer = re.fullmatch(r"encoder\.layers\.(\d)\.(.+)\.(weight|bias)", name)
        if layer is not None:
            old_names = {new: old for old, new in VIT_RENAMED.items()}
            name = f"encoder.encoder.layer.{layer[1]}.{old_names.get(layer[2], layer[2])}.{layer[3]}"
        old[name] = tensor
    assert "encoder.encoder.layer.1.attention.attention.query.weight" in old
    torch.save(old, copied / "weights.pt")
    new, again = load_checkpoint(saved[1], actions=BLOCKS), load_checkpoint(copied, actions=BLOCKS)
    assert torch.equal(our_latents(new, FRAMES), our_latents(again, FRAMES))
    torch.save({**old, **weights}, copied / "weights.pt")
    with pytest.raises(ReachcostError, match="twice"):
        load_checkpoint(copied, actions=BLOCKS)
    halved = {name: value.bfloat16() if value.is_floating_point() else value for name, value in weights.items()}
    torch.save(halved, copied / "weights.pt")
    assert our_latents(load_checkpoint(copied, actions=BLOCKS), FRAMES).dtype == torch.float32


def test_one_of_several_files_can_be_loaded(saved: tuple[Any, Path], copied: Path) -> None:
    (copied / "weights_epoch_2.pt").write_bytes((copied / "weights.pt").read_bytes())
    with pytest.raises(ReachcostError, match="weights_epoch_2"):
        load_checkpoint(copied, actions=BLOCKS)
    model = load_checkpoint(copied / "weights_epoch_2.pt", actions=BLOCKS)
    assert model.card["name"] == "copy/weights_epoch_2"
    assert model.card["sha256"] == load_checkpoint(saved[1], actions=BLOCKS).card["sha256"]


def test_action_statistics_are_measured_as_in_the_public_scripts(saved: tuple[Any, Path]) -> None:
    from stable_worldmodel.data.normalization import ZScoreScaler

    actions = np.random.default_rng(0).normal(0.3, [1, 2], (40, 2))
    actions[[7, 19, 39]] = np.nan
    actions[7, 0] = 5
    model = load_checkpoint(saved[1], logs=Logs({"action": actions}, np.array([20, 20])))
    theirs: Any = ZScoreScaler().fit(actions)
    np.testing.assert_allclose(model.actions.mean, theirs.mean[0], rtol=1e-12)
    np.testing.assert_allclose(model.actions.std, theirs.std[0], rtol=1e-12)
    assert model.actions.length == 5


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "--logs"),
        ({"logs": Logs({"action": np.random.default_rng(0).normal(size=(9, 3))}, np.array([9]))}, "10 numbers, not 3"),
        ({"logs": Logs({"state": np.zeros((9, 3))}, np.array([9]))}, "'action'"),
        ({"actions": replace(BLOCKS, length=4)}, "4 steps of 2"),
    ],
)
def test_missing_or_foreign_action_statistics_are_refused(saved: tuple[Any, Path], given: Any, named: str) -> None:
    with pytest.raises(ReachcostError, match=named):
        load_checkpoint(saved[1], **given)


def test_parts_can_be_trained() -> None:
    sizes = PublicArchitecture(image_size=28, encoder_width=24, encoder_depth=1, encoder_mlp=32, latent_dim=16)
    sizes = replace(sizes, predictor_width=16, depth=1, heads=2, dim_head=8, mlp=32)
    parts = PublicParts(replace(sizes, projector_hidden=32, pred_proj_hidden=32)).train()
    for weight in parts.parameters():
        nn.init.normal_(weight, std=0.1)
    frames, blocks = torch.randint(256, (8, 28, 28, 3), dtype=torch.uint8), torch.randn(3, 8, 10)
    window, embedded = [parts.embed(frames)] * 3, parts.embed_actions(blocks)
    predicted = parts.predict(window, embedded)[0]
    assert not torch.equal(parts.predict(window, embedded)[0], predicted)  # dropout
    predicted.square().sum().backward()
    assert [name for name, weight in parts.named_parameters() if weight.grad is None] == []


class Bomb:
    """Unpickling it would leave a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self.trace,)


def test_pickled_models_need_trust(saved: tuple[Any, Path], tmp_path: Path) -> None:
    path = tmp_path / "tworoom" / "lewm_object.ckpt"
    path.parent.mkdir()
    torch.save(saved[0], path)
    with pytest.raises(ReachcostError, match="trust_pickle=True"):
        load_checkpoint(path, actions=BLOCKS)
    with pytest.raises(ReachcostError, match="lewm_object"):
        load_checkpoint(path.parent, actions=BLOCKS)
    model, same = load_checkpoint(path, actions=BLOCKS, trust_pickle=True), load_checkpoint(saved[1], actions=BLOCKS)
    assert torch.equal(our_latents(model, FRAMES), our_latents(same, FRAMES))
    context = our_latents(model, FRAMES)
    assert torch.equal(model.rollout(context, ACTIONS), same.rollout(context, ACTIONS))
    assert (model.card["name"], model.card["family"]) == ("lewm", "lewm")


@pytest.mark.parametrize("name", ["pldm, history 1", "wider predictor", "no norm", "no projectors"])
def test_sizes_of_pickled_models_are_read(name: str, tmp_path: Path) -> None:
    theirs, directory = save(CONFIGS[name], tmp_path)
    torch.save(nn.ModuleDict({"model": theirs}), tmp_path / "any.ckpt")
    model = load_checkpoint(tmp_path / "any.ckpt", actions=BLOCKS, trust_pickle=True)
    same = load_checkpoint(directory, actions=BLOCKS)
    without = {"dropout": 0.1}  # not stored in a pickle
    assert replace(model.parts.architecture, **without) == same.parts.architecture
    assert model.card["family"] == same.card["family"]


def test_pickles_that_hold_something_else_are_refused(saved: tuple[Any, Path], tmp_path: Path) -> None:
    path = tmp_path / "other.ckpt"
    odd, headless = copy.deepcopy(saved[0]), copy.deepcopy(saved[0])
    odd.projector.net[2] = nn.ReLU()
    del headless.predictor.transformer.layers[0].attn.heads
    for thing, named in (
        (nn.Linear(2, 2), "Linear"),
        (odd, r"projector\.act_fn\._target_ is 'torch\.nn\.modules\.activation\.ReLU'"),
        (headless, "heads"),
        (b"cno_such_module\nModel\n.", "no_such_module"),
        (b"garbage", "unpickling failed"),
    ):
        path.write_bytes(thing) if isinstance(thing, bytes) else torch.save(thing, path)
        with pytest.raises(ReachcostError, match=named):
            load_checkpoint(path, actions=BLOCKS, trust_pickle=True)


def test_weights_never_run_code(copied: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    torch.save({"encoder": Bomb(trace)}, copied / "weights.pt")
    with pytest.raises(ReachcostError, match="any code") as caught:
        load_checkpoint(copied, actions=BLOCKS, trust_pickle=True)
    assert "weights_only" not in str(caught.value)
    assert not trace.exists()


def changed(path: str, value: object) -> Any:
    """The config tree with one key replaced, or deleted if the value is KeyError."""
    config = json.loads(json.dumps(config_tree()))  # its two MLPs share a norm
    *parents, last = path.split(".")
    node = config
    for parent in parents:
        node = node[parent]
    if value is KeyError:
        del node[last]
    else:
        node[last] = value
    return config


SPOILED = [
    ("predictor.depth", 0),
    ("predictor.depth", 10**9),
    ("predictor.heads", True),
    ("predictor.num_frames", KeyError),
    ("predictor.gates", 2),
    ("encoder.hidden_act", "relu"),
    ("encoder.size", "giant"),
    ("encoder.pretrained", True),
    ("encoder.num_attention_heads", 5),
    ("encoder.patch_size", 60),
    ("encoder", 7),
    ("projector", None),
    ("pred_proj.norm_fn.eps", 0.1),
]


@pytest.mark.parametrize(("path", "value"), SPOILED)
def test_an_unsupported_config_is_refused_by_the_path_of_its_key(path: str, value: object, copied: Path) -> None:
    (copied / "config.json").write_text(json.dumps(changed(path, value)))
    with pytest.raises(ReachcostError, match=rf"in its config, `?{re.escape(path)}"):
        load_checkpoint(copied, actions=BLOCKS)


@pytest.mark.parametrize("place", ["", "encoder", "predictor", "action_encoder", "projector", "projector.norm_fn"])
def test_an_unknown_target_is_refused_and_not_called(place: str, copied: Path, tmp_path: Path) -> None:
    node = {"_target_": "os.system", "command": f"touch {tmp_path / 'trace'}"}
    (copied / "config.json").write_text(json.dumps(changed(place, node) if place else node))
    with pytest.raises(ReachcostError, match=rf"{re.escape(place)}\.?_target_ is 'os\.system'"):
        load_checkpoint(copied, actions=BLOCKS)
    assert not (tmp_path / "trace").exists()


def without(name: str) -> Callable[[dict[str, Tensor]], object]:
    return lambda weights: {key: tensor for key, tensor in weights.items() if key != name}


POSITIONS = "predictor.pos_embedding"
BAD_WEIGHTS: dict[str, Callable[[dict[str, Tensor]], object]] = {
    "pos_embedding' is missing": without(POSITIONS),
    "'extra'": lambda weights: {**weights, "extra": torch.zeros(2)},
    "(1, 4, 24)": lambda weights: {**weights, POSITIONS: torch.zeros(1, 4, 24)},
    "torch.int64": lambda weights: {**weights, POSITIONS: torch.zeros(1, 3, 24, dtype=torch.int64)},
    "pos_embedding' is not finite": lambda weights: {**weights, POSITIONS: weights[POSITIONS] / torch.zeros(())},
    "'epoch'": lambda weights: {**weights, "epoch": 3},
    "list": lambda weights: list(weights.values()),
    "more numbers than the file": lambda weights: {**weights, "big": torch.zeros(1).expand(10**12)},
}


@pytest.mark.parametrize("named", BAD_WEIGHTS)
def test_wrong_weights_are_refused(named: str, copied: Path) -> None:
    torch.save(BAD_WEIGHTS[named](torch.load(copied / "weights.pt", weights_only=True)), copied / "weights.pt")
    with pytest.raises(ReachcostError, match=re.escape(named)):
        load_checkpoint(copied, actions=BLOCKS)


def test_huge_configs_allocate_nothing(copied: Path) -> None:
    config = changed("predictor.mlp_dim", 65536)
    config["predictor"] |= {"heads": 65536, "dim_head": 65536}
    (copied / "config.json").write_text(json.dumps(config))
    with pytest.raises(ReachcostError, match="4294967296"):
        load_checkpoint(copied, actions=BLOCKS)


def test_damaged_and_missing_files_are_reported(copied: Path, tmp_path: Path) -> None:
    def refused(source: Path, named: str) -> None:
        with pytest.raises(ReachcostError, match=named):
            load_checkpoint(source, actions=BLOCKS)

    complete = (copied / "weights.pt").read_bytes()
    (copied / "weights.pt").write_bytes(complete[: len(complete) // 2])
    refused(copied, r"weights\.pt: the file is damaged")
    (copied / "weights.pt").write_bytes(complete)
    for text in ("{", "[1]"):
        (copied / "config.json").write_text(text)
        refused(copied, "config")
    (copied / "config.json").unlink()
    refused(copied / "weights.pt", r"config\.json")
    (copied / "weights.pt").unlink()
    refused(copied, "no weights")
    refused(copied / "weights.pt", "no such file")
    refused(tmp_path / "nowhere", "no such directory")
    (tmp_path / "model.onnx").touch()
    refused(tmp_path / "model.onnx", "neither weights")


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of stable-worldmodel."""
    monkeypatch.setenv("STABLEWM_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "checkpoints"


def test_hub_ids_are_found_in_the_cache_of_stable_worldmodel(offline: Path, saved: tuple[Any, Path]) -> None:
    for name in ("models--someone--lewm-small", "my/run"):
        (offline / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(saved[1], offline / name)
    model = load_checkpoint("someone/lewm-small", actions=BLOCKS)
    assert (model.card["name"], model.card["source"]) == ("someone/lewm-small", "someone/lewm-small")
    assert model.card["sha256"] == load_checkpoint(saved[1], actions=BLOCKS).card["sha256"]
    for source in ("my/run", "my/run/weights.pt"):
        assert load_checkpoint(source, actions=BLOCKS).latent_dim == 24


def test_only_hf_ids_are_downloaded(offline: Path, saved: tuple[Any, Path], tmp_path: Path) -> None:
    (offline / "models--someone--lewm-small").mkdir(parents=True)  # what an interrupted download leaves
    hub = Folder(tmp_path / "hub")
    hub.upload(saved[1], "someone/lewm-small", private=False)
    found = load_world_model("hf://someone/lewm-small", actions=BLOCKS, hub=hub)
    assert found.card["name"] == "someone/lewm-small"
    with pytest.raises(ReachcostError, match="hf://someone/lewm-small"):
        load_world_model("someone/lewm-small", actions=BLOCKS, hub=hub)
