"""Terminal costs: rules that assign a cost to every candidate, one file each.

Shape of all of them: terminal [B, S, D], goal [B, D] -> costs [B, S].
"""
