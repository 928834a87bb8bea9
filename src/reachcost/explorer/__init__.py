"""`reachcost explore`: a local page to click a start and a goal, and to watch the planner."""
