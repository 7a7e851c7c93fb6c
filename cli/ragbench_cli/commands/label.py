"""``ragbench label``: people say what answers are worth, one at a time, a key for each verdict."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from ragbench.core.labels import Drawn, Judged, LabelTask
from ragbench.core.metric import Need
from ragbench.core.record import Record, replace
from ragbench.core.run_scores import under_ids_of
from ragbench.errors import ConfigError, InputError
from ragbench.gate.labels import corrections, notes_of
from ragbench.gate.runs import read_run
from ragbench.io.people import LabelBook, read_people
from ragbench.safe_text import shown_text
from ragbench.verbs.label import draw as drawn_from
from ragbench.verbs.label import raters, with_labels
from ragbench.views.html.page import write_html
from ragbench.views.labels import ask_text, label_page, raters_text
from ragbench_cli import console
from ragbench_cli.options import JsonOption, Panel, RunArgument, option, takes_records
from ragbench_cli.output import draw
from ragbench_cli.report_tables import corrected_blocks

_SHORT = 700
"""Letters of a context that are shown at first."""


class Asked(Record):
    run: RunArgument
    metric: Annotated[str, option("--metric", "-m")]
    """Metric whose figure the labels correct, as the run writes it."""
    against: Annotated[Path | None, option("RUN", panel=Panel.CASES)] = None
    """Another run of the same cases: both answers side by side, where they differ."""
    number: Annotated[int, option("N", "--number", "-n", min=1, panel=Panel.CASES)] = 50
    """Cases, or pairs, to draw."""
    seed: Annotated[int, option(panel=Panel.CASES)] = 0
    """Seed of the draw. More cases with the same seed hold the fewer ones."""
    stratified: Annotated[bool, option(panel=Panel.CASES, rare=True)] = False
    """Draw in proportion to the metric's values, so that the few are not missed."""
    by: Annotated[str, option("NAME")] = ""
    """Who labels; by default the name of the login. Several people may label the same draw."""
    show_judge: Annotated[bool, option(rare=True)] = False
    """Show the metric's value and the run: labels are then biased towards it."""
    output: Annotated[Path, option("FILE", "--output", "-o", panel=Panel.OUTPUT)] = Path(
        "labels.jsonl"
    )
    """File that labels are added to. Its labels are not asked again."""
    page: Annotated[Path | None, option("FILE", panel=Panel.OUTPUT)] = None
    """Write a page to label on, which needs no server and no network, instead of asking here."""


@takes_records
def command(asked: Asked, json: JsonOption = False) -> None:
    """Label answers of a run, drawn at random.

    One key per verdict, blind to the metric's value and to the system. Labels correct a figure
    with --labels FILE in eval, report, compare and gate; a label is of this question with
    this answer on these contexts, so it is gone when they change.

    \b
    Examples:
      ragbench label run -m support -n 50
      ragbench label branch --against main -m support -n 100 --page label.html
      ragbench report run --labels labels.jsonl
    """
    drawn = drawn_from(
        asked.run,
        asked.metric,
        asked.number,
        against=asked.against,
        seed=asked.seed,
        stratified=asked.stratified,
    )
    if asked.page is not None:
        # Of a page that nobody is named for, what anybody said is not asked again.
        left = Session(drawn, asked.output, asked.by).undone()
        write_html(asked.page, label_page(left, by=asked.by, shows_judge=asked.show_judge))
        done = len(drawn.tasks) - len(left.tasks)
        known = f", {done:,} of them labelled in {asked.output}" if done else ""
        console.say(f"page    {asked.page} ({len(drawn.tasks):,} of {drawn.of:,} drawn{known})")
        return
    by = asked.by or os.environ.get("USER") or os.environ.get("USERNAME") or "somebody"
    session = Session(drawn, asked.output, by, shows_judge=asked.show_judge)
    is_done = session.run()
    _print_labels(session.book(), asked.run, asked.against, as_json=json)
    if not is_done:
        console.say(f"{session.left:,} are left: the same command goes on with them.")


