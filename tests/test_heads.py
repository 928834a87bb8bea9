"""Heads: shapes, symmetry, training and files."""

import copy
import json
import pickle
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor, nn

from reachcost.core.modules import _checksum
from reachcost.data.latents import Latents
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, ReachcostWarning
from reachcost.fitting.fit import evaluate, fit
from reachcost.heads.base import LearnedHead
from reachcost.heads.kinds import EmbeddingHead, PairHead
from reachcost.heads.recipe import BUILT_IN, KINDS, Recipe, register_head
from reachcost.heads.storage import load_head, save_head
from reachcost.labels.pairs import PairSet
from reachcost.labels.temporal import TemporalPairs
from reachcost.results.records import as_json

pytestmark = pytest.mark.processor

QUICK = Recipe.paper(hidden=16, scale=29, epochs=3, batch_size=256)


def test_training_learns_and_keeps_the_best_epoch(head: PairHead, pairs: TemporalPairs) -> None:
    record = head.record
    losses = [epoch["validation_loss"] for epoch in record["curve"]]
    assert record["validation_loss"] == min(losses)
    assert record["best_epoch"] == 1 + losses.index(min(losses))
    assert record["validation_rmse"] < 0.5 * pairs.validation.gap.std().item()
    assert not head.training
    assert not any(parameter.requires_grad for parameter in head.parameters())


def test_shuffled_labels_teach_nothing(pairs: TemporalPairs) -> None:
    control = fit(pairs.shuffled(), QUICK, seed=1)
    assert control.record["validation_rmse"] > 0.9 * pairs.validation.gap.std().item()


def test_training_is_deterministic_and_leaves_global_randomness_alone(pairs: TemporalPairs) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    threads = torch.get_num_threads()
    one, same, other = (fit(pairs, QUICK, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == threads
    assert same_weights(one, same)
    assert not same_weights(one, other)


def test_divergence_is_reported(pairs: TemporalPairs) -> None:
    with pytest.raises(ReachcostError, match="lower the learning rate"):
        fit(pairs, Recipe.paper(hidden=16, scale=29, epochs=2, learning_rate=1e30))


def test_a_head_is_saved_in_two_files_of_a_new_directory(head: PairHead, tmp_path: Path) -> None:
    save_head(head, tmp_path / "head")
    assert sorted(path.name for path in (tmp_path / "head").iterdir()) == ["config.json", "weights.safetensors"]
    with pytest.raises(ReachcostError, match="exists already"):
        save_head(head, tmp_path / "head")


def edit_config(directory: Path, **changes: object) -> None:
    config = json.loads((directory / "config.json").read_text())
    config.update(changes)
    (directory / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "format 'other'"),
        ({"arguments": {"latent_dim": "ten"}}, "arguments"),
        ({"arguments": {"scale": -5}}, "arguments"),
        ({"arguments": {"scale": float("nan")}}, "NaN"),
        ({"arguments": {"hidden": "32"}}, "arguments"),
        ({"arguments": {"depth": 2}}, "depth"),
        ({"arguments": None}, "arguments"),
        ({"arguments": {"symmetric": True}}, "belong together"),
    ],
)
def test_a_damaged_config_is_refused(change: dict[str, Any], message: str, head: PairHead, tmp_path: Path) -> None:
    save_head(head, tmp_path / "head")
    if isinstance(change.get("arguments"), dict):
        change = {"arguments": {**head.config, **change["arguments"]}}
    edit_config(tmp_path / "head", **change)
    with pytest.raises(ReachcostError, match=message):
        load_head(tmp_path / "head")
    (tmp_path / "head" / "config.json").write_text("{")
    with pytest.raises(ReachcostError, match=r"config\.json"):
        load_head(tmp_path / "head")


