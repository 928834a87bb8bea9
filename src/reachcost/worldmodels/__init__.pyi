"""What `rc.worldmodels` offers; each name is imported on first use."""

from .jepa import halved as halved
from .objectives import TrainingPlan as TrainingPlan
from .training import train_world_model as train_world_model
