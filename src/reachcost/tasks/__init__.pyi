"""What `rc.tasks` offers; each name is imported on first use."""

from .check import check_task as check_task
from .contract import Handle as Handle
from .contract import Plane as Plane
from .contract import PublicEnvironment as PublicEnvironment
from .contract import Task as Task
from .exact import ExactDynamics as ExactDynamics
from .gym import GymTask as GymTask
from .registry import make_task as make_task
from .registry import register_task as register_task
from .toponav.features import ExactTopoNav as ExactTopoNav
from .toponav.task import TopoNav as TopoNav
from .tworoom import Layout as Layout
from .tworoom import TwoRoom as TwoRoom
