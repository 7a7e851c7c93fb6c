"""The RAG that a command asks; what datasets, RAGs, runs and collections are called."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from ragbench.errors import ConfigError, DataError
from ragbench_cli import console
from ragbench_cli.options import RagArgsOption, amount, json_object, option

if TYPE_CHECKING:
    from ragbench.core.chunk import Document
    from ragbench.ledger.project import Project
    from ragbench.llm.book import Receipt
    from ragbench.llm.budget import Budget
    from ragbench.llm.endpoint import Price
    from ragbench.llm.session import Chat
    from ragbench.pipeline.baseline import BaselineRAG
    from ragbench.pipeline.gold import GoldLocator
    from ragbench.post.stage import PostRetrieval
    from ragbench.stages.rag import RAG


class System(NamedTuple):
    """A RAG with what reports say of it; or nobody, where recorded answers are scored."""

    rag: RAG | None
    name: str
    description: dict[str, Any]
    """What distinguishes it from others; the same description may reuse its results."""
    post_retrieval: PostRetrieval | None = None
    concurrency: int = 1
    chats: tuple[Chat, ...] = ()
    documents: Callable[[], Iterable[Document]] | None = None
    """Gives what it searches; None where only the system knows."""
    locator: GoldLocator | None = None
    notes: tuple[str, ...] = ()
    """What a reader of its scores must know of it."""

    @property
    def asked_for(self) -> tuple[str, ...]:
        families = () if self.rag is None else self.rag.families
        stages = {"retrieval": "retrieve", "generation": "generate"}
        return tuple(stage for family, stage in stages.items() if family in families)

    def receipts(self) -> list[Receipt]:
        """What its own language models took so far; of each that was asked."""
        return [found for chat in self.chats if (found := chat.receipt()) is not None]


def user_rag(spec: str, arguments: dict[str, Any]) -> System:
    from ragbench.rag.load import describe_rag, load_rag

    rag = load_rag(spec, arguments)
    return System(rag, rag_name(spec), dict(describe_rag(rag, spec, arguments)))


class DocumentsBeside(NamedTuple):
    """The documents of a command that brings none of its own."""

    dataset: str
    corpus: str | None = None
    format: str | None = None
    held: str = ""
    """What the dataset holds, in words, for those who look for documents in it in vain."""

    def read(self) -> Iterable[Document]:
        from ragbench.io.lines import encoding_of
        from ragbench.io.read import read_documents

        source = self.corpus or _documents_beside(self.dataset)
        encoding, guess = encoding_of(source)
        if guess:
            console.say(guess)
        documents = read_documents(
            source, format=None if self.corpus else self.format, encoding=encoding
        )
        if self.corpus is not None or source != self.dataset or not self.held:
            return documents
        return self._or_the_ways_on(documents)

    def _or_the_ways_on(self, documents: Iterable[Document]) -> Iterator[Document]:
        """The documents that stand in the dataset itself; an error that helps where none do."""
        found = iter(documents)
        try:
            first = next(found, None)
        except DataError:
            first = None
        if first is None:
            raise ConfigError(
                f"{self.dataset} holds {self.held}, and there is nothing to ask: no RAG is named, "
                "and no documents for the built-in baseline are beside the cases. Either\n"
                "  name your RAG:          --rag my_module:MyRAG, --rag http://... or --pipeline "
                "FILE\n"
                "  or bring answers:       --answers FILE, or fields such as response and "
                "retrieved_contexts in the cases\n"
                "                          (under other names: --field response=NAME)\n"
                "  or try the baseline:    --corpus DOCUMENTS"
            )
        yield first
        yield from found


class PipelineFile(NamedTuple):
    """A file that describes a RAG, and what a command says of it."""

    path: Path
    config: Path | None = None
    """Where settings of language models stand that the file does not give."""
    budget: Budget | None = None


@contextmanager
def chosen_system(
    *,
    rag: str | None,
    pipeline: PipelineFile | None,
    arguments: dict[str, Any],
    documents: DocumentsBeside,
    recorded: tuple[str, dict[str, Any]] | None = None,
) -> Generator[System]:
    """The RAG that options choose, for the length of a block.

    Without any, nobody where answers are recorded, else the baseline.
    """
    if pipeline is not None:
        with open_pipeline(pipeline, documents) as system:
            yield system
    elif rag is not None:
        named = documents.read if documents.corpus is not None else None
        yield user_rag(rag, arguments)._replace(documents=named)
    elif recorded is not None:
        if arguments:
            raise ConfigError("--rag-args has no use: answers are recorded, and nobody is asked")
        yield System(None, *recorded)
    else:
        yield baseline(arguments, documents)


def baseline(arguments: dict[str, Any], documents: DocumentsBeside) -> System:
    """The RAG that ragbench brings, over the documents that belong to a dataset."""
    from ragbench.rag.load import describe_rag

    rag, read = _baseline_over(documents, arguments)
    described = dict(describe_rag(rag, "baseline", arguments))
    return System(rag, "baseline", described, documents=lambda: read)


@contextmanager
def open_pipeline(file: PipelineFile, documents: DocumentsBeside) -> Generator[System]:
    import os

    from ragbench.pipeline.read import load_pipeline
    from ragbench.rag.load import describe_rag
    from ragbench_cli.models import llm_section

    path = file.path
    pipeline = load_pipeline(
        path, environ=os.environ, llm=llm_section(file.config), budget=file.budget
    )
    if documents.corpus is not None and pipeline.corpus is not None:
        raise ConfigError(f"--corpus has no use: {path} names its corpus, {pipeline.corpus}")
    with pipeline.open(documents.read) as opened:
        known = [*opened.retriever.notes]
        for line in known:
            console.say(line)
        rag, stage = opened.staged()
        yield System(
            rag,
            pipeline.name,
            dict(describe_rag(rag, "pipeline", {"pipeline": opened.identity})),
            stage,
            pipeline.orchestration.concurrency,
            pipeline.chats,
            None if opened.documents is None else lambda: opened.documents or (),
            opened.locator,
            tuple(known),
        )
        for line in opened.retriever.notes[len(known) :]:
            console.say(line)


class Answerer(NamedTuple):
    """Whose generation answers, nobody's when None; and the price of its tokens, where known."""

    rag: RAG | None
    name: str | None
    price: Price | None


