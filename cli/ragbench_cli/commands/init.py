"""``ragbench init``: a project that runs as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragbench_cli import console
from ragbench_cli.options import JsonOption, argument, option

__all__ = ["command"]


def command(
    folder: Annotated[
        Path, argument(metavar="[DIR]", help="Where to write; the current folder by default.")
    ] = Path(),
    force: Annotated[
        bool, option("--force", help="Overwrite files that are already there.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Write a project to start from.

    A configuration, an example RAG, a small dataset, a workflow for GitHub and one for GitLab. It
    runs as it is; files that are already there are left as they are.

    \b
    Examples:
      ragbench init
      ragbench init my-project
    """
    from ragbench_cli.scaffold import write_scaffold

    written, kept = write_scaffold(folder, force=force)
    if json:
        console.print_json({"folder": str(folder), "written": written, "left": kept})
    else:
        for name in written:
            typer.echo(folder / name)
    for name in kept:
        console.say(f"exists, left as it is: {folder / name}")
    if kept:
        console.say("--force overwrites them.")
    if written:
        _say_next(folder)


def _say_next(folder: Path) -> None:
    import shlex

    console.say("")
    if folder != Path():
        console.say(f"next  cd {shlex.quote(str(folder))}")
    first = "next" if folder == Path() else "    "
    console.say(f"{first}  ragbench eval data --rag my_rag.py:MyRAG --out reports/ragbench")
    console.say("      ragbench gate reports/ragbench")
