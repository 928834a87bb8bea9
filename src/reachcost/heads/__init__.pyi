"""What `rc.heads` offers; each name is imported on first use."""

from .base import LearnedHead as LearnedHead
from .inverse import InverseDynamics as InverseDynamics
from .kinds import BudgetHead as BudgetHead
from .kinds import EmbeddingHead as EmbeddingHead
from .kinds import EuclideanHead as EuclideanHead
from .kinds import IntervalHead as IntervalHead
from .kinds import PairHead as PairHead
from .kinds import ResidualHead as ResidualHead
from .recipe import Recipe as Recipe
from .recipe import register_head as register_head
from .storage import load_head as load_head
from .storage import save_head as save_head
