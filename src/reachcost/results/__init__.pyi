"""What `rc.results` offers; each name is imported on first use."""

from .stats import Ranking as Ranking
from .stats import compare_rankings as compare_rankings
