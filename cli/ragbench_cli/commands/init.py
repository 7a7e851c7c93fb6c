"""``ragbench init``: a project that runs as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragbench_cli import console
from ragbench_cli.options import JsonOption, argument, option

__all__ = ["command"]


def _extras(typed: str) -> list[str]:
    from ragbench_cli.scaffold import EXTRAS

    return [name for name in EXTRAS if name.startswith(typed)]


def command(
    folder: Annotated[
        Path, argument(metavar="[DIR]", help="Where to write; the current folder by default.")
    ] = Path(),
    force: Annotated[
        bool, option("--force", help="Overwrite files that are already there.")
    ] = False,
    extras: Annotated[
        list[str] | None,
        option(
            "--with",
            help="Write this too; repeatable. There is: pipeline, a file that describes the six "
            "stages of a RAG.",
            metavar="NAME",
            complete=_extras,
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Write a project to start from.

    A configuration, an example RAG, a small dataset, a workflow for GitHub and one for GitLab. It
    runs as it is; files that are already there are left as they are.

    \b
    Examples:
      ragbench init
      ragbench init my-project
      ragbench init my-project --with pipeline
    """
    from ragbench_cli.scaffold import EXTRAS, write_scaffold
    from ragbench_cli.values import one_of

    wanted = [one_of(name, tuple(EXTRAS), "--with") for name in extras or ()]
    written, kept = write_scaffold(folder, force=force, extras=wanted)
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
        _say_next(folder, pipeline="pipeline" in wanted)


def _say_next(folder: Path, *, pipeline: bool) -> None:
    import shlex

    console.say("")
    if folder != Path():
        console.say(f"next  cd {shlex.quote(str(folder))}")
    first = "next" if folder == Path() else "    "
    console.say(f"{first}  ragbench eval data --rag my_rag.py:MyRAG --out reports/ragbench")
    console.say("      ragbench gate reports/ragbench")
    if pipeline:
        console.say("      ragbench eval data --pipeline pipeline.yaml")
