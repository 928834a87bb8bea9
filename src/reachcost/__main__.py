"""`python -m reachcost`."""

import sys

from reachcost.cli import main

if __name__ == "__main__":
    sys.exit(main())
