"""Where a command writes its page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from ragbench_cli import console
from ragbench_cli.options import option

HtmlOption = Annotated[
    Path | None,
    option("--html", help="Write a page as one HTML file that needs nothing else.", metavar="FILE"),
]
HtmlFolderOption = Annotated[
    Path | None,
    option(
        "--html-folder",
        help="Write the page as index.html with its style and script as files, for servers whose "
        "policy forbids them inside.",
        metavar="DIR",
    ),
]


def write_page(
    body: Iterable[str], title: str, *, html: Path | None, html_folder: Path | None
) -> None:
    """Writes a page to each place that was named, and says where."""
    from ragbench.views.html.page import write_html, write_html_folder

    parts = list(body)
    if html is not None:
        write_html(html, parts, title=title)
        console.say(f"page    {html}")
    if html_folder is not None:
        console.say(f"page    {write_html_folder(html_folder, parts, title=title)}")
