"""Temporal pairs in the order of time: the way there says nothing about the way back."""

from __future__ import annotations

from typing import Any

import torch

from reachcost.fitting.pairs import PairSet
from reachcost.fitting.temporal import TemporalPairs


class DirectedPairs(TemporalPairs):
    """`TemporalPairs` from earlier to later rows alone: a head that is not symmetric learns directions from them.

    >>> from reachcost import ExactTopoNav, encode_logs, make_task
    >>> latents = encode_logs(ExactTopoNav(), make_task("toponav").generate_logs(50))
    >>> pairs = DirectedPairs(latents, count=1000, validation=100)
    >>> bool((pairs.train.first < pairs.train.second).all())
    True
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        draw = self._draw
        self._draw = lambda epoch: in_order(draw(epoch))
        self.train, self.validation = in_order(self.train), in_order(self.validation)
        self.record["directed"] = True


def in_order(pairs: PairSet) -> PairSet:
    """The same pairs, each from its earlier to its later row."""
    return PairSet(torch.minimum(pairs.first, pairs.second), torch.maximum(pairs.first, pairs.second), pairs.gap)
