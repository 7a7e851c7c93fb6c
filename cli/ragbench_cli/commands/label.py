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
from ragbench.private_files import open_private
from ragbench.safe_text import shown_text
from ragbench.verbs.label import draw as drawn_from
from ragbench.verbs.label import raters, with_labels
from ragbench.views.html.page import write_html
from ragbench.views.labels import ask_text, label_page, raters_text
from ragbench_cli import console
from ragbench_cli.options import JsonOption, Panel, RunArgument, option, takes_records
from ragbench_cli.output import draw
from ragbench_cli.report_tables import corrected_blocks

_LONGEST_AT_FIRST = 700
"""Letters of a context that are shown until the key m asks for more."""


class LabelOptions(Record):
    """Which answers are labelled, by whom, and where the labels go."""

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
def command(options: LabelOptions, json: JsonOption = False) -> None:
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
        options.run,
        options.metric,
        options.number,
        against=options.against,
        seed=options.seed,
        stratified=options.stratified,
    )
    # The page is labelled in a browser, without a session here.
    if options.page is not None:
        _write_page(options.page, drawn, options)
        return
    # Labels need a name to be told apart from other people's; a container may have no login.
    login = os.environ.get("USER") or os.environ.get("USERNAME") or "somebody"
    session = Session(drawn, options.output, options.by or login, shows_judge=options.show_judge)
    is_done = session.run()
    _print_labels(session.book(), options.run, options.against, as_json=json)
    if not is_done:
        console.say(f"{session.left:,} are left: the same command goes on with them.")


def _write_page(path: Path, drawn: Drawn, options: LabelOptions) -> None:
    """Writes an HTML page to label drawn answers on, without those that are labelled already.

    It can be sent to people who have no ragbench: it saves their labels as a file for --labels.
    """
    # Without --by, labels of anybody count.
    undone = Session(drawn, options.output, options.by).undone()
    write_html(path, label_page(undone, by=options.by, shows_judge=options.show_judge))
    counts = f"{len(drawn.tasks):,} of {drawn.of:,} drawn"
    done = len(drawn.tasks) - len(undone.tasks)
    if done:
        counts += f", {done:,} of them labelled in {options.output}"
    console.say(f"page    {path} ({counts})")


