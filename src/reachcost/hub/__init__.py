"""Heads and world models on the Hugging Face Hub."""
