"""What `rc.planning` offers; each name is imported on first use."""

from .measurements import ActionCost as ActionCost
from .measurements import cost_per_action as cost_per_action
from .planner import InversePolicy as InversePolicy
from .planner import RandomPolicy as RandomPolicy
