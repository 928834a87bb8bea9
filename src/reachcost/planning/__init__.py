"""Planners and the receding-horizon control loop."""
