"""Whatever a name holds, a page shows it as text."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reachcost.core.progress import escape_hidden
from reachcost.report.html import Markup, asset, embedded, escaped, joined, page, tag

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "<img src=x onerror=alert(1)>",
    "&lt;b&gt; &amp; &nbsp;",
    "\x1b[31mred\x1b[0m",
    "\u202eevil\u2066",
    "[bold red]rich[/]",
    "\u2028\u2029\ufeff",
    "\" onload='x'",
    "\ud800",
]


class _Seen(HTMLParser):
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
    """Any text, and each of those that are known to do harm."""
    for text in HOSTILE:
        test = example(text)(test)
    return given(st.text())(test)


@hostile
def test_text_stays_text(text: str) -> None:
    seen = _Seen(tag("p", text, title=text))
    assert (seen.tags, seen.attributes, seen.text) == (["p"], [("title", escape_hidden(text))], escape_hidden(text))
    tag("p", text).encode()  # halves of characters cannot be written


@hostile
def test_embedded_data_cannot_leave_its_element(text: str) -> None:
    found = embedded({text: [text, 1]}, "data")
    seen = _Seen(found)
    assert seen.tags == ["script"]
    assert json.loads(seen.text) == {escape_hidden(text): [escape_hidden(text), 1]}
    inside = re.fullmatch(r"<script [^>]*>(.*)</script>", found)
    assert inside is not None
    assert inside[1].isascii()
    assert not set("<>&") & set(inside[1])


@pytest.mark.parametrize("text", ["\x1b", "\u202e", "\u2066", "\u200b", "\x00", "\ud800", "\x9b"])
def test_what_hides_or_turns_text_is_shown(text: str) -> None:
    assert escape_hidden(text) == f"⟨{ord(text):02X}⟩"


def test_what_is_html_already_is_not_escaped_again() -> None:
    assert joined(tag("b", "<"), None, "<", Markup("<br>")) == "<b>&lt;</b>&lt;<br>"
    assert escaped(tag("i", "&")) == "<i>&amp;</i>"


def test_arrays_and_numbers_that_are_none_can_be_embedded() -> None:
    data = {"field": np.array([[1.5, np.nan]]), "n": np.int64(3), "yes": np.True_, "none": None, "far": float("inf")}
    assert '{"field":[[1.5,null]],"n":3,"yes":true,"none":null,"far":null}' in embedded(data, "data")


def test_a_page_needs_nothing_else_and_lets_nothing_else_in() -> None:
    text = page("a <title>", tag("main", "hello"), ["'use strict';"], data={"a": 1})
    assert "<title>a &lt;title&gt;</title>" in text
    assert not re.search(r'(?:src|href)="(?!data:,)', text)
    assert "url(" not in asset("style.css")
    policy = re.search(r'content="(default-src[^"]*)"', text)
    assert policy is not None
    assert "unsafe" not in policy[1]
    assert "connect-src &#x27;none&#x27;" in policy[1]
    assert "connect-src &#x27;self&#x27;" in page("", Markup(""), talks=True)
