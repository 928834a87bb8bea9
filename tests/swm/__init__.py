"""What the real stable-worldmodel 0.1.1 does, ours does as well; run by `make test-swm`."""
