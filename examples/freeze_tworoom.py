"""Draw the evaluation sets of TwoRoom again and freeze them into the package.

They come from the 10,000 logged episodes of seed 0; a test compares the shipped files with what this writes.
"""

from __future__ import annotations

from pathlib import Path

import reachcost as rc
from reachcost.tasks.tworoom.logs import freeze

if __name__ == "__main__":
    task = rc.make_task("tworoom")
    freeze(task.generate_logs(), task.layout, Path(rc.__path__[0]) / "tasks" / "tworoom" / "frozen")
