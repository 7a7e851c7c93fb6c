"""What a command evaluates: the cases, the RAG that is asked, the folder of the run."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ragbench.errors import ConfigError, DataError, Problem
from ragbench.safe_text import counted
from ragbench_cli import console
from ragbench_cli.options import json_object, mapping

if TYPE_CHECKING:
    from ragbench.core.chunk import Document
    from ragbench.io.entries import EntrySource, SourceInfo
    from ragbench.io.only import Only
    from ragbench.ledger.folder import Manifest
    from ragbench.ledger.project import Project
    from ragbench.llm.budget import Budget
    from ragbench.llm.session import Chat
    from ragbench.post.stage import PostRetrieval
    from ragbench.search.pipeline.baseline import BaselineRAG
    from ragbench.stages.rag import RAG, Locator
    from ragbench_cli.eval_options import Keeping, SourceChoice, SystemChoice


class System(NamedTuple):
    """A RAG with what reports say of it; or nobody, where recorded answers are scored."""

    rag: RAG | None
    name: str
    description: dict[str, Any]
    """What distinguishes it from others; the same description may reuse its results."""
    post_retrieval: PostRetrieval | None = None
    concurrency: int | None = None
    """Calls in flight that its description asks for; None where it asks for none."""
    chats: tuple[Chat, ...] = ()
    documents: Callable[[], Iterable[Document]] | None = None
    """Gives what it searches; None where only the system knows."""
    locator: Locator | None = None
    notes: tuple[str, ...] = ()
    """What a reader of its scores must know of it."""


BASELINE = "baseline"
"""What ``--rag`` calls the keyword RAG that ragbench brings along. It is asked only by its name."""


class DocumentsBeside(NamedTuple):
    """The documents of a command that brings none of its own."""

    dataset: str
    corpus: str | None = None
    format: str | None = None

    def read(self) -> Iterable[Document]:
        """The documents that ``--corpus`` names, or those beside the dataset's file.

        The baseline and pipelines search them. A guess at their encoding is reported.
        """
        from ragbench.io.encoding import encoding_of
        from ragbench.io.read import read_documents

        if self.corpus:
            # Its format is recognised: the format that the user names is the dataset's.
            source = self.corpus
            form = None
        # The dataset's format holds for documents beside it, too.
        else:
            source = _documents_beside(self.dataset)
            form = self.format
        encoding, guess = encoding_of(source)
        if guess:
            console.say(guess)
        return read_documents(source, format=form, encoding=encoding)

    def read_for_baseline(self) -> list[Document]:
        """The documents that the keyword RAG (``--rag baseline``) searches.

        Without documents it could find nothing, and the error names the option.

        Raises:
            ConfigError: no documents are beside the cases, and none are named.
        """
        if self.corpus is not None:
            # Named documents that cannot be read are an error of their own.
            return list(self.read())
        documents: list[Document] = []
        # A missing file beside the cases means that there are none.
        with suppress(DataError):
            documents += self.read()
        if documents:
            return documents
        dataset = shlex.quote(self.dataset)
        raise ConfigError(
            f"the baseline RAG searches documents, and there are none beside {self.dataset}. "
            f"Name them:\n  ragbench eval {dataset} --rag {BASELINE} --corpus DOCUMENTS"
        )


def no_system(choice: SourceChoice, source: SourceInfo) -> ConfigError:
    """The error of an evaluation without a RAG or recorded answers, with the ways to go on.

    A first user sees the three commands that he may have meant, ready to paste.
    """
    if source.recorded:
        lacking = "--ask-again asks a system instead of reading the recorded answers"
    else:
        # A stream has no number of cases.
        cases = "cases"
        if source.cases is not None:
            cases = counted(source.cases, "case")
        lacking = f"{choice.dataset} holds {cases} without recorded answers"
    # The user's own file in the commands, so that they can be pasted.
    command = f"ragbench eval {shlex.quote(choice.dataset)}"
    corpus = ""
    if choice.corpus is not None:
        corpus = f" --corpus {shlex.quote(choice.corpus)}"
    # Notes on fields that were not read: one of these may hold the answers.
    field_notes = ""
    for note in (*source.notes, *source.all_hints):
        if "--field" in note:
            field_notes += f"\n{note}"
    return ConfigError(
        f"{lacking}, and no system is named that could be measured. Either\n"
        f"  ask your RAG:            {command} --rag my_rag.py:ask\n"
        f"                           (a service: --rag POST:https://host/ask, docs/http.md)\n"
        f"  or score its outputs:    {command} --outputs results.jsonl\n"
        f"                           (in a field of the dataset: --field response=NAME)\n"
        f"  or try a keyword RAG:    {command} --rag {BASELINE}{corpus}"
        f"{field_notes}"
    )


def rag_of(manifest: Manifest) -> tuple[str, str] | None:
    """The RAG of a stored run and its arguments as JSON, to ask the same RAG again.

    It is None for a pipeline, for a file that is not here, and where an argument is a secret: the
    run does not tell enough then.
    """
    description = manifest.rag.description
    spec = str(description.get("spec") or "")
    file, colon, _ = spec.rpartition(":")
    # A run keeps the name of a file, not where it lies.
    is_missing = file.endswith(".py") and not Path(file).is_file()
    has_secret = "***" in json.dumps(description)  # masked when the run was written
    if not colon or is_missing or has_secret:
        return None
    arguments: object = description.get("arguments") or {}
    return spec, json.dumps(arguments)


_ANSWERS = ("outputs.", "answers.")
"""Before a field in --field: it is one of the file of outputs. The second is the old name."""


@contextmanager
def opened_source(
    choice: SourceChoice, system: SystemChoice, only: Only | None
) -> Generator[EntrySource]:
    """The cases that options choose, with recorded outputs joined to them, for a block's length.

    The first case is read at once, so that a wrong file shows before a system is opened. With
    outputs, fields, split and format of their own file apply to these.
    """
    from ragbench.io.sources import open_source
    from ragbench.io.trec import NO_TOPICS

    fields, answer_fields = fields_of(choice)
    if choice.answers is None:
        _check_without_outputs(choice, answer_fields)
    # With --outputs the split is one of the file of outputs, and not of the dataset.
    split: str | None = None
    if choice.answers is None:
        split = choice.split
    is_asked = system.rag is not None or system.pipeline is not None
    with ExitStack() as stack:
        source = open_source(
            choice.dataset,
            form=choice.format,
            fields=fields,
            split=split,
            corpus=choice.corpus,
            queries=choice.queries,
            qrels=choice.qrels,
            encoding=choice.encoding,
            only=only,
        )
        stack.enter_context(source)
        if choice.answers is not None:
            from ragbench.io.joined import join_answers

            # Outputs in TREC's form name documents, whose texts are in the dataset's folder.
            corpus = choice.corpus
            if corpus is None and Path(choice.dataset).is_dir():
                corpus = choice.dataset
            with _fields_of_outputs(choice.answers):
                answers = open_source(
                    choice.answers,
                    form=choice.answers_format,
                    fields=answer_fields,
                    split=choice.split,
                    corpus=corpus,
                    encoding=choice.encoding,
                    is_join=True,
                )
                joined = join_answers(
                    source,
                    answers,
                    # Where a system is asked, it answers the cases that have no recorded answer.
                    keep_unanswered=is_asked,
                    min_joined=choice.min_joined,
                )
            source = stack.enter_context(joined)
        if is_asked and NO_TOPICS in source.info.notes:
            raise ConfigError(
                f"{choice.dataset} has judgements and no topics: there is no question to ask. Add "
                "queries.tsv (id, tab, text) to the folder"
            )
        # Nothing was looked at so far, so an error in the file has not shown yet.
        if not source.info.looked:
            next(iter(source), None)  # raises what is wrong with the first case
        # A pipeline names its own corpus, and reads the option itself.
        if choice.corpus is not None and system.pipeline is None:
            _check_corpus(source, choice, system)
        yield source


def _check_without_outputs(choice: SourceChoice, answer_fields: Mapping[str, str]) -> None:
    """Refuses options about a file of recorded outputs where ``--outputs`` names none.

    Nothing would read these options.
    """
    if choice.answers_format is not None:
        raise ConfigError("--outputs-format needs --outputs")
    # 0 demands nothing, and is the default.
    if choice.min_joined:
        raise ConfigError("--min-joined needs --outputs")
    if answer_fields:
        raise ConfigError(f"--field {_ANSWERS[0]}...: there is no file of outputs (--outputs FILE)")


def fields_of(choice: SourceChoice) -> tuple[dict[str, str], dict[str, str]]:
    """The mappings of ``--field``: those for the dataset, and those for the file of outputs.

    A name with the prefix ``outputs.`` is one of the file of outputs.
    """
    fields: dict[str, str] = {}
    answer_fields: dict[str, str] = {}
    for name, path in mapping(choice.field or (), "--field").items():
        if name.startswith(_ANSWERS):
            # Cut at the first dot alone: a path of a field may hold others.
            _, _, answer_field = name.partition(".")
            answer_fields[answer_field] = path
        else:
            fields[name] = path
    return fields, answer_fields


@contextmanager
def _fields_of_outputs(path: str | Path) -> Generator[None]:
    """Has errors about the file of outputs name ``--field outputs.NAME``, as the command takes it.

    Its reader does not know that a dataset is read beside it, whose fields have no such prefix.
    """
    try:
        yield
    except DataError as error:
        flag = f"--field {_ANSWERS[0]}"
        problems: list[Problem] = []
        for problem in error.problems:
            message = problem.message
            # Errors about the dataset, read in the same block, keep their flags.
            if problem.path == str(path) and flag not in message:
                # Only before NAME=: an option of another use stays.
                message = re.sub(r"--field (?=\w+=)", flag, message)
            problems.append(replace(problem, message=message))
        raise DataError(problems) from error


def _check_corpus(source: EntrySource, choice: SourceChoice, system: SystemChoice) -> None:
    """Refuses ``--corpus`` where nothing reads it.

    The user would believe that a system searches these documents.
    """
    # Answers beside the dataset have an info of their own: whether they read a corpus decides.
    info = source.info.answers or source.info
    if info.uses_corpus or system.rag == BASELINE:
        return
    # A user's RAG has its documents itself.
    if system.rag is not None:
        raise ConfigError(f"--corpus is for the baseline RAG (--rag {BASELINE}): leave it out")
    if source.info.recorded and not choice.ask_again:
        raise ConfigError(
            f"--corpus is not used: {info.path} has recorded answers, and no RAG is called. "
            f"To call the baseline RAG, add --rag {BASELINE} --ask-again"
        )


def say_source(source: SourceInfo, choice: SourceChoice, system: System) -> None:
    """Reports on standard error how the dataset is read, and for what the system is asked.

    A wrong guess about a column shows here, before anything is paid.
    """
    for line in source.lines():
        console.say(line)
    if system.rag is None:
        console.say("no RAG is asked: what is not recorded is skipped (--rag names one)")
        return
    families = {"retrieval": "retrieve", "generation": "generate"}
    stages = [stage for family, stage in families.items() if family in system.rag.families]
    recorded = source.recorded
    # None is recorded: every stage is asked for every case.
    if not recorded:
        purpose = " and ".join(stages)
    elif choice.ask_again:
        purpose = "everything: what is recorded is not used (--ask-again)"
    else:
        missing: list[str] = []
        for stage in stages:
            # Of the cases that were looked at: a long dataset is not counted to its end.
            count = source.looked - recorded.get(stage, 0)
            # A part is recorded: the number matters. Without any, all are asked.
            if count and recorded.get(stage):
                missing.append(f"{stage} of {count:,}")
            elif count:
                missing.append(stage)
        stages_to_ask = " and ".join(missing) or "nothing so far"
        purpose = f"{stages_to_ask}: what is recorded is taken (--ask-again asks anew)"
    console.say(f"asking {system.name} for {purpose}")


@contextmanager
def chosen_system(
    rag: str | None,
    pipeline: Path | None,
    rag_args: str | None,
    documents: DocumentsBeside,
    *,
    recorded: str | None = None,
    config: Path | None = None,
    budget: Budget | None = None,
) -> Generator[System]:
    """The system under evaluation that options choose, open for a block.

    Where answers are recorded it has no RAG, and is only scored.

    Args:
        recorded: the file of recorded answers, empty where they are in the dataset; None for none.
        config: where settings of language models stand that a pipeline does not give.
        budget: what a pipeline's models may cost.
    """
    # Read even where it is refused below: a mistake in the JSON is named first.
    arguments = json_object(rag_args, "--rag-args") if rag_args else {}
    if pipeline is not None:
        for name, value in (("--rag", rag), ("--rag-args", rag_args)):
            if value is not None:
                raise ConfigError(
                    f"{name} and --pipeline cannot be combined: the file describes the whole "
                    "system; give one of them"
                )
        with _open_pipeline(pipeline, documents, config, budget) as system:
            yield system
        return
    if rag is None and recorded is not None:
        if arguments:
            raise ConfigError("--rag-args is not used: answers are recorded, and no RAG is called")
        # "spec" is how later commands recognise recorded answers.
        description = {"spec": "recorded"}
        if recorded:
            description["answers"] = recorded
        # The name of a file of outputs, for the run's folder.
        yield System(None, Path(recorded).name.split(".")[0] or "recorded", description)
        return
    if rag is None:
        raise ConfigError("no RAG is named: name yours with --rag or --pipeline")
    from ragbench.rag.load import describe_rag, load_rag
    from ragbench.rag.service import mapping_notes
    from ragbench.rag.service_mapping import read_service

    if rag == BASELINE:
        baseline, searched = _baseline_over(documents, arguments)
        description = dict(describe_rag(baseline, BASELINE, arguments))
        # The documents are read already: handing them on saves a second reading.
        yield System(baseline, BASELINE, description, documents=lambda: searched)
        return
    loaded = load_rag(rag, arguments)
    service = read_service(rag)
    # Of "app:MyRAG" the class, of a whole path what is behind the last colon.
    _, _, name = rag.rpartition(":")
    if service is not None:
        name = service.name
    description = dict(describe_rag(loaded, rag, arguments))
    # Only documents that the user names: those beside the dataset need not be what a RAG searches.
    read = documents.read if documents.corpus is not None else None
    yield System(loaded, name, description, documents=read, notes=mapping_notes(loaded))


@contextmanager
def _open_pipeline(
    path: Path, documents: DocumentsBeside, config: Path | None, budget: Budget | None
) -> Generator[System]:
    """The system that a pipeline's YAML file describes, open for the length of a block.

    Its notes are reported, also those that searching adds.
    """
    import os

    from ragbench.rag.load import describe_rag
    from ragbench.search.pipeline.read import load_pipeline
    from ragbench_cli.models import config_section

    llm, _ = config_section(config)
    pipeline = load_pipeline(path, environ=os.environ, llm=llm, budget=budget)
    # Two corpora: which one is searched would be a guess.
    if documents.corpus is not None and pipeline.corpus is not None:
        raise ConfigError(f"--corpus is not used: {path} names its own corpus, {pipeline.corpus}")
    with pipeline.open(documents.read) as opened:
        notes = list(opened.retriever.notes)
        for note in notes:
            console.say(note)
        rag, post_retrieval = opened.staged()
        description = dict(describe_rag(rag, "pipeline", {"pipeline": opened.identity}))
        yield System(
            rag,
            pipeline.name,
            description,
            post_retrieval=post_retrieval,
            concurrency=pipeline.orchestration.concurrency,
            chats=pipeline.chats,
            documents=None if opened.documents is None else lambda: opened.documents or (),
            locator=opened.locator,
            notes=tuple(notes),
        )
        # Searching may have added notes.
        for note in opened.retriever.notes[len(notes) :]:
            console.say(note)


def _baseline_over(
    documents: DocumentsBeside, arguments: dict[str, Any]
) -> tuple[BaselineRAG, list[Document]]:
    """The keyword RAG that ``--rag baseline`` names, and the documents that it searches.

    It is a yardstick that needs no model: a user's own RAG should beat it.

    Args:
        arguments: its settings, from ``--rag-args``; an unknown one is an error that lists all.
    """
    from ragbench.search.pipeline.baseline import BaselineRAG

    # The parameters of the class are the settings: its documents are given here.
    settings = sorted(signature(BaselineRAG).parameters.keys() - {"documents"})
    unknown = sorted(set(arguments).difference(settings))
    if unknown:
        raise ConfigError(
            f"--rag-args: the baseline RAG has no setting {', '.join(unknown)}. It has "
            f"{', '.join(settings)}"
        )
    # After the check: a wrong setting need not wait for the documents.
    searched = documents.read_for_baseline()
    try:
        return BaselineRAG(searched, **arguments), searched
    # The types are checked by the class itself.
    except TypeError as error:
        raise ConfigError(f"--rag-args: a setting has the wrong type: {error}") from error


def _documents_beside(dataset: str) -> str:
    """The path of the documents next to a dataset's file (``corpus.*``); else the dataset itself.

    A folder knows its own documents.
    """
    if dataset == "-":
        raise ConfigError(
            "standard input brings cases alone, and the baseline RAG needs documents: name them "
            "with --corpus"
        )
    path = Path(dataset)
    # A dataset's own name ("data.jsonl"), or one that is a corpus itself.
    if not path.is_file():
        return dataset  # a folder, whose reader knows where its documents are
    name = path.stem.split(".")[0]
    corpus_files = sorted(path.parent.glob("corpus.*"))
    # A file that is called corpus itself has no other one beside it.
    if corpus_files and name != "corpus":
        return str(corpus_files[0])
    return dataset


def run_folder(
    keeping: Keeping, name: Callable[[], str], project: Callable[[], Project], *, quiet: bool
) -> Path:
    """The folder of a run; what changed since the last run is reported, where that matters.

    The same command always arrives at the same folder, and at another one where something changed
    since. One that the user names stays: what changed since is reported, since it is about to be
    asked again.

    Args:
        name: gives the name of the run where the user names no folder.
        project: gives the files and packages that a change is looked for in.
    """
    from ragbench.ledger.folder import RunFolder
    from ragbench.stages.reuse import run_version

    out = keeping.out
    # The user has decided already what becomes of stored answers.
    is_decided = keeping.fresh or keeping.reuse
    if out is not None:
        is_new = not RunFolder(path=out).exists
        if is_decided or quiet or is_new:
            return out  # nothing is to be reported: no files need be looked at
    version = run_version(out or Path("reports") / name(), project())
    earlier = version.earlier  # the run that something changed since
    if earlier is None or is_decided:
        return out or earlier or version.folder
    # A folder that the user names is compared with its own last run only.
    if quiet or out not in (None, earlier):
        return out or version.folder
    reasons = list(version.because[:3])
    if len(version.because) > 3:
        reasons.append("...")
    change = "no telling what changed since"
    if version.is_changed:
        change = "changed since"
    console.say(f"{change} {earlier}: {'; '.join(reasons)}")
    consequence = f"This run goes to {version.folder}"
    if out is not None:
        consequence = "The RAG is asked again"
    console.say(f"{consequence}; --reuse keeps the stored answers instead.")
    console.say(f"Other metrics of those, asking nothing: ragbench eval {earlier} -m ...")
    if out is None:
        console.say(f"Compare them with: ragbench compare {earlier} {version.folder}")
    return out or version.folder
