"""Draw the picture of docs/explore.md, as chromium shows it: python examples/draw_explore.py docs/images."""

import signal
import subprocess
import sys
from pathlib import Path

from reachcost_tools.faults.browser import launched

ROUND = 3
"""Round of the first plan in which the candidates begin to agree."""


def main(out: Path) -> None:
    """Serve the page, wait for its first plan, and draw the full page at one of its rounds."""
    command = [sys.executable, "-m", "reachcost", "explore", "--no-open"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = next(line.strip() for line in process.stdout if line.startswith("http"))
    try:
        with launched() as browser:
            page = browser.new_page(viewport={"width": 1180, "height": 900}, reduced_motion="reduce")
            page.goto(address)
            planned = page.locator("#status", has_text="Planned in")
            planned.wait_for()
            page.get_by_role("button", name="Plan", exact=True).click()  # the first plan of a process takes longer
            planned.wait_for()
            page.locator("#round").fill(str(ROUND))
            page.locator("#round").blur()
            page.screenshot(path=out / "explore.png", full_page=True)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
