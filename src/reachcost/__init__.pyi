"""What `import reachcost as rc` offers; each name is imported on first use."""

__version__: str
__all__: list[str]

from . import audits as audits
from . import core as core
from . import costs as costs
from . import data as data
from . import experiments as experiments
from . import fitting as fitting
from . import heads as heads
from . import hub as hub
from . import labels as labels
from . import peers as peers
from . import planning as planning
from . import protocols as protocols
from . import results as results
from . import swm as swm
from . import tasks as tasks
from . import worldmodels as worldmodels
from .audits.audit import Audit as Audit
from .audits.planner import audit_planner as audit_planner
from .audits.sasc import sasc as sasc
from .costs.latent import HeadCost as HeadCost
from .costs.latent import HybridCost as HybridCost
from .costs.latent import LatentMSE as LatentMSE
from .data.actions import ActionBlocks as ActionBlocks
from .data.evaluation import EvaluationSet as EvaluationSet
from .data.latents import Latents as Latents
from .data.latents import encode_logs as encode_logs
from .data.logs import Logs as Logs
from .data.logs_files import open_logs as open_logs
from .data.logs_files import write_logs as write_logs
from .errors import ReachcostError as ReachcostError
from .errors import ReachcostWarning as ReachcostWarning
from .fitting.fit import fit as fit
from .fitting.repair import repair as repair
from .heads.recipe import Recipe as Recipe
from .heads.storage import load_head as load_head
from .heads.storage import save_head as save_head
from .planning.categorical_cem import CategoricalCEM as CategoricalCEM
from .planning.cem import CEM as CEM
from .planning.control import ControlRuns as ControlRuns
from .planning.control import control as control
from .planning.planner import PlanContext as PlanContext
from .planning.planner import Planner as Planner
from .protocols import TerminalCost as TerminalCost
from .protocols import WorldModel as WorldModel
from .report.report import Report as Report
from .tasks.check import check_task as check_task
from .tasks.contract import Task as Task
from .tasks.gym import GymTask as GymTask
from .tasks.registry import make_task as make_task
from .worldmodels.custom import check_world_model as check_world_model
from .worldmodels.custom import with_actions as with_actions
from .worldmodels.loading import load_world_model as load_world_model
from .worldmodels.loading import zoo as zoo
