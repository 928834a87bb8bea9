"""What `rc.peers` offers; each name is imported on first use."""

from .distances import fit_hilp as fit_hilp
from .distances import fit_qrl as fit_qrl
from .temporal import BudgetRecipe as BudgetRecipe
from .temporal import InverseRecipe as InverseRecipe
from .temporal import fit_budget as fit_budget
from .temporal import fit_inverse as fit_inverse