@dataclass(frozen=True, kw_only=True, slots=True)
class GeneratorChoice:
    """Whose generation answers where nothing is retrieved, as the command line says it."""

    rag: Annotated[str | None, option("RAG")] = None
    """RAG whose generation answers from what each variant leaves: package.module:attr, file.py:attr
    or an http(s) address."""
    arguments: RagArgsOption = None
    pipeline: Path | None = None
    """YAML file of a RAG whose generation answers. See docs/pipeline.md."""
    price: Annotated[str | None, option("IN,OUT")] = None
    """Price of a million tokens of --rag's prompts and answers, such as 0.15,0.60. A pipeline's
    model has its own."""

    @contextmanager
    def opened(self, run: Path, budget: Budget) -> Generator[Answerer]:
        """The RAG and the price of its tokens, for the length of a block."""
        from ragbench.ledger.folder import RunFolder
        from ragbench.ledger.manifest import read_manifest

        if self.rag is None and self.pipeline is None:
            self._refuse(self.arguments, "--rag-args")
            self._refuse(self.price, "--price")
            yield Answerer(None, None, None)
            return
        if self.rag is not None and self.pipeline is not None:
            raise ConfigError("--rag and --pipeline cannot be combined: give one of them")
        source = read_manifest(RunFolder(path=run).manifest).dataset.source
        with chosen_system(
            rag=self.rag,
            pipeline=None if self.pipeline is None else PipelineFile(self.pipeline, None, budget),
            arguments=json_object(self.arguments, "--rag-args"),
            documents=DocumentsBeside(source),
        ) as system:
            prices = {chat.price for chat in system.chats}
            typed = _price(self.price)
            known = prices.pop() if len(prices) == 1 else None
            yield Answerer(system.rag, system.name, typed or known)

    def _refuse(self, value: object, name: str) -> None:
        if value is not None:
            raise ConfigError(f"{name} needs --rag or --pipeline")


