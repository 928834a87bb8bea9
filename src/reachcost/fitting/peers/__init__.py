"""What other methods train on the same latents: QRL, HILP, reachability within budgets, inverse dynamics."""
