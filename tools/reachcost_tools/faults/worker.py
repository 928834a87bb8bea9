"""`python -m reachcost_tools.faults.worker`: try one class of faults and print one line of JSON for each try."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from reachcost_tools.faults.registry import CLASSES


def main() -> None:
    """Try the named class so many times in a directory."""
    name, count, place = sys.argv[1:]
    scratch = Path(place)
    scratch.mkdir(parents=True, exist_ok=True)
    for attempt in CLASSES[name].tries()(int(count), scratch):
        print(json.dumps(asdict(attempt)), flush=True)


if __name__ == "__main__":
    main()
