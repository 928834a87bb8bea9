"""What `rc.core` offers; each name is imported on first use."""

from .hub import Hub as Hub
