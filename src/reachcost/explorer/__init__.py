"""`reachcost explore`: a local page on which one clicks a start and a goal, and watches a live planner."""
