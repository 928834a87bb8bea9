"""What `rc.worldmodels` offers; each name is imported on first use."""

from .custom import check_world_model as check_world_model
from .custom import with_actions as with_actions
from .jepa import halved as halved
from .loading import load_world_model as load_world_model
from .loading import zoo as zoo
from .objectives import TrainingPlan as TrainingPlan
from .training import train_world_model as train_world_model
