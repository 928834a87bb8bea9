"""What `rc.audits` offers; each name is imported on first use."""

from .audit import Audit as Audit
from .comparison import Choice as Choice
from .comparison import choose_recipe as choose_recipe
from .comparison import compare_heads as compare_heads
from .criteria import Criterion as Criterion
from .planner import audit_planner as audit_planner
from .sasc import SascAudit as SascAudit
from .sasc import draw_pools as draw_pools
from .stage import Stage as Stage
