"""What `rc.fitting` offers; each name is imported on first use."""

from .logged_audit import LoggedPools as LoggedPools
from .logged_audit import logged_audit as logged_audit
from .logged_audit import logged_pools as logged_pools
from .repair import LabelledRecipe as LabelledRecipe
