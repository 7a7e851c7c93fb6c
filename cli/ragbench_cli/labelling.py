"""Labelling in a terminal: one answer at a time, a key for each verdict."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import orjson
import typer

from ragbench.core.labels import Drawn, Judged, LabelTask
from ragbench.core.metric import Need
from ragbench.core.run_scores import under_ids_of
from ragbench.errors import ConfigError, InputError
from ragbench.gate.labels import corrections, notes_of
from ragbench.gate.runs import read_run
from ragbench.io.people import LabelBook, read_people
from ragbench.safe_text import shown_text
from ragbench.verbs.label import raters, with_labels
from ragbench.views.labels import CORRECTED_COLUMNS, ask_text, corrected_rows, raters_text
from ragbench_cli import console

_SHORT = 700
"""Letters of a context that are shown at first."""


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


def print_labels(
    book: LabelBook, run: Path, against: Path | None, *, as_json: bool = False
) -> None:
    """What the labels say so far: how far people agree, and what they make of the figures."""
    import msgspec

    from ragbench_cli.tables import draw, fitted_table

    scored = with_labels(read_run(run), book, validated=True)
    runs = [("b", scored)]
    if against is not None:
        base = with_labels(read_run(against), book)
        runs.insert(0, ("a", under_ids_of(scored, base)[0]))
    found = [*corrections(runs)]
    agreed = [*raters(book.labels)]
    if as_json:
        console.print_json(msgspec.to_builtins({"corrections": found, "raters": agreed}))
        return
    page = console.data_console()
    if found:
        typer.echo("")
        draw(page, [fitted_table(page, CORRECTED_COLUMNS, [*corrected_rows(found)], missed=())])
    for line in (*map(raters_text, agreed), *notes_of(book, [one for _, one in runs])):
        console.say(line)
