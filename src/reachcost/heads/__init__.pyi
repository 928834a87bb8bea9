"""What `rc.heads` offers; each name is imported on first use."""

from .base import LearnedHead as LearnedHead
from .budget import BudgetHead as BudgetHead
from .embedding import EmbeddingHead as EmbeddingHead
from .euclidean import EuclideanHead as EuclideanHead
from .inverse import InverseDynamics as InverseDynamics
from .iqe import IntervalHead as IntervalHead
from .kinds import register_head as register_head
from .mrn import ResidualHead as ResidualHead
from .pair import PairHead as PairHead
