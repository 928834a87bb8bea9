"""Audits: evidence about which stage of a planner fails."""
