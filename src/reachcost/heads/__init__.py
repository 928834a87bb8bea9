"""Heads: learned functions of two latents, one file each."""
