"""``ragbench doctor``: is everything there that a run needs?"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragbench.core.record import Record, field
from ragbench.errors import ConfigError
from ragbench_cli import console
from ragbench_cli.console import ExitCode
from ragbench_cli.models import LLMChoice
from ragbench_cli.options import JsonOption, mapping, option, takes_records
from ragbench_cli.services import ServiceChoice, with_mapping

if TYPE_CHECKING:
    from ragbench_cli.checks import DoctorCheck


class DoctorOptions(Record):
    """What is looked at beside the installation."""

    rag: Annotated[str | None, option("RAG")] = None
    """Load this RAG too and ask it the question: alone, twice, beside another one in a batch, and
    with contexts of something else. Eleven calls. If it is any service's address, find out how it
    is asked, and print the options for ragbench eval."""
    service: ServiceChoice = field(default_factory=ServiceChoice)
    rag_args: Annotated[str | None, option("JSON")] = None
    """Arguments for the class or factory, as JSON."""
    pipeline: Path | None = None
    """Check this pipeline too; where it names its corpus, ask it one question."""
    question: Annotated[str, option("TEXT")] = "What is this about?"
    """The question to ask it."""
    dataset: Annotated[str | None, option("DATASET")] = None
    """Check this dataset for mistakes that give any system a wrong score: one question with two
    answers, broken letters, gold that no document holds."""
    corpus: Annotated[str | None, option("DOCUMENTS")] = None
    """With --dataset: its documents; those beside it when not given."""
    field: Annotated[list[str] | None, option("TARGET=SOURCE")] = None
    """With --dataset: take a field from another name, such as query=Frage; repeatable."""
    llm: bool = False
    """Also call the language model: two small calls, which may be billed."""
    probe: bool = False
    """With --llm: try out which settings the endpoint accepts and follows, how long a prompt it
    reads (some 60,000 tokens, which it may bill) and how many calls at once, and print settings for
    the section llm of ragbench.yaml."""


@takes_records
def command(options: DoctorOptions, model: LLMChoice, json: JsonOption = False) -> None:
    """Check the installation, a RAG, a dataset and models.

    Exit code 2 if something that ragbench needs, or that was asked for, does not work. An extra
    that is not installed is not a failure; one that is installed and cannot be imported is. A
    doubt is something that makes numbers wrong without an error: results of a batch in another
    order, answers that do not come from the contexts.

    \b
    Examples:
      ragbench doctor
      ragbench doctor --rag my_module:MyRAG --question "How many days of leave?"
      ragbench doctor --rag https://host/ask --header 'Authorization=Bearer ${API_KEY}'
      ragbench doctor --pipeline rag.yaml
      ragbench doctor --dataset cases.jsonl --corpus docs
      ragbench doctor --dataset cases.csv --field query=Frage
      ragbench doctor --llm --llm-base-url http://localhost:8000/v1 --llm-model qwen3
      ragbench doctor --llm --llm-model anthropic/claude-sonnet-5 --probe
    """
    from ragbench_cli import checks

    asked_for = checks.Checks()
    _refuse_without_dataset(options)
    # What the user's RAG prints goes to standard error, and not into the JSON.
    with console.users_code():
        if options.rag is not None:
            named = with_mapping(options.rag, options.rag_args, options.service)
            checks.check_rag(asked_for, options.rag, named.arguments, options.question)
        if options.pipeline is not None:
            checks.check_pipeline(asked_for, options.pipeline, options.question)
    if options.dataset is not None:
        fields = mapping(options.field or (), "--field")
        checks.check_dataset(asked_for, options.dataset, options.corpus, fields)
    # An option about a model means that it is to be checked.
    if options.llm or options.probe or model.model is not None or model.base_url is not None:
        checks.check_llm(asked_for, model, is_probed=options.probe)
    if json:
        installed = checks.check_installation()
        console.print_json([*asked_for, *installed])
    else:
        _print_checks(asked_for)  # at once: to look at the installation takes seconds
        installed = checks.check_installation()
        _print_checks(checks.installation_in_short(installed))
        if asked_for.command:
            typer.echo(f"\n{asked_for.command}")
    # Absent and doubtful things are no failures.
    if any(check.state == "failed" for check in (*asked_for, *installed)):
        raise typer.Exit(ExitCode.CANNOT_RUN)


def _refuse_without_dataset(options: DoctorOptions) -> None:
    """Refuses doctor's options about a dataset where ``--dataset`` names none.

    Nothing would read these options.
    """
    for name, value in (("--corpus", options.corpus), ("--field", options.field)):
        if value is not None and options.dataset is None:
            raise ConfigError(f"{name} goes with --dataset")


def _print_checks(checks: Iterable[DoctorCheck]) -> None:
    """Prints doctor's checks as rows: state, name and detail.

    Further lines of a detail are options to paste, and are not wrapped.
    """
    from ragbench_cli.output import entry

    for check in checks:
        detail, *more_lines = check.detail.splitlines() or [""]
        # `entry` indents the detail; the state takes the place of the first eight blanks.
        row = entry(check.name, detail, width=17, indent=8)
        typer.echo(f"{check.state:<8}{row.lstrip()}")
        for line in more_lines:
            typer.echo(line)