def test_a_config_that_asks_for_other_weights_allocates_nothing(head: PairHead, tmp_path: Path) -> None:
    save_head(head, tmp_path / "head")
    arguments = {**head.config, "hidden": 10**9}
    weights = (tmp_path / "head" / "weights.safetensors").read_bytes()
    edit_config(tmp_path / "head", arguments=arguments, sha256="")
    config = json.loads((tmp_path / "head" / "config.json").read_text())
    edit_config(tmp_path / "head", sha256=_checksum(config, weights))
    with pytest.raises(ReachcostError, match=r"mlp\.0\.bias"):
        load_head(tmp_path / "head")


def test_non_finite_weights_are_refused(tmp_path: Path) -> None:
    broken = PairHead(4, hidden=8)
    broken.state_dict()["mlp.0.weight"][0, 0] = torch.inf
    save_head(broken, tmp_path / "head")
    with pytest.raises(ReachcostError, match=r"mlp\.0\.weight"):
        load_head(tmp_path / "head")


@pytest.mark.parametrize("kind", [head.kind for head in BUILT_IN])
def test_every_kind_broadcasts_learns_and_comes_back(kind: str, pairs: TemporalPairs, tmp_path: Path) -> None:
    recipe = Recipe.paper(head=kind, scale=29, epochs=3, batch_size=256, learning_rate=1e-2)
    head = fit(pairs, recipe, seed=1)
    untrained = evaluate(recipe.build(10), pairs.latents, pairs.validation)[0]
    assert head.kind == kind
    assert head.record["validation_loss"] < 0.9 * untrained
    assert head(torch.zeros(3, 5, 10), torch.ones(10)).shape == (3, 5)
    save_head(head, tmp_path / kind)
    loaded = load_head(tmp_path / kind)
    assert (type(loaded), loaded.config, loaded.record) == (type(head), head.config, head.record)
    assert same_weights(loaded, head)
    with pytest.raises(ReachcostError, match="dimension 10"):
        head(torch.zeros(2, 3), torch.zeros(3))


@pytest.mark.parametrize("kind", ["embedding", "linear", "mahalanobis", "euclidean"])
def test_most_heads_are_symmetric(kind: str) -> None:
    (z, goal), head = torch.randn(2, 50, 10), Recipe(head=kind).build(10)
    assert torch.equal(head(z, goal), head(goal, z))


def noisy_pairs() -> TemporalPairs:
    """Two states, 3 or 30 steps apart with equal chance."""
    lengths = np.tile([4, 31], 200)
    state = np.concatenate([np.r_[[0], np.full(length - 2, 5), [1]] for length in lengths])[:, None]
    latents = Latents(torch.from_numpy(state).float(), Logs({"state": state}, lengths))
    return TemporalPairs(latents, count=2000, validation=500, sampling="mostly-endpoints", seed=1)


@pytest.mark.parametrize(("expectile", "low", "high"), [(0.5, 12, 21), (0.05, 1, 9), (0.95, 24, 32)])
def test_expectiles_below_one_half_prefer_short_times(expectile: float, low: float, high: float) -> None:
    # The scale makes the loss quadratic over these labels: an expectile, not a quantile.
    recipe = Recipe(expectile=expectile, scale=100, hidden=16, epochs=10, batch_size=128, learning_rate=1e-2)
    head = fit(noisy_pairs(), recipe)
    assert low < head(torch.zeros(1), torch.ones(1)).item() < high


def test_a_ranking_head_orders_pairs_whatever_the_unit_of_its_labels(pairs: TemporalPairs) -> None:
    settings = {"loss": "ranking", "hidden": 32, "epochs": 4, "batch_size": 256, "learning_rate": 1e-2}
    order = {}
    for scale in (1.0, 29.0):
        head = fit(pairs, Recipe.paper(**settings, scale=scale), seed=1)
        z, goal = (pairs.latents[rows] for rows in (pairs.validation.first, pairs.validation.second))
        order[scale] = np.asarray(spearmanr(head(z, goal).numpy(), pairs.validation.gap.numpy()))[0]
    assert min(order.values()) > 0.85


class Watched(TemporalPairs):
    """Remembers which epochs were sampled."""

    sampled: tuple[int, ...] = ()

    def epoch(self, number: int) -> PairSet:
        self.sampled = (*self.sampled, number)
        return super().epoch(number)


