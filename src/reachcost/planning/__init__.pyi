"""What `rc.planning` offers; each name is imported on first use."""

from .effort import ActionCost as ActionCost
from .effort import cost_per_action as cost_per_action
from .inverse import InversePolicy as InversePolicy
from .random_policy import RandomPolicy as RandomPolicy
from .tabular import tabulate as tabulate