def _price(typed: str | None) -> Price | None:
    from ragbench.llm.endpoint import Price

    if typed is None:
        return None
    first, comma, second = typed.partition(",")
    paid = amount(first, "--price")
    got = amount(second if comma else first, "--price")
    assert paid is not None
    assert got is not None
    return Price(input=paid, output=got, origin="--price")


def _baseline_over(
    documents: DocumentsBeside, arguments: dict[str, Any]
) -> tuple[BaselineRAG, list[Document]]:
    from ragbench.pipeline.baseline import BaselineRAG

    known = sorted(signature(BaselineRAG).parameters.keys() - {"documents"})
    unknown = sorted(set(arguments).difference(known))
    if unknown:
        raise ConfigError(
            f"--rag-args: the baseline RAG has no setting {', '.join(unknown)}. It has "
            f"{', '.join(known)}"
        )
    read = list(documents.read())
    try:
        return BaselineRAG(read, **arguments), read
    except TypeError as error:
        raise ConfigError(f"--rag-args: a setting has the wrong type: {error}") from error


def _documents_beside(dataset: str) -> str:
    if dataset == "-":
        raise ConfigError(
            "standard input brings cases alone, and the baseline RAG needs documents: name them "
            "with --corpus, or your own RAG with --rag"
        )
    path = Path(dataset)
    if path.is_file():
        beside = sorted(path.parent.glob("corpus.*"))
        if beside and path.stem.split(".")[0] != "corpus":
            return str(beside[0])
    return dataset


def rag_name(spec: str) -> str:
    """A short name of a RAG, from how the user names it; without credentials."""
    from ragbench.masking import mask_url

    if "://" in spec:
        return mask_url(spec).split("://", 1)[1]
    return spec.rpartition(":")[2]


def run_folder(
    named: Path | None,
    name: Callable[[], str],
    project: Callable[[], Project],
    *,
    stay: bool,
    quiet: bool,
) -> Path:
    """The folder that the same command always arrives at; another where something changed since.

    One that the user names stays: what changed since is shown, as it is about to be asked again.
    """
    from ragbench.ledger.folder import RunFolder
    from ragbench.stages.reuse import run_version

    if named is not None and (stay or quiet or not RunFolder(path=named).exists):
        return named
    version = run_version(named or Path("reports") / name(), project())
    earlier = version.earlier
    if earlier is None or stay:
        return named or earlier or version.folder
    if quiet or named not in (None, earlier):
        return named or version.folder
    reasons = [*version.because[:3], *(["..."] if len(version.because) > 3 else [])]
    known = "changed since" if version.is_changed else "no telling what changed since"
    console.say(f"{known} {earlier}: {'; '.join(reasons)}")
    goes = "The RAG is asked again" if named else f"This run goes to {version.folder}"
    console.say(f"{goes}; --reuse keeps the stored answers instead.")
    console.say(f"Other metrics of those, asking nothing: ragbench eval {earlier} -m ...")
    if named is None:
        console.say(f"Compare them with: ragbench compare {earlier} {version.folder}")
    return named or version.folder


def collection_name(source: str) -> str:
    """A name for a collection that every store takes, from how the user names the corpus."""
    path = Path(source)
    name = path.name.split(".")[0] or path.resolve().name
    if name in ("corpus", "documents"):
        name = path.resolve().parent.name
    cleaned = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")
    return cleaned if cleaned[:1].isalpha() else f"corpus_{cleaned}".rstrip("_")
