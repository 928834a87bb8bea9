"""What `rc.experiments` offers; each name is imported on first use."""

from .cells import Cell as Cell
from .cells import RunSpec as RunSpec
from .experiment import Experiment as Experiment
from .rows import RowPlan as RowPlan
from .study import CostPlan as CostPlan
from .study import HeadPlan as HeadPlan
from .study import Member as Member
from .study import Study as Study
from .tables import TablePlan as TablePlan
from .tables import TableRows as TableRows
from .tables import make_table as make_table
from .tables import plain_rows as plain_rows
