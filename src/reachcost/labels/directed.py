"""Pairs in the order of time: who learns from them may find that the way back is longer."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch

from reachcost.labels.pairs import Pairs, PairSet

AnyPairs = TypeVar("AnyPairs", bound=Pairs)


def directed(pairs: AnyPairs) -> AnyPairs:
    """The same temporal pairs, the earlier row first: gaps are then from a state to a goal, and not back.

    >>> from reachcost import encode_logs, make_task
    >>> from reachcost.labels import TemporalPairs
    >>> from reachcost.tasks import ExactTopoNav
    >>> latents = encode_logs(ExactTopoNav(), make_task("toponav").generate_logs(50))
    >>> train = directed(TemporalPairs(latents, count=1000, validation=100)).train
    >>> bool((train.first < train.second).all())
    True
    """
    ordered, draw = copy.copy(pairs), pairs._draw
    ordered.train, ordered.validation = in_order(pairs.train), in_order(pairs.validation)
    ordered._draw = lambda epoch: in_order(draw(epoch))
    ordered.record = {**pairs.record, "directed": True}
    return ordered


def in_order(pairs: PairSet) -> PairSet:
    """Rows of one episode, the earlier one first."""
    return PairSet(torch.minimum(pairs.first, pairs.second), torch.maximum(pairs.first, pairs.second), pairs.gap)
