"""Training a world model on logs."""
