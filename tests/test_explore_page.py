"""The page of `reachcost explore` in a real browser: clicks, drags and keys plan, draw and change the map."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Request, expect

import reachcost as rc
from reachcost.explorer.engine import Engine, ModelWithCosts
from reachcost.worldmodels.jepa import JepaWorldModel
from tests.browser import (
    opened,
    require_all_by_keyboard,
    require_contrast,
    require_no_sideways_scroll,
    screenshot,
)
from tests.serving import served

NAME = "it => (it.labels?.[0]?.textContent || it.getAttribute('aria-label') || it.textContent).trim()"
"""What a screen reader calls a control."""
expect.set_options(timeout=30_000)  # a busy machine is not a failure
HOSTILE = "<b onclick=alert(1)>&lt;model</b>"


@pytest.fixture(scope="module")
def address(world: rc.tasks.TwoRoom, lewm: JepaWorldModel) -> Iterator[str]:
    costs = {"raw": rc.LatentMSE(), "repaired": rc.HeadCost(rc.heads.PairHead(lewm.latent_dim))}
    names = ("lewm-tworoom-3072", HOSTILE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reachcost.tasks.tworoom.task.CELL", 196 / 13)  # a map of few places is quickly encoded
        with served(
            Engine(world, {name: ModelWithCosts(lewm, costs) for name in names}, candidates=16, iterations=2)
        ) as found:
            yield found


def planned(page: Page) -> None:
    expect(page.locator("#status")).to_have_text(re.compile("Planned in"))


def question(asked: Request) -> dict[str, Any]:
    """What a page asked the server."""
    return json.loads(asked.post_data or "")


def pixels(canvas: Locator) -> str:
    return canvas.evaluate("canvas => canvas.toDataURL()")


def turn(page: Page, selector: str, value: float) -> None:
    """Move a slider as a person does: its value changes, then it is released."""
    page.locator(selector).evaluate(
        """(slider, value) => {
            slider.value = value;
            for (const name of ["input", "change"]) slider.dispatchEvent(new Event(name, { bubbles: true }));
        }""",
        value,
    )


@pytest.mark.parametrize(("phone", "dark"), [(False, False), (False, True), (True, False), (True, True)])
def test_it_loads_and_plans_at_once(browser: Browser, address: str, phone: bool, dark: bool) -> None:
    with opened(browser, address, phone, dark) as page:
        planned(page)
        require_no_sideways_scroll(page)
        for control in page.locator("input, select, button, canvas").all():
            assert control.evaluate(NAME), control
        expect(page.locator(".outcome").first).to_have_text(re.compile(r"true distance left [\d.]+ px, after"))
        assert page.locator("#settings").evaluate("details => details.open") is not phone
        turn(page, "#round", 1)
        expect(page.locator("#when")).to_have_text("plan 1, iteration 2 of 2")
        require_contrast(page)
        screenshot(page, f"explore-{'phone-' * phone}{'dark' if dark else 'light'}")


def test_a_click_plans_and_draws(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        planned(page)
        left, right = page.locator("canvas").all()
        before = pixels(left), pixels(right)
        page.locator("[name=sets][value=start]").check()
        with page.expect_request("**/plan") as asked:
            left.click(position={"x": 60, "y": 80})
        planned(page)
        box = left.bounding_box()
        assert box is not None
        there = [14 + 196 * 60 / box["width"], 14 + 196 * 80 / box["height"]]
        assert question(asked.value)["start"] == pytest.approx(there, abs=1)
        assert all(one != other for one, other in zip(before, (pixels(left), pixels(right)), strict=True))
        whole = pixels(left)
        turn(page, "#round", 0)
        assert pixels(left) != whole  # candidates of the first round
        shown = pixels(left)
        page.locator("#pool").uncheck()
        assert pixels(left) != shown
        page.locator("#play").click()
        expect(page.locator("#when")).to_have_text("full path")


def test_the_cost_of_a_place_follows_the_choice_of_cost(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        planned(page)
        page.locator("canvas").first.hover(position={"x": 60, "y": 80})
        said = page.locator(".here").all()
        first, second = (one.inner_text() for one in said)
        assert first != second
        for select in page.locator("select.cost").all():
            select.select_option("oracle")
        planned(page)
        expect(said[0]).not_to_have_text(first)
        expect(said[1]).to_have_text(said[0].inner_text())


def test_dragging_the_door_changes_the_map_and_shows_a_note(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        planned(page)
        left = page.locator("canvas").first
        box = left.bounding_box()
        assert box is not None
        before, scale = pixels(left), box["width"] / 196
        x, y = box["x"] + 98 * scale, box["y"] + 35 * scale
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x, y + 100 * scale, steps=3)
        page.mouse.up()
        planned(page)
        assert float(page.locator("[data-handle=door]").input_value()) == pytest.approx(0.125 + 100 / 168, abs=0.01)
        assert pixels(left) != before
        expect(page.locator("#note")).to_contain_text("was not trained in layouts like this one")
        screenshot(page, "explore-door")
        turn(page, "[data-handle=wall]", 1)
        planned(page)
        page.locator("#reset").click()
        expect(page.locator("#note")).to_be_hidden()


def test_keys_alone_reach_every_control_set_places_and_plan(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        planned(page)
        require_all_by_keyboard(page)
        page.reload()
        planned(page)
        page.keyboard.press("Tab")
        expect(page.locator(".skip")).to_be_focused()
        for _ in range(30):
            if page.evaluate("document.activeElement.tagName") == "CANVAS":
                break
            page.keyboard.press("Tab")
        canvas = page.locator("canvas").first
        expect(canvas).to_be_focused()
        before = pixels(canvas)
        for _ in range(3):
            page.keyboard.press("ArrowUp")
        expect(page.locator("#status")).to_have_text(re.compile(r"at \(.*\): (cost|wall)"))
        assert pixels(canvas) != before  # the cursor
        places = []
        for key in ("Enter", "s"):
            with page.expect_request("**/plan") as asked:
                page.keyboard.press(key)
            places.append(question(asked.value)["goal" if key == "Enter" else "start"])
            planned(page)
        assert places[0] == places[1]
        expect(page.locator(".outcome").first).to_have_text(re.compile("reached in 0 steps"))


def test_playing_ends_and_the_slider_stays(browser: Browser, address: str) -> None:
    with opened(browser, address, moves=True) as page:
        planned(page)
        page.evaluate("document.getElementById('play').click(); document.getElementById('play').click()")
        page.evaluate("document.getElementById('request').requestSubmit(); document.getElementById('play').click()")
        planned(page)
        expect(page.locator("#play")).to_have_text("Play")
        turn(page, "#round", 0)
        page.wait_for_timeout(500)
        assert page.locator("#round").input_value() == "0"


def test_answers_of_old_requests_are_not_shown(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        planned(page)
        page.route("**/plan", lambda route: (page.wait_for_timeout(300), route.continue_()))
        page.locator("#request button.main").click()
        box = page.locator("canvas").first.bounding_box()
        assert box is not None
        asked = page.evaluate(
            "JSON.parse(document.querySelector('script[type=\"application/json\"]').textContent).start"
        )
        scale = box["width"] / 196
        x, y = box["x"] + (asked[0] - 14) * scale, box["y"] + (asked[1] - 14) * scale
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 20, y, steps=2)
        page.wait_for_timeout(1500)  # held: what was planned from elsewhere is not shown
        assert page.locator(".outcome").first.inner_text() == ""
        page.mouse.up()
        planned(page)


def test_hostile_names_are_text(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        planned(page)
        page.on("dialog", lambda dialog: pytest.fail(f"a name was run: {dialog.message}"))
        page.locator("#model").select_option(HOSTILE)
        turn(page, "[data-handle=door]", 0.9)
        expect(page.locator("#note")).to_have_text(
            f"It is unknown whether {HOSTILE} was trained in layouts like this one."
        )
        planned(page)


def test_invalid_input_is_refused(browser: Browser, address: str) -> None:
    with opened(browser, address, but_for="422") as page:
        planned(page)
        said = page.locator("#status.bad")
        page.locator("canvas").first.click()  # in the middle
        expect(said).to_have_text("That is in a wall: choose a free place.")
        outcome = page.locator(".outcome").first.inner_text()
        page.locator("#candidates").fill("")
        page.locator("#request button.main").click()
        expect(said).to_have_text(re.compile("^candidates: "))
        assert page.locator(".outcome").first.inner_text() == outcome
        page.locator("#candidates").fill("2")
        page.locator("#request button.main").click()
        expect(said).to_have_text(re.compile("^candidates: "))
        page.locator("#candidates").fill("1000")
        page.locator("#iterations").fill("40")
        page.locator("#request button.main").click()
        expect(said).to_have_text(re.compile("40,000 rollouts a plan"))
