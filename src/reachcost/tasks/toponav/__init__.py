"""TopoNav: the paper's grid of three rooms, with exact dynamics."""
