"""Draw the picture of docs/explore.md, as chromium shows it: python examples/draw_explore.py docs/images."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

WINDOW = {"width": 1180, "height": 900}
ROUND = 3
"""Of the first plan: the candidates have begun to agree."""


def main(out: Path) -> None:
    """Serve the page, wait for its first plan, and draw one of its rounds."""
    command = [sys.executable, "-m", "reachcost", "explore", "--no-open"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = next(line.strip() for line in process.stdout if line.startswith("http"))
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport=WINDOW, reduced_motion="reduce")  # pyright: ignore[reportArgumentType]
            page.goto(address)
            draw(page, out / "explore.png")
            browser.close()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def draw(page: Page, path: Path) -> None:
    """A picture of the whole page at one round."""
    planned = page.locator("#status", has_text="Planned in")
    planned.wait_for()
    page.get_by_role("button", name="Plan", exact=True).click()  # the first plan of a process takes longer
    planned.wait_for()
    page.locator("#round").fill(str(ROUND))
    page.locator("#round").blur()
    page.screenshot(path=path, full_page=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
