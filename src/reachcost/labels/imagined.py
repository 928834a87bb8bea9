"""Imagined pairs: shortest paths over trajectories that the frozen world model predicts from logged latents.

The logs need neither times nor an order. Labels are as accurate as the dynamics of the model. See also `graph.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor

from reachcost.core.progress import Progress, as_progress
from reachcost.core.seeding import generator
from reachcost.data.actions import blocks_of, discrete_actions
from reachcost.data.latents import Latents, model_identity, require_latents_of
from reachcost.data.logs import Logs
from reachcost.data.models import history_of, predict_ends, require_model
from reachcost.errors import ReachcostError, require_numbers
from reachcost.labels.exclusion import Exclusion
from reachcost.labels.graph import Graph, TransitionCounts, nearest, sharpness, shortcuts, shortest_times
from reachcost.labels.pairs import require_counts, require_latents
from reachcost.labels.stitched import MAX_PLACES, PLACES, GraphPairs, require_graph
from reachcost.protocols import WorldModel
from reachcost.worldmodels.jepa import JepaWorldModel

GROUP = 2000  # trajectories that are imagined together
TRANSITIONS = 300  # fewest imagined transitions per place
COMPARED_ROWS, COMPARED_PAIRS = 100_000, 20_000  # logged rows, and pairs of their places, to compare times on
MIN_FRAMES = 100  # fewest logged frames to start from: fewer show too little of a world
MAX_HOLES = 0.02  # share of shortcuts beyond twice their share by chance at which labels cannot be trusted


@dataclass(frozen=True)
class Imagination:
    """Settings of imagined trajectories, under actions that persist so that trajectories lead somewhere."""

    trajectories: int = 100_000
    blocks: int = 8  # action blocks (or discrete actions) of a trajectory
    persistence: float = 0.9  # probability that an action is kept from one block to the next
    noise: float = 0.5  # standard deviation of the noise on every action, divided by that of the logged actions

    def __post_init__(self) -> None:
        require_numbers(self)
        if self.trajectories < 2 or self.blocks < 1 or not 0 <= self.persistence <= 1 or self.noise < 0:
            raise ReachcostError(
                f"{self}: give two or more trajectories, one or more blocks, a persistence from 0 to 1 and a noise of "
                "0 or more"
            )

    def groups(
        self, model: WorldModel, starts: Tensor, actions: int | None, seed: int, part: int = 0
    ) -> Iterator[Tensor]:
        """Imagine trajectories from latents [N, D], GROUP at a time -> [n, blocks + 1, D].

        `actions` is the number of discrete actions, None for blocks; `part` numbers separate streams of the same seed.
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
            renewed = rng.random(count) >= (self.persistence if number else 0.0)
            if actions is not None:
                kept[renewed] = rng.integers(actions, size=(renewed.sum(), size))
                yield torch.from_numpy(kept.astype(np.int64))
                continue
            kept[renewed] = rng.normal(size=(renewed.sum(), size))
            block = kept[:, None] + self.noise * rng.normal(size=(count, length, size))
            yield torch.from_numpy(block.reshape(count, -1).astype(np.float32))


def _next(model: WorldModel, path: list[Tensor], taken: list[Tensor]) -> Tensor:
    """The latents [N, D] after a path of latents, under the blocks taken along it and the last one."""
    if history_of(model) == 1 and isinstance(model, JepaWorldModel):
        return model.step(path[-1], taken[-1]).cpu()  # equals a rollout of one block, for many latents at once
    frames = min(len(path), history_of(model))
    context, blocks = torch.stack(path[-frames:], dim=1), torch.stack(taken[-frames:], dim=1)
    return predict_ends(model, context, blocks[:, None])[:, 0].cpu()


