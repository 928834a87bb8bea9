"""`python -m reachcost`."""

import sys

from reachcost_command import main

if __name__ == "__main__":
    sys.exit(main())
