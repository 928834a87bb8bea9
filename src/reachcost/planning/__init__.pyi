"""What `rc.planning` offers; each name is imported on first use."""

from .categorical_cem import CategoricalCEM as CategoricalCEM
from .cem import CEM as CEM
from .control import ControlRuns as ControlRuns
from .planner import InversePolicy as InversePolicy
from .planner import PlanContext as PlanContext
from .planner import Planner as Planner
from .planner import RandomPolicy as RandomPolicy
