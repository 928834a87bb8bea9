"""Imagined pairs: the frozen world model goes on from logged latents, and what it reaches is stitched (see `graph.py`).

No time is needed of the logs, not even an order: labels are those of the model's own dynamics, and right where it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor

from reachcost.core.arrays import row_reader
from reachcost.core.progress import Progress, Rate, as_progress
from reachcost.core.seeding import generator
from reachcost.data.actions import blocks_of, discrete_actions
from reachcost.data.evaluation import EvaluationSet
from reachcost.data.latents import Latents, model_identity, require_latents_of
from reachcost.data.logs import Logs
from reachcost.data.models import history_of, predict_ends, require_model
from reachcost.errors import ReachcostError, require_numbers
from reachcost.labels.graph import Graph, TransitionCounts, nearest, sharpness, shortest_times
from reachcost.labels.pairs import exclude_from, require_counts, require_latents
from reachcost.labels.premises import shortcuts
from reachcost.labels.stitched import MOST, PLACES, GraphPairs, require_graph
from reachcost.protocols import WorldModel
from reachcost.worldmodels.jepa import JepaWorldModel

GROUP = 2000
"""Trajectories that are imagined together."""
TRANSITIONS = 300
"""Imagined transitions a place, with fewer of which there are fewer places."""
COMPARED, WAYS = 100_000, 20_000
"""Logged rows, and ways between their places, that imagination is compared with."""
FRAMES = 100
"""Frames to begin from, with fewer of which little of a world is seen."""
HOLES = 0.02
"""Shortcuts from which a world model is warned of, beyond twice as many as logs have that are twice as many."""


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
    if history_of(model) == 1 and isinstance(model, JepaWorldModel):
        return model.step(path[-1], taken[-1]).cpu()  # the same as a rollout of one block, for many latents at once
    frames = min(len(path), history_of(model))
    context, blocks = torch.stack(path[-frames:], dim=1), torch.stack(taken[-frames:], dim=1)
    return predict_ends(model, context, blocks[:, None])[:, 0].cpu()


class ImaginedPairs(GraphPairs):
    """Pairs of states that a world model imagines, labelled by the shortest time over all it imagined.

    Where logs have times, those between places that both know are compared: `record["holes"]` is the share of ways that
    imagination makes much shorter than logs do, beside what is by chance.

    Args:
        model: The frozen world model.
        latents: Its latents of frames to begin from; their order and times are not used for labels.
        count: Number of training pairs.
        validation: Number of validation pairs.
        imagination: How much is imagined, and under which actions.
        places: Imagined latents that stand for all others; by default one for 300 transitions, at most 6,000.
        least: How often a transition must be imagined to count: what happens once may be a slip through a wall.
        directed: Keep times there and back apart; by default the shorter one holds for both.
        logged: Logged transitions of the same length count, too: the mixture of stitched and imagined labels.
        keep: Imagined latents that pairs are of.
        exclude: Evaluation sets whose episodes no trajectory begins in, and no logged transition is of.
        holdout: Share of the trajectories that are not in the graph; validation pairs are of their latents.
        seed: Seed of starts, actions, places and pairs.
        progress: True shows how far it is.
    """

    remedy = "imagine more trajectories, train the world model longer, or take stitched or temporal labels"

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
        exclude: EvaluationSet | Sequence[EvaluationSet] | None = None,
        holdout: float = 0.1,
        seed: int = 0,
        progress: Progress | bool | None = None,
    ) -> None:
        require_model(model)
        require_latents(latents)
        require_counts(count, validation, holdout)
        require_graph(places=places, least=least, keep=min(keep, MOST))
        require_latents_of(model, latents)
        imagined, progress = imagination or Imagination(), as_progress(progress)
        logs, exclusion = latents.logs, exclude_from(latents.logs, exclude)
        allowed = ~logs.in_episodes(exclusion.episodes)
        if not allowed.any():
            raise ReachcostError("no row is left to begin from: log more episodes, or exclude less")
        self.frames = int(allowed.sum())
        start = generator(seed, "imagined-starts").choice(np.flatnonzero(allowed), imagined.trajectories)
        actions, layout = discrete_actions(model, logs), blocks_of(model)
        stride = 1 if layout is None else layout.length

        # The first trajectories tell where places are, and are what pairs are of; the graph is of all others.
        span = imagined.blocks + 1
        places = places or max(2, min(PLACES, imagined.trajectories * imagined.blocks // TRANSITIONS))
        pilots = min(max(-(-keep // span), -(-places // span)), imagined.trajectories // 2)
        begin, rest = (row_reader(latents.values)(torch.from_numpy(part)) for part in (start[:pilots], start[pilots:]))
        known = torch.cat([*imagined.groups(model, begin, actions, seed)])
        flat = known.flatten(0, 1)
        chosen = generator(seed, "places").choice(len(flat), min(places, len(flat)), replace=False)
        centres = flat[torch.from_numpy(np.sort(chosen))].unique(dim=0)
        counted = _counted(imagined.groups(model, rest, actions, seed, part=1), centres, len(rest), progress)
        logged_way = _Logged.of(latents, allowed, centres, stride, seed, every=logged)
        if logged:
            counted.add(*logged_way.transitions, times=least)
        graph = Graph.of(centres, counted, stride, least, directed, progress)

        trajectories = Logs({"start": np.repeat(start[:pilots], span)}, np.full(pilots, span))
        held_out = max(1, round(holdout * pilots)) if holdout else 0
        rows = np.arange(len(flat))
        training, judging = (rows[: -held_out * span], rows[-held_out * span :]) if held_out else (rows, rows)
        record = {"labels": "mixed" if logged else "imagined", **asdict(imagined), "holdout": holdout}
        record |= {"held_out_episodes": held_out, **logged_way.compared(graph, seed)}
        record |= {"sharpness": round(sharpness(known[:, 0], known[:, 1], centres), 3), "seed": seed}
        super().__init__(
            Latents(flat, trajectories, model_identity(model)),
            graph,
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

    def doubts(self) -> list[str]:
        """What speaks against these labels: also a world model that seems to walk through walls."""
        found, told = super().doubts(), self.record
        if self.frames < FRAMES:
            found.append(f"imagination begins from {self.frames} frames, fewer than {FRAMES}")
        if told["holes"] is not None and told["holes"] > 2 * told["holes_by_chance"] + HOLES:
            found.append(
                f"{100 * told['holes']:.1f} % of the imagined ways are much shorter than logged ones (by chance "
                f"{100 * told['holes_by_chance']:.1f} %), so that the world model seems to walk through walls"
            )
        return found


def _counted(paths: Iterator[Tensor], places: Tensor, trajectories: int, progress: Progress) -> TransitionCounts:
    """Count the transitions of imagined trajectories [n, blocks + 1, D], a group at a time."""
    counted, rate = TransitionCounts(len(places)), Rate(progress, "states")
    for _, group in zip(progress.track(range(-(-trajectories // GROUP)), "imagined"), paths, strict=True):
        place = nearest(group.flatten(0, 1), places).reshape(group.shape[:2])
        counted.add(place[:, :-1].ravel(), place[:, 1:].ravel())
        rate.add(place.size)
    return counted


@dataclass(frozen=True)
class _Logged:
    """Logged transitions between places of imagination, as long as those of the model.

    Attributes:
        transitions: Places before and after [M], [M].
        episodes: The episode of each [M].
    """

    transitions: tuple[np.ndarray, np.ndarray]
    episodes: np.ndarray

    @classmethod
    def of(cls, latents: Latents, allowed: np.ndarray, places: Tensor, stride: int, seed: int, every: bool) -> _Logged:
        """Those of some rows, bool [R]: every one, or those of enough episodes to compare with."""
        logs = latents.logs
        starts = logs.window_starts(stride + 1)
        starts = starts[allowed[starts]]
        if not every:
            episodes = generator(seed, "compared").permutation(np.unique(logs.episode_of(starts)))
            enough = episodes[: np.searchsorted(np.cumsum(logs.lengths[episodes]), COMPARED) + 1]
            starts = starts[np.isin(logs.episode_of(starts), enough)]
        rows = np.union1d(starts, starts + stride)
        place = nearest(latents.values, places, rows)
        before, after = (place[np.searchsorted(rows, ends)] for ends in (starts, starts + stride))
        return cls((before, after), logs.episode_of(starts))

    def compared(self, graph: Graph, seed: int) -> dict[str, float | None]:
        """How many imagined ways are shortcuts, and how many of all logs are where half of them are all."""
        before = self.transitions[0]
        if not len(before):
            return {"holes": None, "holes_by_chance": None}
        visited, rng = np.unique(before), generator(seed, "compared-ways")
        first, second = rng.choice(visited, (2, WAYS))
        half = np.isin(self.episodes, rng.permutation(np.unique(self.episodes))[::2])
        logged, fewer = (self._times(graph, some)[first, second] for some in (np.ones_like(half), half))
        holes = shortcuts(graph.times[first, second], logged)
        return {"holes": round(holes, 4), "holes_by_chance": round(shortcuts(logged, fewer), 4)}

    def _times(self, graph: Graph, some: np.ndarray) -> np.ndarray:
        before, after = self.transitions
        counted = TransitionCounts(len(graph.places))
        counted.add(before[some], after[some])
        return shortest_times(counted.edges(), len(graph.places), graph.record["stride"], graph.record["directed"])
