"""What `rc.peers` offers; each name is imported on first use."""

from .budget import BudgetRecipe as BudgetRecipe
from .budget import fit_budget as fit_budget
from .distances import fit_hilp as fit_hilp
from .distances import fit_qrl as fit_qrl
from .inverse import InverseRecipe as InverseRecipe
from .inverse import fit_inverse as fit_inverse
