"""The parts of a report: each a small function from material to a section, or to a sentence why there is none."""
