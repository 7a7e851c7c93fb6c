"""``ragbench search``: what a store finds for a question."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast

import typer

from ragbench.core.chunk import Chunk
from ragbench.core.readable_metadata import LEGS, readable_metadata
from ragbench.core.record import Record
from ragbench.errors import ConfigError, DataError, Problem
from ragbench.io.dumps.read import dump_row, write_retrieval_dump
from ragbench.io.read import read_cases
from ragbench.safe_text import counted, shortened_line, shown_line
from ragbench.search.pipeline.strategies import RetrievalSettings
from ragbench_cli import console
from ragbench_cli.options import JsonOption, Panel, argument, option, takes_records
from ragbench_cli.stores import (
    CollectionChoice,
    SearchChoice,
    Searcher,
    StoreOption,
    names_strategy,
    search_settings,
)

_LONGEST_SNIPPET = 300
"""Characters of a chunk that are shown."""


class SearchOptions(Record):
    """What is searched for, in which store, and how."""

    store: StoreOption
    query: Annotated[str | None, argument("[QUERY]")] = None
    """The question. Without one, a terminal prompts for it."""
    strategy: Annotated[Literal["dense", "sparse", "hybrid"] | None, option("NAME")] = None
    """dense (by vectors), sparse (by words: BM25) or hybrid (both). By default RETRIEVAL_STRATEGY,
    or hybrid."""
    top_k: Annotated[int | None, option("-k")] = None
    """How many chunks to return. By default DEFAULT_TOP_K, or 4."""
    score_threshold: Annotated[float | None, option("SCORE", rare=True)] = None
    """Skip chunks with a lower score; 0 is the score of an unrelated text, 1 the highest. By
    default DEFAULT_SCORE_THRESHOLD, or none."""
    questions: Annotated[str | None, option("FILE")] = None
    """Ask all questions of a file: one per line in a .txt file or standard input ('-'), or any
    dataset."""
    dump: Annotated[Path | None, option(panel=Panel.OUTPUT)] = None
    """Write the results to a file, one line of JSON per question."""
    sparse_cache: Annotated[str | None, option("FOLDER", rare=True)] = None
    """Folder where BM25 indexes of large collections are kept, or off. By default
    RAGBENCH_BM25_CACHE, or ~/.cache/ragbench/bm25, as in pipelines."""
    allow_incomplete: Annotated[bool, option(rare=True)] = False
    """Search a collection whose indexing was interrupted."""


@takes_records
def command(options: SearchOptions, where: CollectionChoice, json: JsonOption = False) -> None:
    """Search a store that ragbench or your application has filled.

    The embedder is the one that the collection was built with; for a collection of your own name
    it, and its fields with --field. With --json, prints one line of JSON per question;
    its score_kind names the score.

    \b
    Examples:
      ragbench search --store memory:reports/index "When is rent due?"
      ragbench search --store memory:reports/index "rent" --filter year=2023 --strategy sparse -k 10
      ragbench search --store memory:reports/index --questions cases.jsonl --dump found.jsonl
      ragbench search "rent" --store qdrant+http://localhost:6333 --collection docs \
        --field text=body --embedder openai:text-embedding-3-small
    """
    settings = search_settings(options)
    questions = _questions_of_options(options.query, options.questions)
    choice = SearchChoice(
        store=options.store,
        where=where,
        settings=settings,
        names_strategy=names_strategy(options),
        sparse_cache=options.sparse_cache,
        allow_incomplete=options.allow_incomplete,
    )
    form: Literal["json", "text", "none"] = "none"
    if json:
        form = "json"
    elif options.dump is None or options.query:
        form = "text"
    with choice.opened() as opened:
        is_own = not (where.map or where.native_filter or where.embedder)
        # Without a threshold, another program's collection leaves out nothing that its filter
        # passes.
        may_leave_out = is_own or settings.score_threshold is not None
        rows = _printed_rows(
            _typed_questions() if questions is None else iter(questions),
            opened.searcher(),
            batch_size=1 if questions is None else _BATCH,
            why_nothing=_why_nothing(settings) if may_leave_out else "",
            form=form,
            is_headed=questions is not None and len(questions) > 1,
        )
        if options.dump is None or questions is None:
            for _ in rows:  # each is printed when it is made
                pass
        else:
            count = write_retrieval_dump(options.dump, rows)
            console.say(f"{options.dump}: {counted(count, 'question')}")


class _Question(NamedTuple):
    """A question with the id that a dump has for it."""

    id: str
    text: str


def _questions_of_options(query: str | None, questions: str | None) -> list[_Question] | None:
    """The questions that options name; None where a person types them.

    Without a question and without a terminal there is nobody to ask.

    Args:
        questions: a file, or '-' for standard input.
    """
    if query is not None and questions is not None:
        raise ConfigError("give a question or --questions, not both")
    if query is not None:
        return [_Question("1", query)]
    if questions == "-":
        return _questions_of_lines(sys.stdin.read(), "<stdin>")
    if questions is not None:
        # A text file holds a question a line; other files are datasets, read by their form.
        if questions.endswith(".txt") and Path(questions).is_file():
            text = Path(questions).read_text("utf-8-sig", errors="replace")
            return _questions_of_lines(text, questions)
        return [_Question(case.id, case.query) for case in read_cases(questions)]
    # In a pipe without "-" the command would wait for ever.
    if not sys.stdin.isatty():
        raise ConfigError("there is no question: give one, or --questions FILE ('-' for lines)")
    return None


def _questions_of_lines(text: str, name: str) -> list[_Question]:
    """The questions in a text, one a line: as plain text, or as a JSON object with its ``query``.

    All wrong lines are reported at once.

    Args:
        name: of the file, for errors.
    """
    questions: list[_Question] = []
    problems: list[Problem] = []
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if not line:
            continue
        row: dict[str, Any] = {"query": line}
        # A question in plain text does not begin with a brace.
        if line.startswith("{"):
            row = {}
            with suppress(Exception):  # whatever it raises, the line is reported below
                row = json.loads(line)
        query = row.get("query")
        if isinstance(query, str):
            # Either name of an id; else the number of the line, which is unique.
            id_ = row.get("id", row.get("query_id", number))
            questions.append(_Question(str(id_), query))
        else:
            message = (
                "expected a question, or a JSON object with the texts 'query' and perhaps 'id'"
            )
            problems.append(Problem(message=message, path=name, line=number))
    if problems:
        raise DataError(problems)
    return questions


def _typed_questions() -> Iterator[_Question]:
    """The questions that a person types, until an empty line or the end of input.

    Each has the id "1": a person at a terminal writes no dump.
    """
    console.say("Type a question; an empty line ends.")
    with suppress(EOFError):
        while text := input("> ").strip():
            yield _Question("1", text)


def _why_nothing(settings: RetrievalSettings) -> str:
    """A sentence on why a search found nothing, and what then helps.

    Without a threshold of the user's, dense search leaves out what scores less than an unrelated
    text, and sparse search what shares no word.
    """
    # The user's own threshold is the first suspect.
    if settings.score_threshold is not None:
        return f"No results: no chunk scored at least {settings.score_threshold:g}."
    no_word = "no chunk shares a word with the question"
    if settings.strategy == "sparse":
        return f"No results: {no_word}."
    reasons = "no chunk's vector scores 0 or more, the score of an unrelated text"
    if settings.strategy == "hybrid":
        reasons += f", and {no_word}"
    # -9 is below every cosine: no result is left out then.
    return f"No results: {reasons}. --score-threshold -9 shows the nearest anyway."


_BATCH = 64
"""Questions that are searched for at a time."""


def _printed_rows(
    questions: Iterator[_Question],
    searcher: Searcher,
    *,
    batch_size: int,
    why_nothing: str,
    form: Literal["json", "text", "none"],
    is_headed: bool,
) -> Iterator[dict[str, Any]]:
    """The chunks found for each question as rows of a dump, printed in a form as they are made.

    What the scores mean, and why nothing is found, is said once.

    Args:
        batch_size: questions that are searched for together; 1 where a person waits for each.
        why_nothing: what is printed for the first question without chunks; empty for nothing.
        is_headed: whether each question is printed above its chunks.
    """
    scores = searcher.strategy.score_meaning
    is_said = False
    # Read a batch at a time: questions may be typed while earlier ones are answered.
    while batch := list(islice(questions, batch_size)):
        rankings = searcher.ask([question.text for question in batch])
        for question, chunks in zip(batch, rankings, strict=True):
            # Emptied once it is printed, so that it is said once: the reason is the same for every
            # question.
            if why_nothing and not chunks:
                console.say(why_nothing)
                why_nothing = ""
            row = dump_row(question.id, question.text, chunks, score_kind=scores.name)
            if form == "json":
                console.print_json(row, in_lines=False)
            elif form == "text":
                if chunks and not is_said:
                    typer.echo(f"score: {scores.meaning}")
                    is_said = True
                _print_chunks(chunks, heading=question.text if is_headed else "")
            # The row is yielded after it is printed: who reads on decides whether there is a next.
            yield row


def _about_chunk(chunk: Chunk) -> str:
    """A line on a chunk below its text: its document and metadata, cut where it is long.

    It shows where the text is from, and which fields a filter could use.
    """
    parts: list[str] = []
    # A chunk that is a whole document has its id already above.
    if chunk.document_id not in (None, chunk.id):
        place = str(chunk.document_id)
        if chunk.start is not None:
            place += f" [{chunk.start}:{chunk.end}]"
        parts.append(place)
    for name, value in readable_metadata(chunk.metadata).items():
        parts.append(f"{name}={value}")
    return shortened_line("  ".join(parts))


def _print_chunks(chunks: Sequence[Chunk], heading: str = "") -> None:
    """Prints the chunks that were found for a question; of a hybrid search with both ranks.

    The two ranks show which of the searches brought a chunk.

    Args:
        heading: the question, where there are several; empty for none.
    """
    if heading:
        typer.echo(f"# {heading}")
    if not chunks:
        typer.echo("Nothing found.")
        if heading:  # an empty line before the next question
            typer.echo("")
    for rank, chunk in enumerate(chunks, start=1):
        line = f"{rank}. {chunk.score or 0.0:.4f}  {chunk.id}"
        legs = cast("dict[str, dict[str, float]]", chunk.metadata.get(LEGS) or {})
        leg_ranks: list[str] = []
        for name, leg in legs.items():
            leg_ranks.append(f"{name} {leg['rank']:.0f}. {leg['score']:.4f}")
        if leg_ranks:
            line += f"  ({', '.join(leg_ranks)})"
        typer.echo(line)
        typer.echo(f"   {shown_line(chunk.text, longest=_LONGEST_SNIPPET)}")
        about = _about_chunk(chunk)
        if about:
            typer.echo(f"   {about}")
        typer.echo("")
