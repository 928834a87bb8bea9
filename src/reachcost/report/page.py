"""Renders HTML pages from Jinja2 templates. Every value is escaped, and hidden characters are shown."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from reachcost.core.progress import escape_hidden


def number(value: float, digits: int = 3) -> str:
    """A number as people read it.

    >>> number(91.996), number(0.0001234), number(1234567.0), number(-2.0)
    ('92', '0.000123', '1,230,000', '−2')
    """
    if not math.isfinite(value):
        return "–"
    rounded = float(f"{value:.{digits}g}")
    in_full = abs(rounded) >= 10 ** (digits - 1) or rounded == int(rounded)
    text = f"{rounded:,.0f}" if in_full else f"{rounded:.{digits}g}"
    return text.replace("-", "−")


def share(value: float) -> str:
    r"""A percentage with a space that does not break. Values near 0 or 100 and halves keep a decimal.

    >>> share(92.0), share(99.44), share(0.4), share(12.5)
    ('92\xa0%', '99.4\xa0%', '0.4\xa0%', '12.5\xa0%')
    """
    exact = 0 < value < 1 or 99 < value < 100 or abs(value % 1 - 0.5) < 0.05
    return f"{value:.1f}\xa0%" if exact else f"{value:.0f}\xa0%"


def interval(bounds: Sequence[float] | None) -> str:
    """An interval, or an empty string."""
    return "" if bounds is None else f"{number(bounds[0])} to {number(bounds[1])}"


def share_interval(bounds: Sequence[float] | None) -> str:
    """An interval of a percentage, or an empty string.

    >>> share_interval((84.97, 97.0))
    '85–97 %'
    """
    return "" if bounds is None else f"{bounds[0]:.0f}–{bounds[1]:.0f} %"


def plain(name: str) -> str:
    """The name of a category in words."""
    return name.replace("_", " ")


@cache
def environment() -> Environment:
    """The templates of the package, with the filters for numbers; values are escaped and show hidden characters."""
    found = Environment(
        loader=PackageLoader("reachcost", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else escape_hidden(value),
    )
    for kind in (interval, number, plain, share, share_interval):
        found.filters[kind.__name__] = kind
    found.filters["percent"] = lambda value: f"{value:.2f}%"
    return found


def render(
    template: str,
    title: str,
    data: object = None,
    scripts: Sequence[str] = (),
    styles: Sequence[str] = (),
    requests: bool = False,
    **context: Any,
) -> str:
    """A self-contained page, with a content security policy that blocks everything else.

    Args:
        template: A template that extends `report/templates/page.html.j2`.
        title: Title of the window.
        data: Data for the scripts, which read it with `draw.data()`.
        scripts: JavaScript files of the package, run after `draw.js`.
        styles: CSS files of the package, applied after `style.css`.
        requests: Whether scripts may send requests to the server of the page.
        context: Values for the template.
    """
    style = "\n".join(map(asset, ("report/style.css", *styles)))
    script = "\n".join(map(asset, ("report/draw.js", *scripts)))
    source = "'self'" if requests else "'none'"
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        f"connect-src {source}; base-uri 'none'; form-action 'none'"
    )
    page = {"title": title, "policy": policy, "style": Markup(style), "script": Markup(script)}
    return environment().get_template(template).render(**page, data=embedded_json(data), **context)


def embedded_json(data: object) -> Markup:
    """Data as JSON that cannot end the script element that holds it; numbers that are not finite become null.

    >>> embedded_json({"</script>": [1.5, float("nan")]})
    Markup('{"\\\\u003c/script\\\\u003e":[1.5,null]}')
    """
    return htmlsafe_json_dumps(_plain(data), separators=(",", ":"), allow_nan=False)


def asset(path: str) -> str:
    """Text of a file of the package."""
    return files("reachcost").joinpath(path).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _plain(value: Any) -> Any:
    """A value as JSON types."""
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, Mapping):
        return {escape_hidden(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int) else escape_hidden(value)
