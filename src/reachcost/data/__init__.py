"""Logs, observations, latents, action blocks, evaluation sets: what heads, audits and planners work on."""
