"""A real browser (Debian's chromium, headless) for tests of pages."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page

from reachcost_tools.faults.browser import CHROMIUM, launched

PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
AT_HOME = ("127.0.0.1", "localhost", "[::1]", "")
"""Hosts that a page may connect to; files, data and blobs have none."""


@contextmanager
def started() -> Iterator[Browser]:
    """A browser. Tests are skipped without one, except in CI, which installs it."""
    if CHROMIUM is None:
        assert not os.environ.get("CI"), "CI installs chromium: see .ci/run"
        pytest.skip("no chromium here: pages were not tested (Debian: apt-get install chromium)")
    with launched() as browser:
        yield browser


@contextmanager
def opened(
    browser: Browser, address: str, phone: bool = False, dark: bool = False, but_for: str = "", moves: bool = False
) -> Iterator[Page]:
    """A page that must not log errors, and must not send requests to other machines.

    Errors that contain `but_for` are ignored; `moves` allows animations.
    """
    window: dict[str, Any] = {"viewport": PHONE if phone else DESK, "color_scheme": "dark" if dark else "light"}
    context = browser.new_context(**window, reduced_motion="no-preference" if moves else "reduce")
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


def require_all_by_keyboard(page: Page) -> None:
    """Tab reaches every control that is shown, each with an outline."""
    controls = "a[href], button, select, input, summary, canvas[tabindex], [tabindex='0']"
    wanted = page.evaluate(
        """controls => {
            const all = [...document.querySelectorAll(controls)];
            const shown = all.filter(one => one.checkVisibility() && !one.disabled);
            const once = shown.filter(one => one.type !== "radio" || one.checked);  // arrow keys choose among radios
            once.forEach((one, at) => one.dataset.at = at);
            return once.length;
        }""",
        controls,
    )
    reached = set()
    for _ in range(wanted + 2):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.dataset.at"))
        outlined = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outlined != "none" or page.evaluate("document.activeElement === document.body")
    assert {str(at) for at in range(wanted)} <= reached


def require_contrast(page: Page) -> None:
    """Text has the contrast that WCAG asks for, 4.5 to 1."""
    worst = page.evaluate(CONTRAST)
    assert worst["ratio"] >= 4.5, worst


CONTRAST = """() => {
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = colour => {
    probe.clearRect(0, 0, 1, 1);
    probe.fillStyle = colour;
    probe.fillRect(0, 0, 1, 1);
    return [...probe.getImageData(0, 0, 1, 1).data];
  };
  const part = share => share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * part(r / 255) + 0.7152 * part(g / 255) + 0.0722 * part(b / 255);
  const behind = one => {
    const found = rgba(getComputedStyle(one).backgroundColor);
    return found[3] === 255 ? found : behind(one.parentElement);
  };
  let worst = { ratio: 99 };
  for (const one of document.body.querySelectorAll("*")) {
    const text = [...one.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!text || !one.checkVisibility() || one.closest("script, noscript, svg")) continue;
    const both = [light(rgba(getComputedStyle(one).color)), light(behind(one))];
    const ratio = (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
    if (ratio < worst.ratio) worst = { ratio, html: one.outerHTML.slice(0, 120) };
  }
  return worst;
}"""
"""The least contrast of text and what lies behind it, as WCAG has it."""


def screenshot(page: Page, name: str) -> None:
    """Write a picture of the page if REACHCOST_SCREENSHOTS names a directory."""
    if where := os.environ.get("REACHCOST_SCREENSHOTS"):
        page.screenshot(path=Path(where) / f"{name}.png", full_page=True)
