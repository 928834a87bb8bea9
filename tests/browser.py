"""A real browser (Debian's chromium, headless): what our pages say, do and ask for, as a person would see it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
AT_HOME = ("127.0.0.1", "localhost", "[::1]", "")
"""Hosts that a page may talk to; files, data and blobs have none."""


@contextmanager
def started() -> Iterator[Browser]:
    """A browser; where there is none, tests of pages are skipped, but not in CI, which installs it."""
    if CHROMIUM is None:
        assert not os.environ.get("CI"), "CI installs chromium: see .ci/run"
        pytest.skip("no chromium here: pages were not looked at (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*quiet, "--disable-sync"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(
    browser: Browser, address: str, phone: bool = False, dark: bool = False, but_for: str = ""
) -> Iterator[Page]:
    """A page that must not complain on its console, and must not ask for anything beyond this machine.

    A complaint that holds the text `but_for` is let pass.
    """
    window: dict[str, Any] = {"viewport": PHONE if phone else DESK, "color_scheme": "dark" if dark else "light"}
    context = browser.new_context(**window, reduced_motion="reduce")
    complaints: list[str] = []

    def asked(request: Any) -> None:
        if urlsplit(request.url).netloc.rpartition("@")[2].partition(":")[0] not in AT_HOME:
            complaints.append(f"asked for {request.url}")

    def said(message: Any) -> None:
        if message.type in ("error", "warning") and (not but_for or but_for not in message.text):
            complaints.append(f"{message.type}: {message.text}")

    page = context.new_page()
    page.on("request", asked)
    page.on("console", said)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    try:
        page.goto(address)
        yield page
        assert complaints == []
    finally:
        context.close()


def require_no_sideways_scroll(page: Page) -> None:
    """Nothing is wider than the window."""
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def screenshot(page: Page, name: str) -> None:
    """Keep a picture of the whole page for people, where REACHCOST_SCREENSHOTS names a directory."""
    if where := os.environ.get("REACHCOST_SCREENSHOTS"):
        page.screenshot(path=Path(where) / f"{name}.png", full_page=True)
