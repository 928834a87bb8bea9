"""Heads: shapes, symmetry, training, and what is on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from reachcost.base.modules import _checksum
from reachcost.data.latents import Latents
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, ReachcostWarning
from reachcost.heads.kinds import KINDS
from reachcost.heads.pair import PairHead
from reachcost.heads.storage import load_head, save_head
from reachcost.protocols import Head
from reachcost.repair.fitting import Recipe, evaluate, fit
from reachcost.repair.pairs import PairSet
from reachcost.repair.temporal import TemporalPairs

QUICK = Recipe.paper(hidden=16, scale=29, epochs=3, batch_size=256)


@given(st.lists(st.integers(1, 4), max_size=3), st.booleans())
def test_heads_broadcast_and_are_never_negative(shape: list[int], symmetric: bool) -> None:
    head = PairHead(latent_dim=5, hidden=8, symmetric=symmetric)
    values = head(torch.randn(*shape, 3, 5), torch.randn(5))
    assert values.shape == (*shape, 3)
    assert (values >= 0).all()


def test_features_are_both_latents_difference_and_absolute_difference() -> None:
    head = PairHead(latent_dim=2, hidden=8)
    seen = []
    head.mlp.register_forward_hook(lambda _module, inputs, _output: seen.append(inputs[0]))
    head(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 1.0]))
    assert seen[0].tolist() == [1, 2, 3, 1, -2, 1, 2, 1]


def test_symmetrised_head_is_the_mean_of_both_orders(head: PairHead) -> None:
    z, goal = torch.randn(2, 50, 10, generator=torch.Generator().manual_seed(0))
    both = head.symmetrised()
    torch.testing.assert_close(both(z, goal), (head(z, goal) + head(goal, z)) / 2)
    assert torch.equal(both(z, goal), both(goal, z))
    assert not head.symmetric


def test_another_latent_dimension_is_refused(head: PairHead) -> None:
    assert isinstance(head, Head)
    with pytest.raises(ReachcostError, match="trained on latents of dimension 10 but z has 192"):
        head(torch.zeros(3, 192), torch.zeros(10))


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
    for name, weight in one.state_dict().items():
        assert torch.equal(weight, same.state_dict()[name])
    assert not torch.equal(one.state_dict()["mlp.0.weight"], other.state_dict()["mlp.0.weight"])


def test_impossible_recipes_are_refused() -> None:
    with pytest.raises(ReachcostError, match="recipe: epochs is 0: make it positive"):
        Recipe(epochs=0)


def test_divergence_is_reported(pairs: TemporalPairs) -> None:
    with pytest.raises(ReachcostError, match="lower the learning rate"):
        fit(pairs, Recipe.paper(hidden=16, scale=29, epochs=2, learning_rate=1e30))


def test_a_saved_head_comes_back_bit_for_bit(head: PairHead, tmp_path: Path) -> None:
    save_head(head, tmp_path / "head")
    loaded = load_head(tmp_path / "head")
    assert loaded.config == head.config
    assert loaded.record == head.record
    for name, weight in head.state_dict().items():
        assert torch.equal(weight, loaded.state_dict()[name])
    assert sorted(path.name for path in (tmp_path / "head").iterdir()) == ["config.json", "weights.safetensors"]


def test_saving_never_overwrites(head: PairHead, tmp_path: Path) -> None:
    save_head(head, tmp_path / "head")
    with pytest.raises(ReachcostError, match="exists already"):
        save_head(head, tmp_path / "head")


@given(cut=st.integers(0, 10_000))
def test_a_truncated_head_is_refused(cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("heads") / "head"
    save_head(PairHead(4, hidden=8), directory)
    weights = directory / "weights.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(data[: cut % len(data)])
    with pytest.raises(ReachcostError, match=r"cannot load the head in .*do not belong together \(truncated"):
        load_head(directory)


def edit_config(directory: Path, **changes: object) -> None:
    config = json.loads((directory / "config.json").read_text())
    config.update(changes)
    (directory / "config.json").write_text(json.dumps(config))


def test_other_damage_is_named(head: PairHead, tmp_path: Path) -> None:
    with pytest.raises(ReachcostError, match=r"there is no head at .*nothing: make one with reachcost fit"):
        load_head(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReachcostError, match=r"config.json cannot be read \(No such file"):
        load_head(tmp_path / "empty")
    cases = {
        "format": ({"format": "other"}, "of format 'other', not"),
        "arguments": ({"arguments": {"latent_dim": "ten"}}, "valid `arguments`"),
        "scale": ({"arguments": {**head.config, "scale": -5}}, "valid `arguments`"),
        "symmetric": ({"arguments": {**head.config, "symmetric": True}}, "do not belong together"),
    }
    for name, (change, message) in cases.items():
        save_head(head, tmp_path / name)
        edit_config(tmp_path / name, **change)
        with pytest.raises(ReachcostError, match=message):
            load_head(tmp_path / name)
    save_head(head, tmp_path / "json")
    (tmp_path / "json" / "config.json").write_text("{")
    with pytest.raises(ReachcostError, match="not valid JSON"):
        load_head(tmp_path / "json")


def test_a_config_that_asks_for_other_weights_allocates_nothing(head: PairHead, tmp_path: Path) -> None:
    save_head(head, tmp_path / "head")
    arguments = {**head.config, "hidden": 10**9}
    weights = (tmp_path / "head" / "weights.safetensors").read_bytes()
    edit_config(tmp_path / "head", arguments=arguments, sha256="")
    config = json.loads((tmp_path / "head" / "config.json").read_text())
    edit_config(tmp_path / "head", sha256=_checksum(config, weights))
    with pytest.raises(ReachcostError, match=r"weight 'mlp.0.bias' is .*, its config asks for"):
        load_head(tmp_path / "head")


def test_non_finite_weights_are_refused(tmp_path: Path) -> None:
    broken = PairHead(4, hidden=8)
    broken.state_dict()["mlp.0.weight"][0, 0] = torch.inf
    save_head(broken, tmp_path / "head")
    with pytest.raises(ReachcostError, match=r"weight 'mlp.0.weight' is not finite"):
        load_head(tmp_path / "head")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_broadcasts_learns_and_comes_back(kind: str, pairs: TemporalPairs, tmp_path: Path) -> None:
    recipe = Recipe.paper(head=kind, hidden=32, scale=29, epochs=3, batch_size=256, learning_rate=1e-2)
    head = fit(pairs, recipe, seed=1)
    untrained = evaluate(recipe.build(10), pairs.latents, pairs.validation)[0]
    assert head.kind == kind
    assert head.record["validation_loss"] < 0.9 * untrained
    assert head(torch.zeros(3, 5, 10), torch.ones(10)).shape == (3, 5)
    save_head(head, tmp_path / kind)
    loaded = load_head(tmp_path / kind)
    assert type(loaded) is type(head)
    z, goal = torch.randn(7, 10), torch.randn(7, 10)
    assert torch.equal(loaded(z, goal), head(z, goal))
    with pytest.raises(ReachcostError, match="trained on latents of dimension 10"):
        head(torch.zeros(2, 3), torch.zeros(3))


def test_heads_without_an_order_are_symmetric() -> None:
    z, goal = torch.randn(50, 10), torch.randn(50, 10)
    for kind in ("embedding", "linear", "mahalanobis"):
        head = Recipe(head=kind).build(10)
        assert torch.equal(head(z, goal), head(goal, z))


def noisy_pairs() -> TemporalPairs:
    """Two states, 3 or 30 steps apart with equal chance."""
    lengths = np.tile([4, 31], 200)
    state = np.concatenate([np.r_[[0], np.full(length - 2, 5), [1]] for length in lengths])[:, None]
    latents = Latents(torch.from_numpy(state).float(), Logs({"state": state}, lengths))
    return TemporalPairs(latents, count=2000, validation=500, sampling="mostly-endpoints", seed=1)


@pytest.mark.parametrize(("expectile", "low", "high"), [(0.5, 12, 21), (0.05, 1, 9), (0.95, 24, 32)])
def test_an_expectile_leans_to_short_or_long_times(expectile: float, low: float, high: float) -> None:
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
    """Remembers which epochs were drawn."""

    drawn: tuple[int, ...] = ()

    def epoch(self, number: int) -> PairSet:
        self.drawn = (*self.drawn, number)
        return super().epoch(number)


@pytest.mark.parametrize(("fresh", "drawn"), [(True, (1, 2)), (False, ())])
def test_fresh_pairs_are_drawn_for_every_epoch_after_the_first(
    latents: Latents, fresh: bool, drawn: tuple[int, ...]
) -> None:
    pairs = Watched(latents, count=200, validation=20)
    fit(pairs, Recipe(hidden=8, epochs=3, fresh=fresh))
    assert pairs.drawn == drawn


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"expectile": 1.0}, "expectile is 1.0: choose one between 0 and 1"),
        ({"head": "transformer"}, "unknown head 'transformer': choose one of pair, embedding"),
        ({"loss": "hinge"}, "unknown loss 'hinge'"),
    ],
)
def test_unknown_choices_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ReachcostError, match=message):
        Recipe(**wrong)


def test_a_head_that_died_is_reported(pairs: TemporalPairs) -> None:
    with pytest.warns(ReachcostWarning, match="for every pair, so it ranks nothing: train it with another seed"):
        fit(pairs, Recipe.paper(hidden=16, scale=1e9, epochs=3, learning_rate=0.3))
