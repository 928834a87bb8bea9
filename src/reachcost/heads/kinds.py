"""The heads by name, as recipes and files call them."""

from __future__ import annotations

from reachcost.heads.base import LearnedHead
from reachcost.heads.embedding import EmbeddingHead
from reachcost.heads.pair import PairHead
from reachcost.heads.weighted import LinearHead, MahalanobisHead

KINDS: dict[str, type[LearnedHead]] = {
    head.kind: head for head in (PairHead, EmbeddingHead, LinearHead, MahalanobisHead)
}
