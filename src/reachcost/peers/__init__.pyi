"""What `rc.peers` offers; each name is imported on first use."""

from .budget_and_inverse import BudgetRecipe as BudgetRecipe
from .budget_and_inverse import InverseRecipe as InverseRecipe
from .budget_and_inverse import fit_budget as fit_budget
from .budget_and_inverse import fit_inverse as fit_inverse
from .qrl_and_hilp import fit_hilp as fit_hilp
from .qrl_and_hilp import fit_qrl as fit_qrl
