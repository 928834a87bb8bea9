"""From logs to a head: label sources, one file each, the exclusion of evaluation sets, one training loop."""
