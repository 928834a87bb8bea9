"""Run the first Python block of README.md or of a page of the documentation in full, which takes minutes.

python examples/pages.py README.md
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run_example(page: Path) -> None:
    """Run the first Python block of a page, with its line numbers."""
    text = page.read_text(encoding="utf-8")
    block = re.search(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    if block is None:
        raise SystemExit(f"{page} has no Python block: name a page that has one")
    code = "\n" * text.count("\n", 0, block.start(1)) + block[1]
    exec(compile(code, page, "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    run_example(ROOT / (sys.argv[1] if len(sys.argv) > 1 else "README.md"))
