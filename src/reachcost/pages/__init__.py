"""What every page of ours shares: its style, drawing on a canvas, and the one place that makes HTML of text."""
