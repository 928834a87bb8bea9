"""TwoRoom: the public two-room navigation task, batched."""

from reachcost.tasks.tworoom.layout import Layout
from reachcost.tasks.tworoom.task import TwoRoom

__all__ = ["Layout", "TwoRoom"]
