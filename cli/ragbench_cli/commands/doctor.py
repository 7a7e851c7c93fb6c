"""``ragbench doctor``: is everything there that a run needs?"""

from __future__ import annotations

from typing import Annotated

import typer

from ragbench_cli import console
from ragbench_cli.exit_codes import ExitCode
from ragbench_cli.options import JsonOption, option

__all__ = ["command"]


def command(
    rag: Annotated[
        str | None,
        option("--rag", help="Load this RAG too and ask it one question.", metavar="RAG"),
    ] = None,
    rag_args: Annotated[
        str | None,
        option("--rag-args", help="Arguments for the class or factory, as JSON.", metavar="JSON"),
    ] = None,
    question: Annotated[
        str,
        option(
            "--question", help="The question that it is asked.", metavar="TEXT", show_default=True
        ),
    ] = "What is this about?",
    json: JsonOption = False,
) -> None:
    """Check the installation, and your RAG with --rag.

    Exit code 2 when something that ragbench needs, or that was asked for, does not work. An extra
    that is not installed is no failure.

    \b
    Examples:
      ragbench doctor
      ragbench doctor --rag my_module:MyRAG --question "How many days of leave?"
    """
    from ragbench_cli.checks.installation import check_installation
    from ragbench_cli.columns import entry

    checks = check_installation()
    if rag is not None:
        from ragbench_cli.checks.rag import check_rag

        with console.stdout_for_data():
            checks += check_rag(rag, rag_args, question)
    if json:
        console.print_json(checks)
    else:
        for check in checks:
            line = entry(check.name, check.detail, width=17, indent=8)
            typer.echo(f"{check.state:<8}{line.lstrip()}")
    if any(check.state == "failed" for check in checks):
        raise typer.Exit(ExitCode.CANNOT_RUN)
