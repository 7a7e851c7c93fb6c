"""One HTML file that needs nothing else: templates that escape, a policy that forbids the rest."""

from __future__ import annotations

import base64
import hashlib
import os
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.core.record import Record
from ragbench.io.atomic import written_whole
from ragbench.private_files import make_private_folder
from ragbench.safe_text import shown_text

if TYPE_CHECKING:
    from jinja2 import Environment

_STYLE = "report.css"
_SCRIPT = "report.js"
_BODY = "\0body\0"
"""Where the parts of a page follow each other in its frame; no text that is shown has a NUL."""


def clean(text: str) -> str:
    """A text in which no letter acts: controls and marks of direction are spelled by their numbers.

    Texts of a dataset or a model could otherwise turn what a reader sees around.
    """
    if text.isascii() and text.isprintable():  # most texts, at once
        return text
    return shown_text(text)


def render(template: str, values: Mapping[str, Any]) -> str:
    """A template of ragbench's pages as HTML, in which each value is escaped.

    Texts of a run may hold tags and scripts: none of them may act in a page.
    """
    return _template_environment().get_template(template).render(values)


class Page(Record):
    """A page before it is written: its frame is the same for all."""

    title: str
    body: Iterable[str]
    script: str = _SCRIPT


def write_html(path: Path, page: Page, *, is_inline: bool = True) -> None:
    """Writes a page as one file, whole or not at all.

    A page that is half written would replace a good one.

    Args:
        is_inline: whether style and script are in the file; else they are files beside it. Nothing
            else may act in the page: its policy names these two alone.
    """
    from markupsafe import Markup

    style = ""
    script = ""
    style_source = "'self'"
    script_source = "'self'"
    if is_inline:
        style = _text_of_asset(_STYLE)
        script = _text_of_asset(page.script)
        style_source = _policy_hash(style)
        # The policy of the page names the text of each by its hash: anything else does not act.
        script_source = _policy_hash(script)
    values = {
        "title": page.title,
        "style": Markup(style),  # this package's own file
        "script": Markup(script),
        "style_source": style_source,
        "script_source": script_source,
        "body": Markup(_BODY),
    }
    # The template is drawn once, and cut where the body belongs: a long body is written part by
    # part.
    before, after = render("page.html.jinja", values).split(_BODY)
    with written_whole(path) as file:
        for part in chain([before], page.body, [after]):
            file.write(part.encode("utf-8", "backslashreplace"))


def _policy_hash(text: str) -> str:
    """The digest by which a page's policy (Content-Security-Policy) allows one style or script.

    The form is that of the standard: any other text of a style or script is refused by browsers.
    """
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def write_html_folder(folder: Path, page: Page) -> Path:
    """Writes a page into a folder with style and script as files beside it; gives the page's path.

    Some servers forbid inline scripts.
    """
    # Private as the run is: the page holds its texts.
    make_private_folder(folder)
    for name in (_STYLE, _SCRIPT):
        with written_whole(folder / name) as file:
            file.write(_text_of_asset(name).encode())
    write_html(folder / "index.html", page, is_inline=False)
    return folder / "index.html"


@cache
def _text_of_asset(name: str) -> str:
    """The text of a style sheet or script of ragbench's pages, by its file's name.

    Files lie beside this module; each is read once.
    """
    return Path(__file__).with_name(name).read_text("utf-8")


@cache
def _template_environment() -> Environment:
    """The templates of pages with their filters; values are escaped, and unknown names raise.

    It is made once a process. Compiled templates are kept on disk where that is allowed, as
    compiling takes longer than a small report.
    """
    from jinja2 import Environment, FileSystemBytecodeCache, PackageLoader, StrictUndefined

    # Compiling the templates takes longer than all other writing of a small run: the compiled code
    # is kept in ``__pycache__``, as Python's own is, where that may be written.
    folder = Path(__file__).parent / "__pycache__"
    bytecode_cache = None
    if not sys.dont_write_bytecode and os.access(folder, os.W_OK):
        name = f"%s.{sys.implementation.cache_tag}.jinja"
        bytecode_cache = FileSystemBytecodeCache(str(folder), name)
    environment = Environment(
        bytecode_cache=bytecode_cache,
        loader=PackageLoader("ragbench.views", "html"),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printed_value,
    )
    environment.filters["number"] = page_number
    environment.filters["percent"] = lambda value: f"{value:.0%}"
    environment.filters["count"] = lambda value: f"{value:,}"
    return environment


def _printed_value(value: object) -> object:
    """The text that a template prints for a value: nothing for None, and no letters that act.

    Markup, which a template or a drawing made, is left as it is.
    """
    if type(value) is str:  # Markup was made by a template
        return clean(value)
    return "" if value is None else value


def page_number(value: float | None, unit: str = "") -> str:
    """A number as pages show it, in as many places as its size needs; a dash for None.

    Unlike `number_text` it has a long dash, and µs for times of fast stages.

    Args:
        unit: ``"s"`` is shown in µs, ms or s; every other number without a unit.
    """
    if value is None:
        return "–"
    # Three places for scores, one for sizes such as token counts.
    if unit != "s":
        if abs(value) < 100:
            return f"{value:.3f}"
        return f"{value:,.1f}"
    # Below a millisecond in µs, or fast stages would all be 0.
    if value < 0.001:
        return f"{value * 1e6:.0f} µs"
    if value < 1:
        return f"{value * 1e3:.1f} ms"
    return f"{value:.2f} s"
