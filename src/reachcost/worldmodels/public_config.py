"""The `config.json` of a public checkpoint, read as data: which architecture it describes, or why it is refused."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, NoReturn

from torch import nn

from reachcost.errors import ReachcostError
from reachcost.worldmodels.public import Norm, PublicArchitecture

FAMILIES = {
    "stable_worldmodel.wm.LeWM": "lewm",
    "stable_worldmodel.wm.lewm.LeWM": "lewm",
    "stable_worldmodel.wm.lewm.lewm.LeWM": "lewm",
    "stable_worldmodel.wm.pldm.PLDM": "pldm",
    "stable_worldmodel.wm.pldm.pldm.PLDM": "pldm",
}
VIT = ("stable_pretraining.backbone.utils.vit_hf", "stable_pretraining.backbone.vit_hf")
VIT_SIZES = {
    "tiny": (192, 12, 3),
    "small": (384, 12, 6),
    "base": (768, 12, 12),
    "large": (1024, 24, 16),
    "huge": (1280, 32, 16),
}
"""Width, layers and heads of the encoders that `vit_hf` knows by name."""
VIT_ATTRIBUTES = (
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "image_size", "patch_size"),
    *("hidden_act", "num_channels", "qkv_bias", "layer_norm_eps"),
)
NORMS: dict[str, Norm] = {"torch.nn.BatchNorm1d": "batch", "torch.nn.LayerNorm": "layer"}
GELU = ("torch.nn.GELU", "torch.nn.modules.activation.GELU")
IDENTITY = ("torch.nn.Identity", "torch.nn.modules.linear.Identity")

WIDEST, DEEPEST = 65536, 256
"""Limits on what a config may ask for, far above any real model."""


def refuse(where: object, what: str, cause: Exception | None = None) -> NoReturn:
    """Stop, naming the checkpoint and what is wrong with it."""
    raise ReachcostError(f"cannot load the world model {where}: {what}") from cause


class _Section:
    """The arguments of one constructor in the tree. Each is taken once; `close` refuses what is left."""

    def __init__(self, where: Path, path: str, node: object, targets: Collection[str]) -> None:
        self.where, self.path = where, path
        if not isinstance(node, dict):
            self.refuse(f"is {_short(node)}: expected an object with a `_target_`")
        self.left = dict(node)
        self.target = self.left.pop("_target_", None)
        if not isinstance(self.target, str) or self.target not in targets:
            self.refuse(f"has `_target_` {_short(self.target)}: reachcost runs {' or '.join(targets)} only")

    def refuse(self, what: str, key: str | None = None) -> NoReturn:
        path = ".".join(part for part in (self.path, key) if part) or "the model"
        refuse(self.where, f"in its config, {path} {what}")

    def take(self, key: str, default: Any = None) -> Any:
        value = self.left.pop(key, None)
        if value is None and default is None:
            self.refuse("is missing", key)
        return default if value is None else value

    def count(self, key: str, default: int | None = None, most: int = WIDEST) -> int:
        value = self.take(key, default)
        if type(value) is not int or not 1 <= value <= most:
            self.refuse(f"is {_short(value)}: expected a whole number from 1 to {most}", key)
        return value

    def fraction(self, key: str, default: float) -> float:
        value = self.take(key, default)
        if type(value) not in (int, float) or not 0 <= value < 1:
            self.refuse(f"is {_short(value)}: expected a number from 0 to below 1", key)
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self.take(key, default)
        if type(value) is not bool:
            self.refuse(f"is {_short(value)}: expected true or false", key)
        return value

    def only(self, key: str, accepted: object, default: object) -> None:
        value = self.take(key, default)
        if type(value) is not type(accepted) or value != accepted:
            self.refuse(f"is {_short(value)}: reachcost has {_short(accepted)} only", key)

    def close(self) -> None:
        for key, value in self.left.items():
            self.refuse(f"is {_short(value)}: reachcost does not know this argument", key)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def read_architecture(where: Path, config: object) -> tuple[str, PublicArchitecture]:
    """Family and sizes of the model that a config tree describes."""
    model = _Section(where, "", config, FAMILIES)
    encoder = _encoder(where, model.take("encoder"))
    predictor = _predictor(where, model.take("predictor"))
    latent = predictor["latent_dim"]
    actions = _Section(where, "action_encoder", model.take("action_encoder"), _modules("Embedder"))
    sizes = {
        "action_dim": actions.count("input_dim", 10),
        "action_smoothed_dim": actions.count("smoothed_dim", 10),
        "action_mlp_scale": actions.count("mlp_scale", 4),
    }
    _agree(actions, "emb_dim", actions.count("emb_dim", 10), "predictor.input_dim", latent)
    actions.close()
    projector = _projector(where, "projector", model.left.pop("projector", None), encoder["encoder_width"], latent)
    pred_proj = _projector(where, "pred_proj", model.left.pop("pred_proj", None), latent, latent)
    model.close()
    return FAMILIES[model.target], PublicArchitecture(**encoder, **predictor, **sizes, **projector, **pred_proj)


def _encoder(where: Path, node: object) -> dict[str, Any]:
    section = _Section(where, "encoder", node, VIT)
    size = section.take("size", "tiny")
    if not isinstance(size, str) or size not in VIT_SIZES:
        section.refuse(f"is {_short(size)}: expected one of {', '.join(VIT_SIZES)}", "size")
    width, depth, heads = VIT_SIZES[size]
    sizes = {
        "image_size": section.count("image_size", 224),
        "patch": section.count("patch_size", 16),
        "encoder_width": section.count("hidden_size", width),
        "encoder_depth": section.count("num_hidden_layers", depth, most=DEEPEST),
        "encoder_heads": section.count("num_attention_heads", heads),
        "encoder_mlp": section.count("intermediate_size", 4 * width),
        "encoder_eps": section.fraction("layer_norm_eps", 1e-12),
        "encoder_qkv_bias": section.flag("qkv_bias", True),
        "encoder_dropout": section.fraction("hidden_dropout_prob", 0.0),
        "encoder_attention_dropout": section.fraction("attention_probs_dropout_prob", 0.0),
    }
    section.only("hidden_act", "gelu", "gelu")
    section.only("num_channels", 3, 3)
    section.only("pretrained", False, False)  # its sizes would be those of a model on the hub
    section.flag("use_mask_token", True)
    section.fraction("initializer_range", 0.02)
    section.close()
    if sizes["encoder_width"] % sizes["encoder_heads"]:
        section.refuse(f"is {sizes['encoder_heads']}: it must divide the width", "num_attention_heads")
    if sizes["patch"] > sizes["image_size"]:
        section.refuse(f"is {sizes['patch']}: a patch must fit into the image", "patch_size")
    return sizes


def _predictor(where: Path, node: object) -> dict[str, Any]:
    section = _Section(where, "predictor", node, _modules("Predictor"))
    latent = section.count("input_dim")
    sizes = {
        "latent_dim": latent,
        "history": section.count("num_frames"),
        "predictor_width": section.count("hidden_dim"),
        "depth": section.count("depth", most=DEEPEST),
        "heads": section.count("heads"),
        "dim_head": section.count("dim_head", 64),
        "mlp": section.count("mlp_dim"),
        "dropout": section.fraction("dropout", 0.0),
        "embedding_dropout": section.fraction("emb_dropout", 0.0),
    }
    _agree(section, "output_dim", section.count("output_dim", latent), "predictor.input_dim", latent)
    section.close()
    return sizes


def _projector(where: Path, path: str, node: object, inputs: int, outputs: int) -> dict[str, Any]:
    """Hidden size and norm of `projector` or `pred_proj`, under the names `PublicArchitecture` has for them."""
    if node is None or (isinstance(node, dict) and node.get("_target_") in IDENTITY):
        section = _Section(where, path, node or {"_target_": IDENTITY[0]}, IDENTITY)
        _agree(section, None, inputs, "the latent", outputs)
        section.close()
        return {f"{path}_hidden": None}
    section = _Section(where, path, node, _modules("MLP"))
    hidden, entering = section.count("hidden_dim"), section.count("input_dim")
    _agree(section, "input_dim", entering, "what enters it", inputs)
    _agree(section, "output_dim", section.count("output_dim", entering), "predictor.input_dim", outputs)
    norm: Norm = "layer"  # what the public MLP does unless told otherwise
    if "norm_fn" in section.left:
        norm = _norm(where, f"{path}.norm_fn", section.left.pop("norm_fn"))
    activation = section.left.pop("act_fn", None)
    if activation is not None:
        _partial(where, f"{path}.act_fn", activation, GELU)
    section.close()
    return {f"{path}_hidden": hidden, f"{path}_norm": norm}


def _norm(where: Path, path: str, node: object) -> Norm:
    if node is None:
        return "none"
    return NORMS[_partial(where, path, node, NORMS)]


def _partial(where: Path, path: str, node: object, targets: Collection[str]) -> str:
    """The target of a constructor that is given to be called later, without arguments."""
    section = _Section(where, path, node, targets)
    section.only("_partial_", True, False)
    section.close()
    return section.target


def _agree(section: _Section, key: str | None, found: int, other: str, wanted: int) -> None:
    if found != wanted:
        section.refuse(f"has size {found}, but {other} has {wanted}: reachcost needs them equal", key)


def _modules(name: str) -> tuple[str, ...]:
    """Both families have their own copy of the same modules."""
    return tuple(f"stable_worldmodel.wm.{family}.module.{name}" for family in ("lewm", "pldm"))


def describe(model: Any) -> dict[str, Any]:
    """The config tree of a model object, so that pickles pass the same checks as files."""
    families = {"LeWM": "stable_worldmodel.wm.lewm.LeWM", "PLDM": "stable_worldmodel.wm.pldm.PLDM"}
    families["JEPA"] = families["LeWM"]  # its name in the repository of the paper
    predictor, actions = model.predictor, model.action_encoder
    block = predictor.transformer.layers[0]
    _, history, latent = predictor.pos_embedding.shape
    width = predictor.transformer.norm.normalized_shape[0]
    embedding = actions.embed[2].out_features
    vit = {name: getattr(model.encoder.config, name) for name in VIT_ATTRIBUTES}
    return {
        "_target_": families.get(type(model).__name__, _path(model)),
        "encoder": {"_target_": VIT[0] if type(model.encoder).__name__ == "ViTModel" else _path(model.encoder), **vit},
        "predictor": {
            "_target_": _modules("Predictor")[0],
            "num_frames": history,
            "input_dim": latent,
            "hidden_dim": width,
            "output_dim": getattr(predictor.transformer.output_proj, "out_features", width),
            "depth": len(predictor.transformer.layers),
            "heads": block.attn.heads,
            "dim_head": block.attn.to_qkv.out_features // (3 * block.attn.heads),
            "mlp_dim": block.mlp.net[1].out_features,
        },
        "action_encoder": {
            "_target_": _modules("Embedder")[0],
            "input_dim": actions.patch_embed.in_channels,
            "smoothed_dim": actions.patch_embed.out_channels,
            "emb_dim": embedding,
            "mlp_scale": actions.embed[0].out_features // embedding,
        },
        "projector": _describe_projector(model.projector),
        "pred_proj": _describe_projector(model.pred_proj),
    }


def _describe_projector(projector: Any) -> dict[str, Any] | None:
    if isinstance(projector, nn.Identity):
        return None
    first, norm, activation, last = projector.net
    other = {} if isinstance(norm, nn.Identity) or norm.eps == 1e-5 else {"eps": norm.eps}
    names = {nn.BatchNorm1d: "torch.nn.BatchNorm1d", nn.LayerNorm: "torch.nn.LayerNorm", nn.GELU: GELU[0]}
    norm_fn = {"_target_": names.get(type(norm), _path(norm)), "_partial_": True, **other}
    return {
        "_target_": _modules("MLP")[0],
        "input_dim": first.in_features,
        "hidden_dim": first.out_features,
        "output_dim": last.out_features,
        "norm_fn": None if isinstance(norm, nn.Identity) else norm_fn,
        "act_fn": {"_target_": names.get(type(activation), _path(activation)), "_partial_": True},
    }


def _path(thing: object) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"
