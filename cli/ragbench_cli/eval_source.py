"""What an evaluation reads: a dataset with what is recorded of it, and what is said of that."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from ragbench_cli import console
from ragbench_cli.options import CASES, EncodingOption, argument, mapping, option

if TYPE_CHECKING:
    from ragbench.core.case import Case
    from ragbench.core.trace import Entry
    from ragbench.io.entries import EntrySource
    from ragbench.io.source_info import SourceInfo


def _formats(typed: str) -> list[str]:
    from ragbench.io.dumps.forms import form_names
    from ragbench.io.formats import readers

    names = dict.fromkeys((*readers().targets(), *form_names()))
    return [name for name in names if name.startswith(typed)]


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceChoice:
    PANEL: ClassVar = CASES

    dataset: Annotated[str, argument("DATASET")]
    """File or folder with cases, with or without recorded answers; a run; '-' for standard input,
    'hf:OWNER/NAME' for the hub. See: ragbench show formats."""
    answers: Annotated[str | None, option("FILE")] = None
    """File with recorded answers, joined with the cases by id, else by question."""
    corpus: Annotated[str | None, option("PATH")] = None
    """Documents for the baseline RAG, or for a pipeline that names none; by default those next to
    the cases. Also the texts of a source that holds only ids."""
    field: Annotated[list[str] | None, option("TARGET=SOURCE")] = None
    """Where a field is found, such as query=Frage or retrieved_contexts=outputs.docs (dots lead
    into objects); repeatable. For --answers: answers.response=text."""
    ask_again: bool = False
    """Ignore recorded answers and ask the RAG for all."""
    format: Annotated[str | None, option("FORMAT", complete=_formats, rare=True)] = None
    """Format of the dataset; detected if omitted."""
    answers_format: Annotated[str | None, option("FORMAT", complete=_formats, rare=True)] = None
    """Format of --answers; detected if omitted."""
    split: Annotated[str | None, option(rare=True)] = None
    """Part to read: a split of a BEIR or Hugging Face dataset, a provider or prompt of promptfoo.
    With --answers, the part of that file."""
    queries: Annotated[Path | None, option(rare=True)] = None
    """File with the queries of a TREC run."""
    qrels: Annotated[Path | None, option(rare=True)] = None
    """Relevance judgements (qrels) of a TREC run; by default those next to it or in the corpus
    folder."""
    encoding: EncodingOption = None

    @property
    def fields(self) -> dict[str, str]:
        return mapping(self.field, "--field") or {}

    @property
    def identity(self) -> tuple[object, ...]:
        """What distinguishes the source from others that begin with the same dataset."""
        beside = [None if path is None else str(path) for path in (self.queries, self.qrels)]
        named = (
            *(self.format, sorted(self.fields.items()), self.split, *beside),
            *(self.answers, self.answers_format, self.ask_again),
        )
        return tuple(value for value in named if value)


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenedSource:
    source: EntrySource
    choice: SourceChoice

    @property
    def info(self) -> SourceInfo:
        return self.source.info

    @property
    def is_recorded(self) -> bool:
        """Whether there is something to score without asking anybody."""
        return bool(self.info.recorded) and not self.choice.ask_again

    @property
    def recorded(self) -> tuple[str, dict[str, object]] | None:
        """What recorded answers are called in reports; None where there are none to score."""
        if not self.is_recorded:
            return None
        place = self.choice.answers
        if place is None:
            return "recorded", {"spec": "recorded"}
        return Path(place).name.split(".")[0], {"spec": "recorded", "answers": place}

    @property
    def held(self) -> str:
        from ragbench.io.source_info import counted

        cases = "cases" if self.info.cases is None else counted(self.info.cases, "case")
        return f"{cases} without recorded answers" if not self.info.recorded else cases

    @property
    def notes(self) -> tuple[str, ...]:
        return () if self.choice.ask_again else self.info.notes

    def check_out(self, folder: Path) -> None:
        """Refuses to write a run over the one that is read."""
        from ragbench.errors import ConfigError

        for info in (self.info, self.info.answers):
            if info is not None and info.form == "run" and _is_same(folder, Path(info.path)):
                raise ConfigError(f"--out {folder} is the run that is read: choose another folder")

    def entries(self) -> Iterable[Case | Entry]:
        """The cases, with what is recorded of them unless all of it is asked for again."""
        if self.choice.ask_again:
            return (entry.case for entry in self.source)
        return self.source

    def lines(self, system: str | None, stages: Iterable[str]) -> Iterator[str]:
        """How it is read, and what is asked of whom."""
        yield from self.info.lines()
        recorded = self.info.recorded
        if system is None:
            yield "no RAG is asked: what is not recorded is skipped (--rag names one)"
            return
        if not recorded:
            yield f"asking {system} for {' and '.join(stages)}"
            return
        if self.choice.ask_again:
            yield f"asking {system} for everything: what is recorded is not used (--ask-again)"
            return
        looked = self.info.looked
        missing = [
            stage + (f" of {left:,}" if recorded.get(stage) else "")
            for stage in stages
            if (left := looked - recorded.get(stage, 0))
        ]
        wanted = " and ".join(missing) or "nothing so far"
        yield f"asking {system} for {wanted}: what is recorded is taken (--ask-again asks anew)"


_ANSWERS = "answers."
"""Before a field in --field: it is one of the file of answers."""


@contextmanager
def opened_source(
    choice: SourceChoice, *, has_rag: bool, has_pipeline: bool
) -> Generator[OpenedSource]:
    """Opens what the options name, for the length of a block."""
    from ragbench.io.joined import join_answers

    own = {n: v for n, v in choice.fields.items() if not n.startswith(_ANSWERS)}
    other = {n.removeprefix(_ANSWERS): v for n, v in choice.fields.items() if n not in own}
    _check_answers(choice, other)
    with ExitStack() as stack:
        cases = stack.enter_context(_cases(choice, own))
        if choice.answers is not None:
            cases = stack.enter_context(
                join_answers(cases, _answers(choice, choice.answers, other))
            )
        opened = OpenedSource(source=cases, choice=choice)
        if not cases.info.looked:
            for _ in cases:  # says what is wrong with it
                break
        if not has_pipeline:
            _check_corpus(opened, has_rag=has_rag)
        yield opened


def _check_answers(choice: SourceChoice, fields: dict[str, str]) -> None:
    """Refuses what is said of a file of answers that is not named."""
    from ragbench.errors import ConfigError

    if choice.answers is None and choice.answers_format is not None:
        raise ConfigError("--answers-format is for a file of answers: name it with --answers")
    if choice.answers is None and fields:
        raise ConfigError(f"--field {_ANSWERS}...: there is no file of answers (--answers FILE)")


def _cases(choice: SourceChoice, fields: dict[str, str]) -> EntrySource:
    from ragbench.io.sources import open_source

    return open_source(
        choice.dataset,
        form=choice.format,
        fields=fields,
        split=choice.split if choice.answers is None else None,
        corpus=choice.corpus,
        queries=choice.queries,
        qrels=choice.qrels,
        encoding=choice.encoding,
    )


def _answers(choice: SourceChoice, where: str, fields: dict[str, str]) -> EntrySource:
    from ragbench.io.sources import open_source

    return open_source(
        where,
        form=choice.answers_format,
        fields=fields,
        split=choice.split,
        corpus=choice.corpus or _folder(choice.dataset),
        encoding=choice.encoding,
        is_join=True,
    )


def _check_corpus(opened: OpenedSource, *, has_rag: bool) -> None:
    """Refuses documents that nobody reads."""
    from ragbench.errors import ConfigError

    used = opened.info.answers or opened.info
    if opened.choice.corpus is None or used.uses_corpus:
        return
    if has_rag:
        raise ConfigError("--corpus is for the baseline RAG: leave it out or leave out --rag")
    if opened.is_recorded:
        raise ConfigError(
            f"--corpus has no use: {used.path} has answers recorded, and nobody is asked. "
            "To ask the built-in baseline all the same, add --ask-again"
        )


def _is_same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


def _folder(dataset: str) -> str | None:
    """The dataset itself, where it is a folder that may hold the documents."""
    return dataset if Path(dataset).is_dir() else None


def say_lines(opened: OpenedSource, system: str | None, stages: Iterable[str]) -> None:
    for line in opened.lines(system, stages):
        console.say(line)
