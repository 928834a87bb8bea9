"""What `rc.heads` offers; each name is imported on first use."""

from .base import LearnedHead as LearnedHead
from .inverse import InverseDynamics as InverseDynamics
from .metrics import EuclideanHead as EuclideanHead
from .metrics import IntervalHead as IntervalHead
from .metrics import ResidualHead as ResidualHead
from .recipe import register_head as register_head
from .regression import BudgetHead as BudgetHead
from .regression import EmbeddingHead as EmbeddingHead
from .regression import PairHead as PairHead
