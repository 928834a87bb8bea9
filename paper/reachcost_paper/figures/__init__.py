"""Drawing styles of the figures of the paper."""
