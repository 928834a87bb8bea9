"""What `rc.peers` offers; each name is imported on first use."""

from .budget import BudgetRecipe as BudgetRecipe
from .budget import fit_budget as fit_budget
from .hilp import fit_hilp as fit_hilp
from .inverse import InverseRecipe as InverseRecipe
from .inverse import fit_inverse as fit_inverse
from .qrl import fit_qrl as fit_qrl
