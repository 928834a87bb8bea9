"""PushT: the public task of pushing a T to a pose, batched."""

from reachcost.tasks.pusht.task import PushT

__all__ = ["PushT"]