@pytest.mark.parametrize(("fresh", "sampled"), [(True, (0, 1, 2)), (False, (0, 0, 0))])
def test_fresh_pairs_are_sampled_after_the_first_epoch(latents: Latents, fresh: bool, sampled: tuple[int, ...]) -> None:
    pairs = Watched(latents, count=200, validation=20)
    fit(pairs, Recipe(hidden=8, epochs=3, fresh=fresh))
    assert pairs.sampled == sampled


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epochs": 0}, "epochs is 0"),
        ({"expectile": 1.0}, "expectile is 1.0"),
        ({"head": "transformer"}, "transformer"),
        ({"loss": "hinge"}, "hinge"),
        ({"symmetric": True}, "embedding head has no 'symmetric'"),
        ({"head": "linear", "hidden": 8}, "linear head has no 'hidden'"),
        ({"options": {"depth": 3}}, "depth"),
        ({"options": {"embedding": -1}}, "positive"),
        ({"head": "pair", "symmetric": 1}, "symmetric of Recipe is 1"),
        ({"options": {"scale": 3.0}}, "scale"),
        ({"options": {"latent_dim": 3}}, "latent_dim"),
        ({"head": "own", "options": {"widths": (1, 2)}}, "widths"),
    ],
)
def test_unknown_choices_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ReachcostError, match=message):
        Recipe(**wrong)


def test_a_head_that_died_is_reported(pairs: TemporalPairs) -> None:
    with pytest.warns(ReachcostWarning, match="ranks nothing"):
        fit(pairs, Recipe.paper(hidden=16, scale=1e9, epochs=3, learning_rate=0.3))


