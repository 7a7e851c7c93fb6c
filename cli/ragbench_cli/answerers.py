"""Whose generation answers where nothing is retrieved: the options of ``ragbench ablate``."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from ragbench.errors import ConfigError
from ragbench_cli.options import option

if TYPE_CHECKING:
    from ragbench.llm.budget import Budget
    from ragbench.llm.endpoint import Price
    from ragbench.stages.rag import RAG

GeneratorOption = Annotated[
    str | None,
    option(
        "--rag",
        help="RAG whose generation answers from what each variant leaves: package.module:attr, "
        "file.py:attr or an http(s) address.",
        metavar="RAG",
    ),
]
GeneratorPipelineOption = Annotated[
    Path | None,
    option(
        "--pipeline",
        help="YAML file of a RAG whose generation answers. See docs/pipeline.md.",
        metavar="FILE",
    ),
]
PriceOption = Annotated[
    str | None,
    option(
        "--price",
        help="Price of a million tokens of --rag's prompts and answers, such as 0.15,0.60. A "
        "pipeline's model has its own.",
        metavar="IN,OUT",
    ),
]


class Answerer(NamedTuple):
    """Whose generation answers, nobody's when None; and the price of its tokens, where known."""

    rag: RAG | None
    name: str | None
    price: Price | None


class GeneratorChoice(NamedTuple):
    """Whose generation answers, as the command line says it."""

    rag: str | None
    arguments: str | None
    pipeline: Path | None
    price: str | None

    @contextmanager
    def opened(self, run: Path, budget: Budget) -> Generator[Answerer]:
        """The RAG and the price of its tokens, for the length of a block."""
        from ragbench.ledger.folder import RunFolder
        from ragbench.ledger.manifest import read_manifest
        from ragbench_cli.options import json_object
        from ragbench_cli.systems import DocumentsBeside, PipelineFile, chosen_system

        if self.rag is None and self.pipeline is None:
            self._refuse(self.arguments, "--rag-args")
            self._refuse(self.price, "--price")
            yield Answerer(None, None, None)
            return
        if self.rag is not None and self.pipeline is not None:
            raise ConfigError("--rag and --pipeline both say who answers: give one of them")
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
            raise ConfigError(f"{name} has no use without --rag or --pipeline: nobody answers")


def _price(typed: str | None) -> Price | None:
    from ragbench.llm.endpoint import Price
    from ragbench_cli.models import amount

    if typed is None:
        return None
    first, comma, second = typed.partition(",")
    paid = amount(first, "--price")
    got = amount(second if comma else first, "--price")
    assert paid is not None
    assert got is not None
    return Price(input=paid, output=got, origin="--price")
