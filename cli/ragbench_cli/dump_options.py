"""Which dump is meant, how it is read, and what judges it: options that commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from ragbench_cli import console
from ragbench_cli.options import CASES, EncodingOption, mapping, one_of, option

if TYPE_CHECKING:
    from ragbench.io.dumps.read import OpenDump
    from ragbench.validators.validator import Validator
    from ragbench_cli.console import StageAdvance
    from ragbench_cli.validator_options import ValidatorChoice

_SCORES = ("similarity", "distance")


def _formats(typed: str) -> list[str]:
    from ragbench.io.dumps.forms import form_names

    return [name for name in form_names() if name.startswith(typed)]


def _kinds(typed: str) -> list[str]:
    return [name for name in _SCORES if name.startswith(typed)]


@dataclass(frozen=True, kw_only=True, slots=True)
class DumpChoice:
    """How a dump is read."""

    PANEL: ClassVar = CASES

    format: Annotated[str | None, option("FORM", complete=_formats)] = None
    """Form of the dump; detected if omitted."""
    map: Annotated[list[str] | None, option("FIELD=PATH")] = None
    """Where a field is found, such as text=payload.content; repeatable. Fields: query, query_id,
    chunks, id, text, score, metadata, relevant, answer_present."""
    scores: Annotated[str | None, option("KIND", complete=_kinds, rare=True)] = None
    """What scores are: similarity or distance. By default inferred from the order of the chunks."""
    query: Annotated[str | None, option("TEXT", rare=True)] = None
    """The query, for a dump that is one response."""
    queries: Annotated[Path | None, option(rare=True)] = None
    """File with the queries, for responses without them: joined by id, or by order."""
    corpus: Annotated[Path | None, option("PATH")] = None
    """File or folder with the texts, for a TREC run or BEIR results."""
    split: Annotated[str | None, option(rare=True)] = None
    """Part to read from a source with several: the sheet of a workbook, by default the first; a
    provider or prompt of promptfoo."""
    encoding: EncodingOption = None


@contextmanager
def opened(path: str, choice: DumpChoice, *, quiet: bool) -> Generator[OpenDump]:
    from ragbench.io.dumps.form import ScoreKind
    from ragbench.io.retrievals import open_retrievals

    kind = None
    if choice.scores is not None:
        kind = ScoreKind(one_of(choice.scores, _SCORES, "--scores"))
    with open_retrievals(
        path,
        format=choice.format,
        overrides=mapping(choice.map, "--map"),
        scores=kind,
        query=choice.query,
        queries=choice.queries,
        corpus=choice.corpus,
        split=choice.split,
        encoding=choice.encoding,
    ) as dump:
        if not quiet:
            console.say(f"read as {dump.mapping.format}: {dump.mapping.described()}")
            if choice.format is None and not choice.map:
                console.say("(guessed; correct it with --format FORM or --map text=PATH)")
        for note in dump.notes:  # a guess is said in any case
            console.say(note)
        yield dump


class Judging(NamedTuple):
    """A dump that is open, and what judges it."""

    source: OpenDump
    make: Callable[[], Validator]
    engine: str
    may_be_many: bool
    """Whether workers may make a validator each."""
    stopped: Callable[[], bool]
    bars: StageAdvance | None


@contextmanager
def judging(
    choice: ValidatorChoice, path: str, read: DumpChoice, engine: str, *, quiet: bool
) -> Generator[Judging]:
    from ragbench_cli.console import progress
    from ragbench_cli.validator_options import chosen_engine, validator_maker

    with (
        console.stop_on_signal() as stopped,
        redirect_stdout(sys.stderr),  # Ray reports workers that end on standard output
        validator_maker(choice) as (make, may_be_many),
        opened(path, read, quiet=quiet) as source,
        progress(shown=not quiet) as bars,
    ):
        where = chosen_engine(engine, may_be_many=may_be_many)
        yield Judging(source, make, where, may_be_many, stopped, bars)
