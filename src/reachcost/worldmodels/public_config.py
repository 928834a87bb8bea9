"""The `config.json` of a public checkpoint, validated as data: which architecture it describes.

It is a tree of constructors (`_target_`) and their arguments. Only the constructors and arguments listed here are
accepted; nothing is imported or called by name.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from torch import nn

from reachcost.core.json_files import first_problem
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
SIZES = {field.name for field in fields(PublicArchitecture)}
IDENTITIES = [{"_target_": f"torch.nn.{name}"} for name in ("Identity", "modules.linear.Identity")]

# The upper limits are far above any real model.
Count = Annotated[int, Field(ge=1, le=65536)]
Depth = Annotated[int, Field(ge=1, le=256)]
Share = Annotated[float, Field(ge=0, lt=1)]


def _one_of(names: Collection[str]) -> AfterValidator:
    def check(value: str) -> str:
        if value not in names:
            raise ValueError(f"reachcost supports {' or '.join(names)} only")
        return value

    return AfterValidator(check)


def _modules(name: str) -> tuple[str, ...]:
    """Both families have their own copy of the same modules."""
    return tuple(f"stable_worldmodel.wm.{family}.module.{name}" for family in ("lewm", "pldm"))


class Section(BaseModel):
    """The arguments of one constructor; null stands for the default.

    An argument that is a size of `PublicArchitecture` has its name there, and its name in the config as alias. Other
    arguments do not change predictions, or follow from the weights, whose shapes are checked.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        optional = {field.alias or name for name, field in cls.model_fields.items()} - {"norm_fn"}
        return {key: value for key, value in node.items() if value is not None or key not in optional}

    def sizes(self) -> dict[str, Any]:
        """Sizes by their name in `PublicArchitecture`, without those that are not given."""
        return {name: value for name, value in self if name in SIZES and value is not None}


class EncoderSection(Section):
    """The vision transformer."""

    target: Annotated[str, _one_of(VIT)] = Field(alias="_target_")
    size: Annotated[str, _one_of(VIT_SIZES)] = "tiny"
    image_size: Count = 224
    patch: Count = Field(16, alias="patch_size")
    encoder_width: Count | None = Field(None, alias="hidden_size")
    encoder_depth: Depth | None = Field(None, alias="num_hidden_layers")
    encoder_heads: Count | None = Field(None, alias="num_attention_heads")
    encoder_mlp: Count | None = Field(None, alias="intermediate_size")
    encoder_eps: Share = Field(1e-12, alias="layer_norm_eps")
    encoder_qkv_bias: bool = Field(True, alias="qkv_bias")
    hidden_dropout_prob: Share = 0.0
    attention_probs_dropout_prob: Share = 0.0
    hidden_act: Literal["gelu"] = "gelu"
    num_channels: Literal[3] = 3
    pretrained: Literal[False] = False  # a config does not hold the sizes of a pretrained model
    use_mask_token: bool = True
    initializer_range: Share = 0.02


class PredictorSection(Section):
    """The causal transformer."""

    target: Annotated[str, _one_of(_modules("Predictor"))] = Field(alias="_target_")
    latent_dim: Count = Field(alias="input_dim")
    output_dim: Count | None = None
    history: Count = Field(alias="num_frames")
    predictor_width: Count = Field(alias="hidden_dim")
    depth: Depth
    heads: Count
    dim_head: Count = 64
    mlp: Count = Field(alias="mlp_dim")
    dropout: Share = 0.0
    emb_dropout: Share = 0.0


class ActionSection(Section):
    """The action encoder."""

    target: Annotated[str, _one_of(_modules("Embedder"))] = Field(alias="_target_")
    action_dim: Count = Field(10, alias="input_dim")
    action_smoothed_dim: Count = Field(10, alias="smoothed_dim")
    action_mlp_scale: Count = Field(4, alias="mlp_scale")
    emb_dim: Count | None = None


class NormSection(Section):
    """Class of a norm."""

    target: Annotated[str, _one_of(NORMS)] = Field(alias="_target_")
    partial: Literal[True] = Field(alias="_partial_")


class ActivationSection(NormSection):
    """Class of an activation."""

    target: Annotated[str, _one_of(GELU)] = Field(alias="_target_")


class ProjectorSection(Section):
    """Two linear layers with a norm between them: a layer norm by default, and none if it is null."""

    target: Annotated[str, _one_of(_modules("MLP"))] = Field(alias="_target_")
    input_dim: Count | None = None
    hidden_dim: Count
    output_dim: Count | None = None
    norm_fn: NormSection | None = NormSection(_target_="torch.nn.LayerNorm", _partial_=True)
    act_fn: ActivationSection | None = None


