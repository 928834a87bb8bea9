"""What `rc.core` offers; each name is imported on first use."""

from .repositories import Hub as Hub
