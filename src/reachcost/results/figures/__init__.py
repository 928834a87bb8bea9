"""Pictures, drawn from records."""
