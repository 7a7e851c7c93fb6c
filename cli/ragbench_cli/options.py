"""Options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["JsonOption", "RunArgument"]

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON to standard output instead of text.")
]
RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="Folder of a run.", show_default=False)
]
