"""Imagined pairs: the frozen world model goes on from logged latents, and what it reaches is stitched (see `graph.py`).

No time is needed of the logs, not even an order: labels are those of the model's own dynamics, and right where it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor

from reachcost.base.progress import Progress, as_progress
from reachcost.base.seeding import generator
from reachcost.base.types import require_numbers
from reachcost.data.actions import blocks_of
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.fingerprint import name_of
from reachcost.data.latents import Latents, model_identity
from reachcost.data.logs import Logs
from reachcost.data.rollouts import ends_of, history_of, require_model
from reachcost.errors import ReachcostError
from reachcost.fitting.graph import Graph, TransitionCounts, nearest, sharpness
from reachcost.fitting.pairs import exclude_from, require_counts, require_latents
from reachcost.fitting.stitched import MOST, PLACES, GraphPairs, require_graph
from reachcost.protocols import WorldModel

GROUP = 2000
"""Trajectories that are imagined together."""
TRANSITIONS = 100
"""Imagined transitions a place, with fewer of which there are fewer places."""


@dataclass(frozen=True)
class Imagination:
    """Trajectories of a world model under actions that persist: they move rather than shake.

    >>> Imagination(trajectories=20_000).blocks
    8
    """

    trajectories: int = 100_000
    """How many."""
    blocks: int = 8
    """Action blocks (discrete actions) of each."""
    persistence: float = 0.9
    """Probability that an action is kept from one block to the next."""
    noise: float = 0.5
    """Deviation of what is added to every single action, in deviations of the logged ones."""

    def __post_init__(self) -> None:
        require_numbers(self)
        if self.trajectories < 2 or self.blocks < 1 or not 0 <= self.persistence <= 1 or self.noise < 0:
            raise ReachcostError(
                f"{self}: imagine two or more trajectories of one or more blocks, with a persistence from 0 to 1 and a "
                "noise of 0 or more"
            )

    def groups(
        self, model: WorldModel, starts: Tensor, actions: int | None, seed: int, part: int = 0
    ) -> Iterator[Tensor]:
        """Imagine trajectories from latents [N, D], GROUP at a time -> [n, blocks + 1, D].

        Args:
            model: Foresees; one with a `history` is given as many past latents as there are.
            starts: Where trajectories begin, one for each.
            actions: Number of discrete actions, if actions are discrete.
            seed: Of the actions.
            part: Other actions of the same seed.
        """
        for number, group in enumerate(starts.split(GROUP)):
            rng = generator(seed, "imagined-actions", part, number)
            path, taken = [group], list[Tensor]()
            for block in self._blocks(model, len(group), actions, rng):
                taken.append(block)
                path.append(_next(model, path, taken))
            yield torch.stack(path, dim=1)

    def _blocks(self, model: WorldModel, count: int, actions: int | None, rng: np.random.Generator) -> Iterator[Tensor]:
        """Action blocks [count, A], one after the other."""
        layout = blocks_of(model)
        length, size = (1, model.action_dim) if layout is None else (layout.length, len(layout.mean))
        kept = np.empty((count, size))
        for number in range(self.blocks):
            anew = rng.random(count) >= (self.persistence if number else 0.0)
            if actions is not None:
                kept[anew] = rng.integers(actions, size=(anew.sum(), size))
                yield torch.from_numpy(kept.astype(np.int64))
                continue
            kept[anew] = rng.normal(size=(anew.sum(), size))
            block = kept[:, None] + self.noise * rng.normal(size=(count, length, size))
            yield torch.from_numpy(block.reshape(count, -1).astype(np.float32))


def _next(model: WorldModel, path: list[Tensor], taken: list[Tensor]) -> Tensor:
    """The latents [N, D] after a path of them, under the blocks taken between them and the last one."""
    if history_of(model) == 1 and hasattr(model, "step"):
        return model.step(path[-1], taken[-1])  # pyright: ignore[reportAttributeAccessIssue]
    frames = min(len(path), history_of(model))
    context, blocks = torch.stack(path[-frames:], dim=1), torch.stack(taken[-frames:], dim=1)
    return ends_of(model, context, blocks[:, None])[:, 0]


class ImaginedPairs(GraphPairs):
    """Pairs of states that a world model imagines, labelled by the shortest time over all it imagined.

    Args:
        model: The frozen world model.
        latents: Its latents of frames to begin from; their order and times are not used.
        count: Number of training pairs.
        validation: Number of validation pairs.
        imagination: How much is imagined, and under which actions.
        places: Imagined latents that stand for all others; by default one for 100 transitions, at most 6,000.
        least: How often a transition must be imagined to count: what happens once may be a slip through a wall.
        directed: Keep times there and back apart; by default the shorter one holds for both.
        keep: Imagined latents that pairs are of.
        exclude: Evaluation sets whose episodes no trajectory begins in.
        holdout: Share of the trajectories that are not in the graph; validation pairs are of their latents.
        seed: Seed of starts, actions, places and pairs.
        progress: True shows how far it is.
    """

    remedy = "imagine more trajectories, or ask for fewer places= or a smaller least="

    def __init__(
        self,
        model: WorldModel,
        latents: Latents,
        count: int = 100_000,
        validation: int = 10_000,
        imagination: Imagination | None = None,
        places: int | None = None,
        least: int = 2,
        directed: bool = False,
        keep: int = 100_000,
        exclude: EvaluationSet | Sequence[EvaluationSet] | None = None,
        holdout: float = 0.1,
        seed: int = 0,
        progress: Progress | bool | None = None,
    ) -> None:
        require_model(model)
        require_latents(latents)
        require_counts(count, validation, holdout)
        require_graph(places=places, least=least, keep=min(keep, MOST))
        _require_same(model, latents)
        imagined, progress = imagination or Imagination(), as_progress(progress)
        logs, exclusion = latents.logs, exclude_from(latents.logs, exclude)
        allowed = np.flatnonzero(~np.isin(logs.episode_of(np.arange(logs.rows)), exclusion.episodes))
        if not len(allowed):
            raise ReachcostError("no row is left to begin from: log more episodes, or exclude less")
        start = generator(seed, "imagined-starts").choice(allowed, imagined.trajectories)
        actions = _discrete_actions(model, logs)

        # The first trajectories tell where places are, and are what pairs are of; the graph is of all others.
        span = imagined.blocks + 1
        places = places or max(2, min(PLACES, imagined.trajectories * imagined.blocks // TRANSITIONS))
        pilots = min(max(-(-keep // span), -(-places // span)), imagined.trajectories // 2)
        values = latents.values[torch.from_numpy(start)]
        known = torch.cat([*imagined.groups(model, values[:pilots], actions, seed)])
        flat = known.flatten(0, 1)
        chosen = generator(seed, "places").choice(len(flat), min(places, len(flat)), replace=False)
        centres = flat[torch.from_numpy(np.sort(chosen))].unique(dim=0)
        counted = TransitionCounts(len(centres))
        ahead = imagined.groups(model, values[pilots:], actions, seed, part=1)
        todo = range(-(-(imagined.trajectories - pilots) // GROUP))
        for _, paths in zip(progress.track(todo, "imagined"), ahead, strict=True):
            place = nearest(paths.flatten(0, 1), centres).reshape(-1, span)
            counted.add(place[:, :-1].ravel(), place[:, 1:].ravel())
        layout = blocks_of(model)
        stride = 1 if layout is None else layout.length
        trajectories = Logs({"start": np.repeat(start[:pilots], span)}, np.full(pilots, span))
        held_out = max(1, round(holdout * pilots)) if holdout else 0
        rows = np.arange(len(flat))
        training, judging = (rows[: -held_out * span], rows[-held_out * span :]) if held_out else (rows, rows)
        record = {"labels": "imagined", **asdict(imagined), "holdout": holdout, "held_out_episodes": held_out}
        record |= {"sharpness": round(sharpness(known[:, 0], known[:, 1], centres), 3), "seed": seed}
        super().__init__(
            Latents(flat, trajectories, model_identity(model)),
            Graph.of(centres, counted, stride, least, directed),
            nearest(flat, centres),
            training,
            judging,
            count,
            validation,
            exclude_from(trajectories, None),
            record,
        )
        self.record["logs_sha256"] = logs.fingerprint
        if exclusion.sets:
            self.record["exclusion"] = exclusion.prove(start, start)


def _require_same(model: WorldModel, latents: Latents) -> None:
    """Refuse latents of another world model."""
    known, given = latents.model.get("sha256"), model_identity(model).get("sha256")
    if latents.values.shape[1] != model.latent_dim or (known and given and known != given):
        raise ReachcostError(
            f"the latents are not of {name_of(model)}: encode the logs with it, encode_logs(model, logs)"
        )


def _discrete_actions(model: WorldModel, logs: Logs) -> int | None:
    """How many discrete actions there are, as the logs know them; None where actions are continuous."""
    if blocks_of(model) is not None:
        return None
    logged = logs.columns.get("action")
    if logged is None or np.asarray(logged).dtype.kind not in "iub":
        raise ReachcostError(
            "the world model has no action blocks and the logs hold no whole-numbered actions, so nothing says which "
            "actions to imagine: call reachcost.with_actions(model, logs, length)"
        )
    return int(np.max(logged)) + 1