class ModelSection(Section):
    """The full tree; a projector of None is the identity."""

    target: Annotated[str, _one_of(FAMILIES)] = Field(alias="_target_")
    encoder: EncoderSection
    predictor: PredictorSection
    action_encoder: ActionSection
    projector: ProjectorSection | None = None
    pred_proj: ProjectorSection | None = None

    @field_validator("projector", "pred_proj", mode="before")
    @classmethod
    def _identity(cls, node: Any) -> Any:
        return None if node in IDENTITIES else node


def refuse(where: object, what: str, cause: Exception | None = None) -> NoReturn:
    """Raise an error that names the checkpoint and what is wrong with it."""
    raise ReachcostError(f"cannot load the world model {where}: {what}") from cause


def read_architecture(where: Path, config: object) -> tuple[str, PublicArchitecture]:
    """Return family and sizes of the model that a config tree describes."""
    try:
        model = ModelSection.model_validate(config)
    except ValidationError as error:
        refuse(where, f"in its config, {first_problem(error, 'use a public LeWM or PLDM')}", error)
    width, depth, heads = VIT_SIZES[model.encoder.size]
    sizes: dict[str, Any] = {"encoder_width": width, "encoder_depth": depth, "encoder_heads": heads}
    sizes |= {"encoder_mlp": 4 * width, **model.encoder.sizes()}
    sizes |= {**model.predictor.sizes(), **model.action_encoder.sizes()}
    width, latent = sizes["encoder_width"], sizes["latent_dim"]
    if width % sizes["encoder_heads"]:
        refuse(where, f"in its config, encoder.num_attention_heads does not divide the width of {width}: use a divisor")
    if sizes["patch"] > sizes["image_size"]:
        refuse(where, f"in its config, encoder.patch_size is {sizes['patch']}: a patch must fit into the image")
    if model.projector is None and width != latent:
        refuse(where, f"in its config, projector is null, but the encoder has {width} outputs: use {latent}")
    for name, section in (("projector", model.projector), ("pred_proj", model.pred_proj)):
        sizes[f"{name}_hidden"] = None if section is None else section.hidden_dim
        if section is not None:
            sizes[f"{name}_norm"] = "none" if section.norm_fn is None else NORMS[section.norm_fn.target]
    return FAMILIES[model.target], PublicArchitecture(**sizes)


def describe(model: Any) -> dict[str, Any]:
    """Return the config tree of a model object, so that pickles pass the same checks as files."""
    families = {"LeWM": "stable_worldmodel.wm.lewm.LeWM", "PLDM": "stable_worldmodel.wm.pldm.PLDM"}
    families["JEPA"] = families["LeWM"]  # its name in the repository of the paper
    transformer, actions = model.predictor.transformer, model.action_encoder
    attention, mlp = transformer.layers[0].attn, transformer.layers[0].mlp
    _, history, latent = model.predictor.pos_embedding.shape
    (width,) = transformer.norm.normalized_shape
    encoder = VIT[0] if type(model.encoder).__name__ == "ViTModel" else path_of(model.encoder)
    return {
        "_target_": families.get(type(model).__name__, path_of(model)),
        "encoder": {"_target_": encoder, **{name: getattr(model.encoder.config, name) for name in VIT_ATTRIBUTES}},
        "predictor": {
            "_target_": _modules("Predictor")[0],
            "num_frames": history,
            "input_dim": latent,
            "hidden_dim": width,
            "depth": len(transformer.layers),
            "heads": attention.heads,
            "dim_head": attention.to_qkv.out_features // (3 * attention.heads),
            "mlp_dim": mlp.net[1].out_features,
        },
        "action_encoder": {
            "_target_": _modules("Embedder")[0],
            "input_dim": actions.patch_embed.in_channels,
            "smoothed_dim": actions.patch_embed.out_channels,
            "mlp_scale": actions.embed[0].out_features // actions.embed[2].out_features,
        },
        "projector": _describe_projector(model.projector),
        "pred_proj": _describe_projector(model.pred_proj),
    }


def _describe_projector(projector: Any) -> dict[str, Any] | None:
    if isinstance(projector, nn.Identity):
        return None
    first, norm, activation, _ = projector.net
    names = {nn.BatchNorm1d: "torch.nn.BatchNorm1d", nn.LayerNorm: "torch.nn.LayerNorm", nn.GELU: GELU[0]}
    partial = [{"_target_": names.get(type(part), path_of(part)), "_partial_": True} for part in (norm, activation)]
    if not isinstance(norm, nn.Identity) and norm.eps != 1e-5:
        partial[0]["eps"] = norm.eps  # which is refused
    return {
        "_target_": _modules("MLP")[0],
        "hidden_dim": first.out_features,
        "norm_fn": None if isinstance(norm, nn.Identity) else partial[0],
        "act_fn": partial[1],
    }


def path_of(thing: object) -> str:
    """Return module and class of an object, as a `_target_` names them."""
    return f"{type(thing).__module__}.{type(thing).__qualname__}"
