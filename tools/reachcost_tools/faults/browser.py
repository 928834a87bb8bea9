"""Pages in a real headless browser: what a reader would see in a report of a damaged record."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Error, Page, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MISSING = "no chromium here: pages are not opened (Debian: apt-get install chromium)"
PAGE = "page.html"
"""Name of a page, next to its record."""
SECONDS = 20
"""After which opening a page counts as hanging."""


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser without network requests of its own."""
    with sync_playwright() as playwright:
        quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*quiet, "--disable-sync"])
        try:
            yield browser
        finally:
            browser.close()


class Pages:
    """Opens pages one after the other; without a browser it opens none."""

    def __init__(self, browser: Browser | None) -> None:
        self._browser = browser
        self._page: Page | None = None
        self._complaints: list[str] = []

    def complaint(self, directory: Path) -> str:
        """Remove the pages below a directory, and return what is wrong about them; empty if nothing is."""
        found = [self._opened(page) for page in directory.rglob(PAGE)]
        for page in directory.rglob(PAGE):
            page.unlink()
        return "; ".join(filter(None, found))[:300]

    def _opened(self, file: Path) -> str:
        if self._browser is None:
            return ""
        self._complaints.clear()
        try:
            page = self._page = self._page or self._new(self._browser)
            page.goto(file.absolute().as_uri())
            self._complaints.append(page.evaluate(USE))
            page.wait_for_timeout(20)  # pictures appear later
        except Error as error:
            self._complaints.append(f"the page cannot be used: {error.message}")
            if self._page is not None:
                self._page.close()
            self._page = None
        return "; ".join(filter(None, self._complaints))

    def _new(self, browser: Browser) -> Page:
        page = browser.new_page()
        page.set_default_timeout(1000 * SECONDS)
        page.on("pageerror", lambda error: self._complaints.append(f"JavaScript: {error}"))
        page.on("console", self._on_message)
        page.on("dialog", self._on_dialog)
        return page

    def _on_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._complaints.append(f"{message.type}: {message.text}")

    def _on_dialog(self, dialog: Dialog) -> None:
        self._complaints.append("it opened a dialog")
        dialog.dismiss()


@contextmanager
def pages() -> Iterator[Pages]:
    """Opens pages within the block, if a browser is installed."""
    if CHROMIUM is None:
        yield Pages(None)
        return
    with launched() as browser:
        yield Pages(browser)


USE = """() => {
  if (!document.querySelector("main")?.innerText.trim()) return "the page is empty";
  for (const choice of document.querySelectorAll("select")) for (const option of [...choice.options].slice(0, 20)) {
    choice.value = option.value;
    choice.dispatchEvent(new Event("change"));
  }
  for (const slider of document.querySelectorAll("input[type=range]")) for (const end of [slider.min, slider.max]) {
    slider.value = end;
    slider.dispatchEvent(new Event("input"));
  }
  for (const button of document.querySelectorAll("button:not([disabled])")) button.click();
  const shown = [...document.querySelectorAll("canvas")].filter(one => one.checkVisibility());
  const empty = shown.filter(one => !one.width || !one.height);
  return empty.length ? `${empty.length} pictures of ${empty[0].width} x ${empty[0].height} pixels` : "";
}"""
"""Uses every control of a page, and returns what is empty."""
