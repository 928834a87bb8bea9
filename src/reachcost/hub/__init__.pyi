"""What `rc.hub` offers; each name is imported on first use."""

from .sharing import push as push