@register_head
class OwnHead(LearnedHead):
    """A custom head with an argument of every JSON type."""

    kind = "own"

    def __init__(
        self,
        latent_dim: int,
        scale: float = 10.0,
        *,
        activation: str = "relu",
        widths: list[int] | None = None,
        dropout: dict[str, float] | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__(latent_dim, scale)
        self.activation, self.widths, self.dropout, self.bias = activation, widths, dropout, bias
        layers: list[nn.Module] = []
        for width in widths or []:
            layers += [nn.Linear(latent_dim, width, bias), nn.ReLU() if activation == "relu" else nn.Tanh()]
            latent_dim = width
        self.network = nn.Sequential(*layers, nn.Dropout((dropout or {}).get("share", 0.0)), nn.Linear(latent_dim, 1))

    def compare(self, z: Tensor, goal: Tensor) -> Tensor:
        return self.network((z - goal).abs()).squeeze(-1)


def same_weights(one: LearnedHead, other: LearnedHead) -> bool:
    weights = other.state_dict()
    return all(torch.equal(weight, weights[name]) for name, weight in one.state_dict().items())


def test_a_custom_head_is_trained_saved_and_loaded(pairs: TemporalPairs, tmp_path: Path) -> None:
    torch.manual_seed(0)
    own = OwnHead(10, scale=29, activation="tanh", widths=[16, 8], dropout={"share": 0.1}, bias=False)
    head = fit(pairs, Recipe.paper(epochs=3, batch_size=256, learning_rate=1e-2), head=own)
    untrained = evaluate(own.eval(), pairs.latents, pairs.validation)[0]
    assert head.record["validation_loss"] < 0.5 * untrained
    # Validation uses no dropout, as planning does.
    assert head.record["validation_loss"] == evaluate(head, pairs.latents, pairs.validation)[0]
    save_head(head, tmp_path / "head")
    loaded = load_head(tmp_path / "head")
    assert isinstance(loaded, OwnHead)
    assert (loaded.config, loaded.record) == (own.config, head.record)
    assert same_weights(loaded, head)


def test_training_starts_from_a_copy_of_the_given_head(pairs: TemporalPairs) -> None:
    built = PairHead(10, hidden=16, scale=29)
    before = {name: weight.clone() for name, weight in built.state_dict().items()}
    first, again = (fit(pairs, Recipe(epochs=2), head=built, seed=1) for _ in range(2))
    assert same_weights(first, again)
    assert all(torch.equal(weight, before[name]) for name, weight in built.state_dict().items())
    assert not built.record
    assert first.scale == 29
    further = fit(pairs, Recipe(epochs=1, learning_rate=1e-4), head=first)
    assert further.record["validation_loss"] < first.record["curve"][0]["validation_loss"]
    assert further.record["started_from"] == first.record
    still = fit(pairs, Recipe(epochs=1, learning_rate=1e-30, weight_decay=0), head=first)
    assert same_weights(still, first)


def test_frozen_weights_of_a_given_head_stay(pairs: TemporalPairs) -> None:
    built = PairHead(10, hidden=16, scale=29)
    built.mlp[0].requires_grad_(False)
    trained = fit(pairs, Recipe(epochs=1), head=built).state_dict()
    kept = {name for name, weight in built.state_dict().items() if torch.equal(weight, trained[name])}
    assert kept == {"mlp.0.weight", "mlp.0.bias"}


def test_the_recorded_recipe_of_a_given_head_builds_such_a_head(pairs: TemporalPairs) -> None:
    for built in (OwnHead(10, widths=[4], scale=29), EmbeddingHead(10, embedding=8, hidden=16)):
        recorded = fit(pairs, Recipe(epochs=1), head=built).record["recipe"]
        assert Recipe(**recorded).build(10).config == built.config
        assert Recipe(**recorded).epochs == 1


def test_earlier_training_on_an_evaluation_set_voids_the_proof(latents: Latents, pairs: TemporalPairs) -> None:
    quick, built = Recipe(epochs=1), PairHead(10, hidden=8)
    leaky = fit(TemporalPairs(latents, 500, 100), quick, head=built)
    assert "exclusion" not in fit(pairs, quick, head=leaky).record["pairs"]
    clean = fit(pairs, quick, head=built)
    assert fit(pairs, quick, head=clean).record["pairs"] == pairs.record


class Shapeless(OwnHead):
    def compare(self, z: Tensor, goal: Tensor) -> Tensor:
        return self.network(z - goal)


class Fixed(LearnedHead):
    def compare(self, z: Tensor, goal: Tensor) -> Tensor:
        return (z - goal).norm(dim=-1)


@pytest.mark.parametrize(
    ("head", "recipe", "message"),
    [
        (PairHead(10), Recipe(hidden=32), "hidden"),
        (PairHead(10), Recipe.paper(scale=5), "scale"),
        (PairHead(10), Recipe(options={"embedding": 8}), "options"),
        (PairHead(7), Recipe(), "dimension 7"),
        (nn.Linear(10, 1), Recipe(), "Linear"),
        (Shapeless(10), Recipe(), "Shapeless"),
        (Fixed(10, 1.0), Recipe(), "Fixed"),
    ],
)
def test_recipes_that_contradict_a_given_head_are_refused(
    head: Any, recipe: Recipe, message: str, pairs: TemporalPairs
) -> None:
    with pytest.raises(ReachcostError, match=message):
        fit(pairs, recipe, head=head)


class Unregistered(OwnHead):
    pass


class Reading(OwnHead):
    kind = "reading"

    def __init__(self, latent_dim: int, scale: float = 10.0) -> None:
        super().__init__(latent_dim, scale)
        self.steepness = torch.linspace(0, 1, 5).tolist()


def configured(**config: Any) -> LearnedHead:
    """A head whose `config` holds other arguments than those of its constructor."""
    return type("Configured", (OwnHead,), {"kind": "configured", "config": config})(4)


def changed(change: Callable[[Any], object]) -> LearnedHead:
    head = OwnHead(4, widths=[4, 4])
    change(head)
    return head


FULL = OwnHead(4).config


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Unregistered(4), "register_head"),
        (lambda: configured(latent_dim=4, scale=10.0), "activation"),
        (lambda: configured(**{**FULL, "widths": [3]}), "config"),
        (lambda: changed(lambda head: setattr(head, "offset", torch.ones(3))), "offset"),
        (lambda: changed(lambda head: setattr(head.network[0], "weight", head.network[2].weight)), "weight"),
        (lambda: Reading(4), "meta"),
        (lambda: OwnHead(4, widths=(8,)), "widths"),  # pyright: ignore
        (lambda: OwnHead(4, dropout={"share": np.float32(0)}), "dropout"),  # pyright: ignore
    ],
)
def test_heads_that_cannot_be_loaded_are_not_saved(
    build: Callable[[], LearnedHead], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = build()
    if head.kind != OwnHead.kind:
        monkeypatch.setitem(KINDS, head.kind, type(head))
    with pytest.raises(ReachcostError, match=message):
        save_head(head, tmp_path / "head")
    assert not list(tmp_path.iterdir())


def test_a_kind_that_is_not_registered_here_must_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_head(OwnHead(4), tmp_path / "head")
    monkeypatch.delitem(KINDS, "own")
    with pytest.raises(ReachcostError, match="'own'"):
        load_head(tmp_path / "head")
    with pytest.raises(ReachcostError, match="'own'"):
        Recipe(head="own")


def test_one_kind_is_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "own", OwnHead)
    with pytest.raises(ReachcostError, match="Unregistered"):
        register_head(Unregistered)
    with pytest.raises(ReachcostError, match="Fixed"):
        register_head(Fixed)
    again = type("OwnHead", (OwnHead,), {"__module__": OwnHead.__module__, "__qualname__": "OwnHead"})
    assert register_head(again) is KINDS["own"] is again