class Session:
    """Labels of one person, added to a file as they are given.

    Args:
        drawn: the answers to label, in their order.
        path: the file, with labels of earlier sessions or of other people.
        by: who labels; empty where labels of anybody count as done.
        shows_judge: whether the metric's value is shown with each answer.
    """

    def __init__(self, drawn: Drawn, path: Path, by: str, *, shows_judge: bool = False) -> None:
        """Opens the labels of a file, so that labelling goes on with the answers that have none.

        A file that is no JSON lines is refused, since labels are added line by line.

        Args:
            drawn: the answers to label, in their order.
            path: the file, with labels of earlier sessions or of other people.
            by: who labels; empty where labels of anybody count as done.
            shows_judge: whether the metric's value is shown with each answer.
        """
        # Labels are added line by line, after which a file of this kind could no longer be read.
        if path.suffix.lower() in (".csv", ".tsv", ".xlsx", ".json"):
            raise ConfigError(f"{path} would be JSON lines: name another file, such as l.jsonl")
        self.drawn = drawn
        self.path = path
        self.by = by
        self.shows_judge = shows_judge
        labelled = {label.item for label in self.book().labels if by in ("", label.by)}
        # Of all drawn answers, also those that earlier sessions have labelled: a person sees the
        # whole.
        self._total = 0
        self._open: list[tuple[LabelTask, Judged]] = []
        """The answers that have no label yet, in the order in which they are shown."""
        for task in drawn.tasks:
            for answer in task.answers:
                self._total += 1
                if (answer.key, drawn.metric.name) not in labelled:
                    self._open.append((task, answer))
        self._ends_before: list[int] = []
        """The length of the file of labels before each label of this session: undoing cuts the file
        there."""

    @property
    def left(self) -> int:
        """The number of drawn answers that have no label yet.

        Undoing a label raises it again.
        """
        return len(self._open) - len(self._ends_before)

    def book(self) -> LabelBook:
        """All labels of the session's file: of this and other sessions, and of other people.

        They are read anew each time, since other people may label into the same file.
        """
        # A reader of tables reports an empty file as an error; here it is a beginning.
        if not self.path.exists() or not self.path.stat().st_size:
            return LabelBook(())
        return LabelBook(read_people(self.path))

    def undone(self) -> Drawn:
        """The drawn cases without those of which every answer is labelled.

        Of a pair of runs a case stays whole: its two answers are judged beside each other.
        """
        open_tasks = [task for task, _ in self._open]
        tasks = tuple(task for task in self.drawn.tasks if task in open_tasks)
        return replace(self.drawn, tasks=tasks)

    def run(self) -> bool:
        """Asks for one label after another; False if the person stops before the last one.

        A key of a verdict adds a label, and s one without a value. u takes the last label of this
        session back, m shows the same answer in full, q stops; other keys show the answer again.
        """
        values = {choice.key: choice.value for choice in self.drawn.choices}
        keys = _pressed_keys()
        is_long = False
        while self.left:
            # The labels of this session are of the first open answers, so their number is the next
            # one's place.
            task, answer = self._open[len(self._ends_before)]
            self._show_task(task, answer, is_long=is_long)
            # The end of the input stops as q does.
            key = next(keys, "q")
            if key == "q":
                return False
            # Only m shows the long form of a text; any other key goes back to the short one.
            is_long = key == "m"
            if key == "u" and self._ends_before:
                end = self._ends_before.pop()
                # The label is the file's last line: the file is cut where it began.
                with self.path.open("r+b") as file:
                    file.truncate(end)
            elif key in values or key == "s":
                self._add_label(task, answer, values.get(key))
        return True

    def _add_label(self, task: LabelTask, answer: Judged, value: float | None) -> None:
        """Adds the label of an answer to the session's file at once.

        A person who stops at any time keeps all labels.

        Args:
            value: None where the person skips the answer.
        """
        import orjson

        line = {**self.drawn.line(task, answer), "value": value, "by": self.by}
        try:
            with open_private(self.path, "a+b") as file:
                end = file.tell()
                # Noted before the line is written, so that undoing also takes a line end that is
                # added here.
                self._ends_before.append(end)
                if end:
                    file.seek(-1, os.SEEK_END)
                    # An editor may have left the last line without its end.
                    if file.read() != b"\n":
                        file.write(b"\n")
                file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        except OSError as error:
            raise InputError(f"{self.path} cannot be written: {error.strerror}") from None

    def _show_task(self, task: LabelTask, answer: Judged, *, is_long: bool) -> None:
        """Draws an answer to label on the screen: the question, its texts, and the keys.

        Only what the metric reads is shown: a person who knows more than the metric would label
        something else.
        """
        console.data_console().clear()
        # The answer that is labelled now, counted from 1.
        place = self._total - self.left + 1
        typer.echo(f"{place:,} of {self._total:,}  {self.drawn.metric.name}  by {self.by}")
        _print_block("Question", task.question)
        if self.drawn.reads(Need.REFERENCE):
            for text in task.references:
                _print_block("Right answer", text)
        if self.drawn.reads(Need.RETRIEVED_CONTEXTS):
            for number, text in enumerate(answer.contexts, 1):
                if len(text) > _LONGEST_AT_FIRST and not is_long:
                    text = f"{text[:_LONGEST_AT_FIRST]} ... (m: more)"
                _print_block(f"Context {number}", text)
        if self.drawn.reads(Need.RESPONSE):
            self._show_answers(task, answer)
        if self.shows_judge:
            _print_block("Judge", f"{answer.value:.3f} of {answer.run}")
        # A choice without a word is a number, such as a star: its key says all.
        keys = [f"{choice.key} {choice.word}".rstrip() for choice in self.drawn.choices]
        keys += ["s skip", "u undo", "m more", "q stop"]
        typer.echo(f"\n{self.drawn.metric.definition.summary}\n{ask_text(self.drawn)}")
        typer.echo("   ".join(keys))

    def _show_answers(self, task: LabelTask, answer: Judged) -> None:
        """Draws the answer to label, or both where two runs are compared.

        The answer to label is marked.
        """
        # A single answer has no side, and no mark.
        if len(task.answers) == 1:
            _print_block("Answer", answer.answer)
            return
        for side, shown in zip(("left", "right"), task.answers, strict=False):
            # By identity: both answers may have the same text.
            mark = "   <- this one" if shown is answer else ""
            _print_block(f"Answer on the {side}{mark}", shown.answer)


def _print_block(title: str, text: str) -> None:
    """Prints a text of a run below its title, indented; its letters cannot steer the terminal.

    A person who labels reads questions, answers and contexts in such blocks.
    """
    typer.echo(f"\n{title}")
    lines = shown_text(text).splitlines()
    if not lines:
        lines = ["(empty)"]
    for line in lines:
        typer.echo(f"  {line}")


def _pressed_keys() -> Iterator[str]:
    """The keys that a person presses, in small letters; from a pipe its letters, for scripts.

    Nothing more comes after Ctrl-C or the end of input.
    """
    if not sys.stdin.isatty():
        # A closed standard input can be read no more.
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
    """Prints how far people agree so far, and how their labels correct the run's figures.

    A person sees after each session whether more labels are worth the time.

    Args:
        against: the run that the labelled one is compared with; None without one.
    """
    scored = with_labels(read_run(run), book, validated=True)
    # As in a comparison, the first run is a and the one that is compared with it b.
    runs = [("b", scored)]
    if against is not None:
        base = with_labels(read_run(against), book)
        base_under_same_ids, _ = under_ids_of(scored, base)
        runs.insert(0, ("a", base_under_same_ids))
    corrected = list(corrections(runs))
    agreements = list(raters(book.labels))
    if as_json:
        console.print_json({"corrections": corrected, "raters": agreements})
        return
    if corrected:
        draw(corrected_blocks(corrected))
    for agreement in agreements:
        console.say(raters_text(agreement))
    for note in notes_of(book, [scores for _, scores in runs]):
        console.say(note)
