"""The Python example of the README, run from the README itself: prints what stands below it there. Takes minutes.

python examples/readme.py
"""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"


def run_example() -> None:
    """Run the first Python block of the README, with its line numbers."""
    text = README.read_text(encoding="utf-8")
    block = re.search(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    if block is None:
        raise SystemExit(f"{README} has no Python block")
    code = "\n" * text.count("\n", 0, block.start(1)) + block[1]
    exec(compile(code, README, "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    run_example()
