"""Pages in a real headless browser: what a reader would see in a report of a damaged record."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Dialog, Error, sync_playwright

from reachcost_tools.faults import DATA

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MISSING = "no chromium here: pages are not opened (Debian: apt-get install chromium)"
PAGE = "page.html"
"""Name of a page, next to its record."""
SECONDS = 20
"""After which opening a page counts as hanging."""


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser that sends no background requests."""
    with sync_playwright() as playwright:
        quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*quiet, "--disable-sync"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def optional_browser() -> Iterator[Browser | None]:
    """A browser, or None if none is installed."""
    if CHROMIUM is None:
        yield None
        return
    with launched() as browser:
        yield browser


def page_errors(browser: Browser | None, directory: Path) -> str:
    """Open and remove the pages below a directory; returns their errors, empty without errors or without a browser."""
    errors: list[str] = []
    for file in directory.rglob(PAGE):
        if browser is not None:
            errors += _errors_of(browser, file)
        file.unlink()
    return "; ".join(errors)[:300]


def _errors_of(browser: Browser, file: Path) -> list[str]:
    errors: list[str] = []

    def on_dialog(dialog: Dialog) -> None:
        errors.append("it opened a dialog")
        dialog.dismiss()

    page = browser.new_page()
    page.set_default_timeout(1000 * SECONDS)
    page.on("dialog", on_dialog)
    page.on("pageerror", lambda error: errors.append(f"JavaScript: {error}"))
    page.on("console", lambda one: errors.append(one.text) if one.type in ("error", "warning") else None)
    try:
        page.goto(file.absolute().as_uri())
        errors.append(page.evaluate(USE))
        page.wait_for_timeout(20)  # pictures appear later
    except Error as error:
        errors.append(f"the page cannot be used: {error.message}")
    page.close()
    return [error for error in errors if error]


USE = (DATA / "use_page.js").read_text()
"""Uses every control of a page, and returns what is empty."""
