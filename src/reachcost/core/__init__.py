"""What everything else stands on: files in one step, seeds, threads, progress, hashes, devices."""
