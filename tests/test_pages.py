"""Pages show every value as text, whatever it holds."""

import json
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from reachcost.core.progress import escape_hidden
from reachcost.report.page import asset, embedded_json, environment, render

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "<img src=x onerror=alert(1)>",
    "&lt;b&gt; &amp; &nbsp;",
    "\x1b[31mred\x1b[0m",
    "\u202eevil\u2066",
    "[bold red]rich[/]",
    "{{ 1 + 1 }}",
    "\u2028\u2029\ufeff",
    "\" onload='x'",
    "\ud800",
]
PAGE = "report/templates/page.html.j2"


class _Parsed(HTMLParser):
    """The elements, attributes and text that a reader of HTML finds."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def hostile(test: Any) -> Any:
    """Run a test on any text, and on each of the known harmful ones."""
    for text in HOSTILE:
        test = example(text)(test)
    return given(st.text())(test)


@hostile
def test_templates_escape_text(text: str) -> None:
    found = environment().from_string('<p title="{{ text }}">{{ text }}</p>').render(text=text)
    parsed = _Parsed(found)
    assert (parsed.tags, parsed.attributes) == (["p"], [("title", escape_hidden(text))])
    assert parsed.text == escape_hidden(text)
    found.encode()  # halves of surrogate pairs could not be written


@hostile
def test_embedded_data_stays_inside_its_element(text: str) -> None:
    found = embedded_json({text: [text, 1]})
    assert json.loads(found) == {escape_hidden(text): [escape_hidden(text), 1]}
    assert found.isascii()
    assert not set("<>&") & set(found)


@pytest.mark.parametrize("text", ["\x1b", "\u202e", "\u2066", "\u200b", "\x00", "\ud800", "\x9b"])
def test_hidden_characters_are_shown(text: str) -> None:
    assert escape_hidden(text) == f"⟨{ord(text):02X}⟩"


def test_a_name_that_a_template_misspells_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="headnig"):
        environment().from_string("{{ headnig }}").render(heading="Costs")


def test_arrays_and_infinite_numbers_can_be_embedded() -> None:
    data = {"field": np.array([[1.5, np.nan]]), "n": np.int64(3), "yes": np.True_, "none": None, "far": float("inf")}
    assert embedded_json(data) == '{"field":[[1.5,null]],"n":3,"yes":true,"none":null,"far":null}'


def test_a_page_is_self_contained_and_its_policy_blocks_the_rest() -> None:
    text = render(PAGE, "a <title>", data={"a": 1})
    assert "<title>a &lt;title&gt;</title>" in text
    assert not re.search(r'(?:src|href)="(?!data:,)', text)
    assert "url(" not in asset("report/style.css")
    policy = re.search(r'content="(default-src[^"]*)"', text)
    assert policy is not None
    assert "unsafe" not in policy[1]
    assert "connect-src &#39;none&#39;" in policy[1]
    assert "connect-src &#39;self&#39;" in render(PAGE, "", requests=True)
