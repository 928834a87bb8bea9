"""Training pairs and their labels: one file for each source of labels, and what keeps evaluation sets out."""
