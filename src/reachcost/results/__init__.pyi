"""What `rc.results` offers; each name is imported on first use."""

from .ranking import Ranking as Ranking
from .ranking import compare_rankings as compare_rankings
