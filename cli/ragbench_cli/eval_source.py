"""What an evaluation reads: a dataset with what is recorded of it, and what is said of that."""

from __future__ import annotations

from collections.abc import Generator, Iterable
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


def _formats(typed: str) -> list[str]:
    from ragbench.io.dumps.forms import form_names
    from ragbench.io.fields import readers

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
    def recorded(self) -> tuple[str, dict[str, object]] | None:
        """What recorded answers are called in reports; None where there are none to score."""
        if not self.source.info.recorded or self.choice.ask_again:
            return None
        place = self.choice.answers
        if place is None:
            return "recorded", {"spec": "recorded"}
        return Path(place).name.split(".")[0], {"spec": "recorded", "answers": place}

    @property
    def held(self) -> str:
        from ragbench.safe_text import counted

        info = self.source.info
        cases = "cases" if info.cases is None else counted(info.cases, "case")
        return cases if info.recorded else f"{cases} without recorded answers"

    def check_out(self, folder: Path) -> None:
        """Refuses to write a run over the one that is read."""
        from ragbench.errors import ConfigError

        for info in (self.source.info, self.source.info.answers):
            read = Path(info.path) if info is not None and info.form == "run" else None
            if read is not None and folder.exists() and read.exists() and folder.samefile(read):
                raise ConfigError(f"--out {folder} is the run that is read: choose another folder")

    def entries(self) -> Iterable[Case | Entry]:
        """The cases, with what is recorded of them unless all of it is asked for again."""
        if self.choice.ask_again:
            return (entry.case for entry in self.source)
        return self.source

    def say(self, system: str | None, stages: Iterable[str]) -> None:
        """How it is read, and what is asked of whom."""
        for line in self.source.info.lines():
            console.say(line)
        recorded, looked = self.source.info.recorded, self.source.info.looked
        if system is None:
            console.say("no RAG is asked: what is not recorded is skipped (--rag names one)")
        elif not recorded:
            console.say(f"asking {system} for {' and '.join(stages)}")
        elif self.choice.ask_again:
            what = "everything: what is recorded is not used (--ask-again)"
            console.say(f"asking {system} for {what}")
        else:
            missing = [
                stage + (f" of {left:,}" if recorded.get(stage) else "")
                for stage in stages
                if (left := looked - recorded.get(stage, 0))
            ]
            wanted = " and ".join(missing) or "nothing so far"
            what = f"{wanted}: what is recorded is taken (--ask-again asks anew)"
            console.say(f"asking {system} for {what}")


_ANSWERS = "answers."
"""Before a field in --field: it is one of the file of answers."""


@contextmanager
def opened_source(
    choice: SourceChoice, *, has_rag: bool, has_pipeline: bool
) -> Generator[OpenedSource]:
    """Opens what the options name, for the length of a block."""
    from ragbench.errors import ConfigError
    from ragbench.io.joined import join_answers
    from ragbench.io.sources import open_source

    own = {n: v for n, v in choice.fields.items() if not n.startswith(_ANSWERS)}
    other = {n.removeprefix(_ANSWERS): v for n, v in choice.fields.items() if n not in own}
    if choice.answers is None and choice.answers_format is not None:
        raise ConfigError("--answers-format is for a file of answers: name it with --answers")
    if choice.answers is None and other:
        raise ConfigError(f"--field {_ANSWERS}...: there is no file of answers (--answers FILE)")
    with ExitStack() as stack:
        cases = open_source(
            choice.dataset,
            form=choice.format,
            fields=own,
            split=choice.split if choice.answers is None else None,
            corpus=choice.corpus,
            queries=choice.queries,
            qrels=choice.qrels,
            encoding=choice.encoding,
        )
        stack.enter_context(cases)
        if choice.answers is not None:
            answers = _answers(choice, choice.answers, other)
            cases = stack.enter_context(join_answers(cases, answers))
        if not cases.info.looked:
            for _ in cases:  # says what is wrong with it
                break
        opened = OpenedSource(source=cases, choice=choice)
        if choice.corpus is not None and not has_pipeline:
            _check_corpus(opened, has_rag=has_rag)
        yield opened


def _answers(choice: SourceChoice, where: str, fields: dict[str, str]) -> EntrySource:
    from ragbench.io.sources import open_source

    return open_source(
        where,
        form=choice.answers_format,
        fields=fields,
        split=choice.split,
        corpus=choice.corpus or (choice.dataset if Path(choice.dataset).is_dir() else None),
        encoding=choice.encoding,
        is_join=True,
    )


def _check_corpus(opened: OpenedSource, *, has_rag: bool) -> None:
    """Refuses documents that nobody reads."""
    from ragbench.errors import ConfigError

    used = opened.source.info.answers or opened.source.info
    if used.uses_corpus:
        return
    if has_rag:
        raise ConfigError("--corpus is for the baseline RAG: leave it out or leave out --rag")
    if opened.recorded is not None:
        raise ConfigError(
            f"--corpus has no use: {used.path} has answers recorded, and nobody is asked. "
            "To ask the built-in baseline all the same, add --ask-again"
        )