class ImaginedPairs(GraphPairs):
    """Pairs of states that a world model imagines, labelled by the shortest time over all imagined transitions.

    If the logs have times, `record["holes"]` is the share of pairs of places whose imagined time is much shorter than
    the logged time. `record["holes_by_chance"]` is that share between all logs and half of them. Arguments not listed
    are as for `TemporalPairs` and `StitchedPairs`.

    Args:
        latents: Latents of the frames to start from; labels do not use their order and times. Source episodes of
            excluded evaluation sets provide neither starts nor logged transitions.
        imagination: Number and length of the trajectories, and their actions.
        places: Number of places; by default one for 300 transitions, at most 6,000.
        least: Fewest occurrences for a transition to count: a single one may be an error through a wall.
        logged: Also count logged transitions of the same length (`mixed` labels).
        keep: Number of imagined latents for pairs.
        holdout: Share of the kept trajectories for validation pairs.
    """

    remedy = "imagine more trajectories, train the world model longer, or use stitched or temporal labels"

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
        logged: bool = False,
        keep: int = 100_000,
        holdout: float = 0.1,
        seed: int = 0,
        progress: Progress | bool | None = None,
    ) -> None:
        require_model(model)
        require_latents(latents)
        require_counts(count, validation, holdout)
        require_graph(places=places, least=least, keep=min(keep, MAX_PLACES))
        require_latents_of(model, latents)
        imagined, progress = imagination or Imagination(), as_progress(progress)
        logs, exclusion = latents.logs, Exclusion(latents.logs, latents.excluded)
        usable = exclusion.require_rows()
        self.frames = len(usable)
        start = generator(seed, "imagined-starts").choice(usable, imagined.trajectories)
        actions, layout = discrete_actions(model, logs), blocks_of(model)
        stride = 1 if layout is None else layout.length

        # The first trajectories provide places and pairs; the others provide the transitions of the graph.
        span = imagined.blocks + 1
        places = places or max(2, min(PLACES, imagined.trajectories * imagined.blocks // TRANSITIONS))
        pilots = min(max(-(-keep // span), -(-places // span)), imagined.trajectories // 2)
        begin, rest = (latents.read(part) for part in (start[:pilots], start[pilots:]))
        known = torch.cat([*imagined.groups(model, begin, actions, seed)])
        flat = known.flatten(0, 1)
        chosen = generator(seed, "places").choice(len(flat), min(places, len(flat)), replace=False)
        centres = flat[torch.from_numpy(np.sort(chosen))].unique(dim=0)
        counted = TransitionCounts(len(centres))
        groups = imagined.groups(model, rest, actions, seed, part=1)
        for _, group in zip(progress.track(range(-(-len(rest) // GROUP)), "imagined"), groups, strict=True):
            place = nearest(group.flatten(0, 1), centres).reshape(group.shape[:2])
            counted.add(place[:, :-1].ravel(), place[:, 1:].ravel())
        transitions = _logged_transitions(latents, usable, centres, stride, seed, every=logged)
        if logged:
            counted.add(*transitions[:2], times=least)
        graph = Graph(centres, counted, stride, least, directed)

        trajectories = Logs({"start": np.repeat(start[:pilots], span)}, np.full(pilots, span))
        held_out = max(1, round(holdout * pilots)) if holdout else 0
        rows = np.arange(len(flat))
        training, validated = (rows[: -held_out * span], rows[-held_out * span :]) if held_out else (rows, rows)
        record = {"labels": "mixed" if logged else "imagined", **asdict(imagined), "holdout": holdout}
        record |= {"held_out_episodes": held_out, **_holes(graph, *transitions, seed)}
        record |= {"sharpness": round(sharpness(known[:, 0], known[:, 1], centres), 3), "seed": seed}
        super().__init__(
            Latents(flat, trajectories, model_identity(model)),
            graph,
            nearest(flat, centres),
            training,
            validated,
            count,
            validation,
            Exclusion(trajectories, None),
            record,
        )
        self.record["logs_sha256"] = logs.fingerprint
        if exclusion.sets:
            self.record["exclusion"] = exclusion.prove(start, start)

    def problems(self) -> list[str]:
        """Failed validity checks of these labels, among them a world model that seems to walk through walls."""
        found, holes, by_chance = super().problems(), self.record["holes"], self.record["holes_by_chance"]
        if self.frames < MIN_FRAMES:
            found.append(f"imagination starts from {self.frames} frames, fewer than {MIN_FRAMES}")
        if holes is not None and holes > 2 * by_chance + MAX_HOLES:
            found.append(
                f"{100 * holes:.1f} % of the imagined paths are much shorter than logged ones (by chance "
                f"{100 * by_chance:.1f} %), so that the world model seems to walk through walls"
            )
        return found


def _logged_transitions(
    latents: Latents, usable: np.ndarray, places: Tensor, stride: int, seed: int, every: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logged transitions of `stride` steps between places: place before [M] and after [M], and episode [M].

    All transitions from usable rows, or those of enough episodes for a comparison.
    """
    logs = latents.logs
    starts = np.intersect1d(logs.window_starts(stride + 1), usable)
    if not every:
        episodes = generator(seed, "compared").permutation(np.unique(logs.episode_of(starts)))
        enough = episodes[: np.searchsorted(np.cumsum(logs.lengths[episodes]), COMPARED_ROWS) + 1]
        starts = starts[np.isin(logs.episode_of(starts), enough)]
    rows = np.union1d(starts, starts + stride)
    place = nearest(latents.values, places, rows)
    before, after = (place[np.searchsorted(rows, ends)] for ends in (starts, starts + stride))
    return before, after, logs.episode_of(starts)


def _holes(
    graph: Graph, before: np.ndarray, after: np.ndarray, episodes: np.ndarray, seed: int
) -> dict[str, float | None]:
    """Share of imagined shortcuts, and the share in all logs compared with half of them; None without logs."""
    if not len(before):
        return {"holes": None, "holes_by_chance": None}
    rng = generator(seed, "compared-ways")
    first, second = rng.choice(np.unique(before), (2, COMPARED_PAIRS))
    half = np.isin(episodes, rng.permutation(np.unique(episodes))[::2])

    def times(some: np.ndarray | slice) -> np.ndarray:
        counted = TransitionCounts(len(graph.places))
        counted.add(before[some], after[some])
        stride, directed = graph.record["stride"], graph.record["directed"]
        return shortest_times(counted.edges(), len(graph.places), stride, directed)[first, second]

    logged, fewer = times(slice(None)), times(half)
    holes = shortcuts(graph.times[first, second], logged)
    return {"holes": round(holes, 4), "holes_by_chance": round(shortcuts(logged, fewer), 4)}
