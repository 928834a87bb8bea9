"""HTML of untrusted text: the one place that escapes it, embeds data and inlines style and scripts."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from reachcost.core.progress import escape_hidden

VOID = ("br", "hr", "img", "input", "link", "meta")
_IN_SCRIPT = {ord("<"): r"\u003c", ord(">"): r"\u003e", ord("&"): r"\u0026"}


class Markup(str):
    """Text that is HTML already. Any other text is escaped where it enters a page."""


def escaped(text: object) -> Markup:
    """Text as HTML; what is HTML already stays as it is.

    >>> escaped("<b> & 'c'"), escaped(Markup("<b>"))
    ('&lt;b&gt; &amp; &#x27;c&#x27;', '<b>')
    """
    return text if isinstance(text, Markup) else Markup(html.escape(escape_hidden(text)))


def joined(*parts: object) -> Markup:
    """Parts of a page one after the other, escaped unless they are HTML; None is nothing."""
    return Markup("".join(escaped(part) for part in parts if part is not None))


def tag(name: str, /, *content: object, **attributes: object) -> Markup:
    """An element: content and values of attributes are escaped.

    `class_` is `class`, `aria_label` is `aria-label`; True is an attribute without a value, None and False are none.

    >>> tag("p", "1 < 2", tag("br"), class_="note", hidden=True, id=None)
    '<p class="note" hidden>1 &lt; 2<br></p>'
    """
    written = []
    for key, value in attributes.items():
        plain = key.rstrip("_").replace("_", "-")
        if value is not None and value is not False:
            written.append(f" {plain}" if value is True else f' {plain}="{escaped(value)}"')
    opening = f"<{name}{''.join(written)}>"
    return Markup(opening if name in VOID else f"{opening}{joined(*content)}</{name}>")


def embedded(data: object, name: str) -> Markup:
    """Data for the scripts of a page, as JSON in an element of that id; numbers that are none become null.

    >>> embedded({"</script>": [1.5, float("nan")]}, "data")
    '<script type="application/json" id="data">{"\\\\u003c/script\\\\u003e":[1.5,null]}</script>'
    """
    text = json.dumps(_plain(data), separators=(",", ":"), allow_nan=False)  # all beyond ASCII is escaped
    return tag("script", Markup(text.translate(_IN_SCRIPT)), type="application/json", id=name)


def page(
    title: str,
    body: Markup,
    scripts: Sequence[str] = (),
    data: object = None,
    talks: bool = False,
    styles: Sequence[str] = (),
) -> str:
    """A whole page that needs nothing else, with a policy that lets nothing else in.

    Args:
        title: What the window is called.
        body: What it holds.
        scripts: JavaScript, in this order, after what `asset("draw.js")` offers.
        data: What scripts find by `draw.data()`.
        talks: Whether scripts may ask the server that the page came from.
        styles: CSS, in this order, after what every page of ours has.
    """
    style, script = "\n".join([asset("style.css"), *styles]), "\n".join([asset("draw.js"), *scripts])
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        f"connect-src {repr('self') if talks else repr('none')}; base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("link", rel="icon", href="data:,"),
        tag("style", Markup(style)),
    )
    whole = tag("html", head, tag("body", body, embedded(data, "data"), tag("script", Markup(script))), lang="en")
    return f"<!doctype html>\n{whole}\n"


def asset(name: str, package: str = "reachcost.report") -> str:
    """A file that comes with a package of ours, as text."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, Mapping):
        return {escape_hidden(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int) else escape_hidden(value)