def test_a_recipe_reaches_every_argument_of_its_head() -> None:
    assert Recipe(hidden=16, options={"embedding": 8}).build(10).config == EmbeddingHead(10, 8, 16, 10.0).config
    assert Recipe.paper(symmetric=True).build(10).config == PairHead(10, 256, 224.0, symmetric=True).config
    assert Recipe(head="own", options={"widths": [4], "activation": "tanh"}).build(3).config["widths"] == [4]
    assert Recipe().build(10).config == EmbeddingHead(10, embedding=64, hidden=256, scale=10.0).config
    assert Recipe.paper().build(10).config == PairHead(10, hidden=256, scale=224.0, symmetric=False).config
    assert Recipe.paper(head="linear").build(10).config == {"latent_dim": 10, "scale": 224.0}


def test_a_recipe_is_a_value_that_records_can_hold() -> None:
    widths: list[Any] = [4]
    recipe = Recipe(head="own", options={"widths": widths})
    widths.append("wide")
    recipe.arguments["widths"].append("wide")
    assert recipe == Recipe(head="own", options={"widths": [4]}) != Recipe(head="own")
    assert hash(recipe) == hash(Recipe(head="own", options={"widths": [4]}))
    stored = Recipe(**json.loads(json.dumps(asdict(recipe))))
    for again in (stored, copy.deepcopy(recipe), pickle.loads(pickle.dumps(recipe)), replace(recipe)):
        assert again == recipe
        assert again.build(3).config["widths"] == [4]
    assert json.dumps(asdict(recipe)["options"]) == json.dumps(as_json(recipe)["options"]) == '{"widths": [4]}'


def test_a_ranking_records_no_expectile() -> None:
    assert Recipe(loss="ranking").expectile == Recipe(loss="ranking", expectile=0.5).expectile == 0.5
    assert Recipe(**{**asdict(Recipe(loss="ranking")), "expectile": 0.05}) == Recipe(loss="ranking")
    with pytest.raises(ReachcostError, match="expectile"):
        Recipe(loss="ranking", expectile=0.2)


@pytest.mark.parametrize(("scale", "weight"), [(1e308, 0.1), (10.0, 3e38)])
def test_a_head_that_predicts_no_finite_numbers_is_refused(scale: float, weight: float, tmp_path: Path) -> None:
    head = PairHead(latent_dim=4, hidden=8, scale=scale)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.fill_(weight)
    save_head(head, tmp_path / "head")
    with pytest.raises(ReachcostError, match="finite"):
        load_head(tmp_path / "head")