class Session:
    """Labels of one person, added to a file as they are given."""

    def __init__(self, drawn: Drawn, path: Path, by: str, *, shows_judge: bool = False) -> None:
        self.drawn, self.path, self.by, self.shows_judge = drawn, path, by, shows_judge
        if path.suffix.lower() in (".csv", ".tsv", ".xlsx", ".json"):
            raise ConfigError(f"{path} would be JSON lines: name another file, such as l.jsonl")
        known = {label.item for label in self.book().labels if by in ("", label.by)}
        asked = [(task, one) for task in drawn.tasks for one in task.answers]
        self._open = [pair for pair in asked if (pair[1].key, drawn.metric.name) not in known]
        self._total, self._given = len(asked), list[int]()
        """And where the file ended before each label that was given."""

    @property
    def left(self) -> int:
        return len(self._open) - len(self._given)

    def book(self) -> LabelBook:
        if not self.path.exists() or not self.path.stat().st_size:
            return LabelBook(())
        return LabelBook(read_people(self.path))

    def undone(self) -> Drawn:
        """Without the cases of which every answer is labelled."""
        tasks = [task for task, _ in self._open]
        left = tuple(task for task in self.drawn.tasks if task in tasks)
        return replace(self.drawn, tasks=left)

    def run(self) -> bool:
        """Asks until all is said; whether it is."""
        choices = {one.key: one.value for one in self.drawn.choices}
        is_long, keys = False, _keys()
        while self.left:
            task, judged = self._open[len(self._given)]
            self._show(task, judged, is_long=is_long)
            key = next(keys, "q")
            if key == "q":
                return False
            is_long = key == "m"
            if key == "u" and self._given:
                with self.path.open("r+b") as file:
                    file.truncate(self._given.pop())
            elif key in choices or key == "s":
                self._add(task, judged, choices.get(key))
        return True

    def _add(self, task: LabelTask, judged: Judged, value: float | None) -> None:
        import orjson

        line = {**self.drawn.line(task, judged), "value": value, "by": self.by}
        try:
            with self.path.open("a+b") as file:
                self._given.append(file.tell())
                if file.tell() and (file.seek(-1, 2), file.read())[1] != b"\n":
                    file.write(b"\n")  # somebody edited it
                file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        except OSError as error:
            raise InputError(f"{self.path} cannot be written: {error.strerror}") from None

    def _show(self, task: LabelTask, judged: Judged, *, is_long: bool) -> None:
        console.data_console().clear()
        place = self._total - self.left + 1
        typer.echo(f"{place:,} of {self._total:,}  {self.drawn.metric.name}  by {self.by}")
        _block("Question", task.question)
        for text in task.references if self.drawn.reads(Need.REFERENCE) else ():
            _block("Right answer", text)
        contexts = judged.contexts if self.drawn.reads(Need.RETRIEVED_CONTEXTS) else ()
        for number, text in enumerate(contexts, 1):
            cut = not is_long and len(text) > _SHORT
            _block(f"Context {number}", f"{text[:_SHORT]} ... (m: more)" if cut else text)
        others = len(task.answers) > 1
        for side, one in zip(("left", "right"), task.answers, strict=False):
            if not self.drawn.reads(Need.RESPONSE):
                continue
            name = f"Answer on the {side}" if others else "Answer"
            _block(f"{name}{'   <- this one' if others and one is judged else ''}", one.answer)
        if self.shows_judge:
            _block("Judge", f"{judged.value:.3f} of {judged.run}")
        words = "   ".join(f"{one.key} {one.word}".rstrip() for one in self.drawn.choices)
        typer.echo(f"\n{self.drawn.metric.definition.summary}\n{ask_text(self.drawn)}")
        typer.echo(f"{words}   s skip   u undo   m more   q stop")


def _block(title: str, text: str) -> None:
    typer.echo(f"\n{title}\n  " + "\n  ".join(shown_text(text).splitlines() or ["(empty)"]))


def _keys() -> Iterator[str]:
    if not sys.stdin.isatty():
        if not sys.stdin.readable():
            raise ConfigError("there is no terminal to label in: write a page with --page FILE")
        while letter := sys.stdin.read(1):
            if not letter.isspace():
                yield letter.lower()
        return
    while True:
        try:
            yield typer.getchar().lower()
        except (EOFError, KeyboardInterrupt):
            return


def _print_labels(book: LabelBook, run: Path, against: Path | None, *, as_json: bool) -> None:
    """What the labels say so far: how far people agree, and what they make of the figures."""
    scored = with_labels(read_run(run), book, validated=True)
    runs = [("b", scored)]
    if against is not None:
        base = with_labels(read_run(against), book)
        runs.insert(0, ("a", under_ids_of(scored, base)[0]))
    found = [*corrections(runs)]
    agreed = [*raters(book.labels)]
    if as_json:
        console.print_json({"corrections": found, "raters": agreed})
        return
    if found:
        draw(corrected_blocks(found))
    for line in (*map(raters_text, agreed), *notes_of(book, [one for _, one in runs])):
        console.say(line)
