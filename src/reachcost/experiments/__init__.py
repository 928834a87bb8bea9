"""Which runs stand behind which tables."""
