"""What `rc.worldmodels` offers; each name is imported on first use."""

from .jepa import halved as halved
from .training.train import TrainingPlan as TrainingPlan
from .training.train import train_world_model as train_world_model
