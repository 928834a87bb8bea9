"""A report in a real browser: light, dark and on a phone, with replays, filters and keyboard."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, Page, expect

import reachcost as rc
from reachcost.report.drawing import SceneParts, draw_scene
from reachcost.worldmodels.jepa import JepaWorldModel
from reachcost_tools.faults.formats.records import made_audit
from tests.browser import (
    opened,
    require_all_by_keyboard,
    require_contrast,
    require_no_sideways_scroll,
    screenshot,
)
from tests.reports import COSTS, Ring, made_table, ring_latents, ring_runs, straight_runs
from tests.test_report import HOSTILE, RANKS


@pytest.fixture(scope="module")
def address(
    world: rc.tasks.TwoRoom, lewm: JepaWorldModel, head: rc.heads.LearnedHead, tmp_path_factory: pytest.TempPathFactory
) -> str:
    runs = straight_runs(world, world.evaluation_set("high-distance").spread(4))
    sasc = rc.audits.SascAudit(
        np.arange(1), {}, RANKS, rc.results.compare_rankings({"raw": -RANKS, "head": RANKS}, RANKS)
    )
    report = rc.Report(made_audit(), runs, sasc, made_table(), head, task=world, model=lewm, costs=COSTS)
    return report.save(tmp_path_factory.mktemp("report") / "report.html").as_uri()


def status_of(page: Page) -> str:
    return page.locator("#replay-status").inner_text()


def is_painted(page: Page, canvas: str) -> bool:
    """Whether a canvas shows more than one colour."""
    return page.evaluate(
        """name => { const canvas = document.querySelector(name), { width, height } = canvas;
        const bytes = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, width, height).data.buffer);
        return new Set(bytes).size > 3; }""",
        canvas,
    )


@pytest.mark.parametrize(("phone", "dark"), [(False, False), (False, True), (True, False), (True, True)])
def test_it_loads_without_complaint(browser: Browser, address: str, phone: bool, dark: bool) -> None:
    with opened(browser, address, phone, dark) as page:
        assert page.locator("h1").inner_text() == "The terminal cost buries good candidates."
        expect(page.locator("canvas.seen").first).to_have_attribute("width", "112")
        for canvas in ("canvas.map", "canvas.seen", "canvas.field"):
            assert is_painted(page, canvas)
        require_no_sideways_scroll(page)
        require_contrast(page)
        screenshot(page, f"report-{'phone' if phone else 'desk'}-{'dark' if dark else 'light'}")


def test_maps_do_not_overlap_on_a_phone(
    browser: Browser, world: rc.tasks.TwoRoom, lewm: JepaWorldModel, tmp_path: Path
) -> None:
    runs = straight_runs(
        world, world.evaluation_set("high-distance").spread(1), ("raw", "head", "a-cost-of-a-long-name")
    )
    ended = np.full(runs.category.shape, "same_room_not_precise_and_not_there")
    report = rc.Report(replace(runs, success=runs.success & False, category=ended), task=world, model=lewm)
    with opened(browser, report.save(tmp_path / "report.html").as_uri(), phone=True) as page:
        require_no_sideways_scroll(page)
        beyond = """replay => { const right = replay.getBoundingClientRect().right + 1;
        return [...replay.querySelectorAll("*")].filter(part => part.getBoundingClientRect().right > right).length; }"""
        assert [shown.evaluate(beyond) for shown in page.locator(".replay").all()] == [0, 0, 0]


def test_replays_step_by_click_and_keyboard(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        assert status_of(page).startswith("Step 6 of 6 in episode ")
        assert re.fullmatch(
            r"not reached after 6 steps, true distance left [\d.]+ px", page.locator(".progress").first.inner_text()
        )
        page.locator("#replay-back").click()
        assert status_of(page).startswith("Step 5 of 6")
        assert page.locator(".progress").first.inner_text() == "step 5 of 6"
        page.keyboard.press("ArrowLeft")  # the button has the focus
        assert status_of(page).startswith("Step 4 of 6")
        page.locator("#replay-step").focus()
        page.keyboard.press("ArrowRight")
        assert status_of(page).startswith("Step 5 of 6")
        page.keyboard.press("Home")
        assert status_of(page).startswith("Step 0 of 6")
        page.locator("#replay-play").click()
        assert page.locator("#replay-play").inner_text() == "Pause"
        expect(page.locator("#replay-status")).to_have_text(re.compile("^Step 6 of 6"))
        assert page.locator("#replay-play").inner_text() == "Play"


def test_episodes_are_filtered_by_outcome_and_kind(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        options = page.locator("#replay-episode option")
        assert options.count() == 4
        page.select_option("#replay-outcome", "success")
        assert [text.split(": ")[1] for text in options.all_inner_texts()] == ["raw ✓, head ✓"]
        page.select_option("#replay-outcome", "")
        page.select_option("#replay-group", "cross wall")
        assert 0 < options.count() < 4
        assert status_of(page).endswith("cross wall.")
        page.select_option("#replay-outcome", "success")
        page.select_option("#replay-group", "same room")
        assert options.count() == 0
        assert status_of(page) == "No episode matches: choose another filter."


def test_maps_follow_the_chosen_goal(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        pixels = "document.querySelector('canvas.field').toDataURL()"
        before, chosen = page.evaluate(pixels), page.locator("#field-goal option").last.get_attribute("value")
        page.select_option("#field-goal", chosen)
        assert page.evaluate(pixels) != before
        label = page.locator("canvas.field").first.get_attribute("aria-label")
        assert label == f"map of raw for the goal of episode {chosen}"


def test_every_control_and_picture_has_a_name_and_is_reached_by_keyboard(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        require_all_by_keyboard(page)
        assert page.locator("header, nav, main, footer").count() == 4
        for role in ("button", "combobox", "slider", "img", "region", "table"):
            found = page.get_by_role(role).all()
            assert found
            if role != "table":
                names = [one.aria_snapshot().splitlines()[0] for one in found]
                assert all('"' in name for name in names), names


def test_a_world_with_frames_alone_is_replayed(browser: Browser, tmp_path: Path) -> None:
    ring = Ring()
    report = rc.Report(ring_runs(ring), task=ring, costs=COSTS, logs=ring_latents(ring))
    with opened(browser, report.save(tmp_path / "ring.html").as_uri()) as page:
        expect(page.locator(".goal-frame canvas")).to_have_attribute("width", "24")
        assert page.locator("canvas.map").count() == 0
        page.locator("#replay-back").click()
        assert status_of(page).startswith("Step 5 of 6")
        assert page.locator("img.frame").count() == 39
        screenshot(page, "report-frames-alone")


def test_hostile_names_are_shown_and_do_nothing(browser: Browser, world: rc.tasks.TwoRoom, tmp_path: Path) -> None:
    runs = straight_runs(world, world.evaluation_set("high-distance").spread(2), ("raw", HOSTILE))
    runs = replace(runs, category=np.where(runs.success, "success", HOSTILE))
    scene = draw_scene(SceneParts(world, runs=runs))
    report = rc.Report(made_table(HOSTILE, HOSTILE, HOSTILE), scene, title=HOSTILE)
    shown = "</script><img src=x onerror=alert(1)>&lt;⟨1B⟩[31m⟨202E⟩[bold]"
    with opened(browser, report.save(tmp_path / "odd.html").as_uri()) as page:
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        assert page.title() == shown
        assert page.locator("img[src='x']").count() == 0
        assert shown in page.locator(".replay code").last.inner_text()
        assert shown in page.locator(".badge.ended").first.inner_text()
        assert shown in page.locator("#replay-episode option").first.inner_text()
        assert page.locator("details summary").first.inner_text() == shown
        require_no_sideways_scroll(page)


def test_odd_names_and_huge_values_of_costs_are_drawn(
    browser: Browser, world: rc.tasks.TwoRoom, lewm: JepaWorldModel, tmp_path: Path
) -> None:
    names = ("constructor", "__proto__")  # properties of objects in JavaScript

    def huge(terminal: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        return torch.full(terminal.shape[:2], 1e16)

    costs: dict[str, rc.TerminalCost] = dict.fromkeys(names, huge)
    runs = straight_runs(world, world.evaluation_set("high-distance").spread(2), names)
    report = rc.Report(runs, task=world, model=lewm, costs=costs)
    with opened(browser, report.save(tmp_path / "odd.html").as_uri()) as page:
        assert page.locator(".replay code").all_inner_texts() == [*names]
        assert page.locator("#fields canvas").count() > 0
        assert status_of(page).startswith("Step 6 of 6")
