"""``ragbench ablate``: variants of post-retrieval over one stored run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ragbench.errors import ConfigError
from ragbench_cli import console
from ragbench_cli.console import ExitCode
from ragbench_cli.eval_options import LimitOption, RagArgsOption
from ragbench_cli.html_options import HtmlFolderOption, HtmlOption, write_page
from ragbench_cli.llm_options import LLMBaseUrlOption, LLMModelOption
from ragbench_cli.options import JsonOption, RunArgument, option

if TYPE_CHECKING:
    from ragbench.core.ablation import Ablation
    from ragbench.llm.budget import Budget
    from ragbench.llm.endpoint import Price
    from ragbench.llm.settings import LLMSettings
    from ragbench.post.build import Variant
    from ragbench.post.score_store import ScoreStore
    from ragbench.stages.rag import RAG

__all__ = [
    "command",
]


def _metrics(typed: str) -> list[str]:
    from ragbench.metrics.registry import definitions

    before, comma, last = typed.rpartition(",")
    return [
        f"{before}{comma}{definition.name}"
        for definition in definitions()
        if definition.name.casefold().startswith(last.casefold())
    ]


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


def command(
    run: RunArgument,
    variants: Annotated[
        Path,
        option(
            "--variants",
            help="YAML file with the variants; the others are compared with its first one. See "
            "docs/post_retrieval.md.",
            metavar="FILE",
        ),
    ],
    metrics: Annotated[
        str | None,
        option(
            "--metrics",
            "-m",
            help="Metrics by name, separated by commas. By default those of the run's retriever, "
            "behind end_to_end_f1 and token_f1 where somebody answers.",
            metavar="LIST",
            complete=_metrics,
        ),
    ] = None,
    counter: Annotated[
        str,
        option(
            "--counter",
            help="What counts tokens: approximate, tiktoken:ENCODING or tokenizers:PATH.",
            metavar="COUNTER",
            show_default=True,
        ),
    ] = "approximate",
    limit: LimitOption = None,
    scores: Annotated[
        Path | None,
        option(
            "--scores",
            help="File that keeps the scores of rerankers that are slow or paid, so that none is "
            "asked for twice. By default reranker_scores.sqlite in the run's folder.",
            metavar="FILE",
        ),
    ] = None,
    concurrency: Annotated[
        int,
        option(
            "--concurrency",
            help="Cases in flight at once. More than one makes times longer than a query takes.",
            metavar="N",
            min=1,
            show_default=True,
        ),
    ] = 1,
    llm_model: LLMModelOption = None,
    llm_base_url: LLMBaseUrlOption = None,
    max_cost: Annotated[
        str | None,
        option(
            "--max-cost",
            help="Most that the language model may cost. What was answered is kept: the same "
            "command goes on.",
            metavar="AMOUNT",
        ),
    ] = None,
    rag: GeneratorOption = None,
    rag_args: RagArgsOption = None,
    pipeline: GeneratorPipelineOption = None,
    price: Annotated[
        str | None,
        option(
            "--price",
            help="Price of a million tokens of --rag's prompts and answers, such as 0.15,0.60. A "
            "pipeline's model has its own.",
            metavar="IN,OUT",
        ),
    ] = None,
    md: Annotated[
        str | None,
        option("--md", help="Write the ablation as Markdown; - prints it.", metavar="FILE"),
    ] = None,
    html: HtmlOption = None,
    html_folder: HtmlFolderOption = None,
    json: JsonOption = False,
) -> None:
    """Compare variants of post-retrieval on a stored run.

    The retrievals of the run go through each variant; nothing is retrieved again. For each metric
    the mean difference from the first variant is shown with an interval; the intervals of all
    variants hold together with 95%. Shown are, too, the score of the best order of the same
    chunks, variants that did not act, the operators that lost gold contexts, what each variant
    costs, and which ones no other beats in quality, time and money together. With --rag or
    --pipeline, its generation answers from what each variant leaves, and the answers are scored.
    Evaluate with --top-k 50 first, so that there is something to choose from.

    \b
    Examples:
      ragbench eval datasets/pellorin --top-k 50 --out run
      ragbench ablate run --variants variants.yaml -m recall@5,nDCG@5
      ragbench ablate run --variants variants.yaml --pipeline rag.yaml
    """
    from ragbench.llm.budget import Budget
    from ragbench.metrics.registry import parse_metrics
    from ragbench.text.token_counter import token_counter
    from ragbench.verbs.ablate import ablate
    from ragbench_cli.models import amount

    if json and md == "-":
        raise ConfigError("--json and --md - both want standard output: give --md a file")
    budget = Budget(amount(max_cost, "--max-cost"))
    with console.stdout_for_data():
        chosen = None if metrics is None else parse_metrics(metrics)
    tokens = token_counter(counter)
    answering = GeneratorChoice(rag=rag, arguments=rag_args, pipeline=pipeline, price=price)
    with ExitStack() as stack:
        stack.enter_context(console.stdout_for_data())
        answerer = stack.enter_context(answering.opened(run, budget))
        known = _variants(stack, variants, LLMChoice(llm_model, llm_base_url, budget))
        store = _store(stack, scores, run, known)
        found = ablate(
            run,
            known,
            metrics=chosen,
            counter=tokens,
            limit=limit,
            scores=store,
            concurrency=concurrency,
            advance=_advance(stack, run, limit, shown=not json),
            rag=answerer.rag,
            price=answerer.price,
        )
        if store.asked or store.reused:
            console.say(f"{store.asked:,} scores asked for, {store.reused:,} known from before")
    found = replace(found, generator=answerer.name)
    _show(found, json=json, md=md, html=html, html_folder=html_folder)
    if _is_dead(found):
        console.say("Error: every variant failed on every case, so nothing was measured.")
        raise typer.Exit(ExitCode.CANNOT_RUN)


class LLMChoice(NamedTuple):
    """The language model of operators, as the command line says it."""

    model: str | None
    base_url: str | None
    budget: Budget

    def settings(self) -> LLMSettings:
        """Its settings."""
        from ragbench_cli.llm_options import llm_settings

        return llm_settings(model=self.model, base_url=self.base_url)


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
        """The RAG and the price of its tokens, for the length of a block.

        Raises:
            ConfigError: options contradict each other, or it cannot be built.
        """
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


def _variants(stack: ExitStack, path: Path, llm: LLMChoice) -> Sequence[Variant]:
    from ragbench.post.build import Resources, load_variants
    from ragbench_cli.models import language_model

    opening = language_model("post_retrieve", llm.settings, budget=llm.budget)
    return load_variants(path, Resources(chat=stack.enter_context(opening)))


def _store(
    stack: ExitStack, file: Path | None, run: Path, variants: Sequence[Variant]
) -> ScoreStore:
    from ragbench.post.score_store import ScoreStore, needs_store

    path = file or (run / "reranker_scores.sqlite" if needs_store(variants) else None)
    return stack.enter_context(ScoreStore(path))


def _advance(
    stack: ExitStack, run: Path, limit: int | None, *, shown: bool
) -> Callable[[int], None]:
    """What moves the bar."""
    from ragbench.ledger.folder import RunFolder
    from ragbench.ledger.manifest import read_manifest
    from ragbench.stages.stage import Progress

    cases = read_manifest(RunFolder(path=run).manifest).dataset.cases
    bars = stack.enter_context(console.progress(shown=shown))

    def advance(done: int) -> None:
        if bars is not None:
            bars(Progress("ablate", min(cases, limit or cases), done))

    return advance


def _show(
    found: Ablation, *, json: bool, md: str | None, html: Path | None, html_folder: Path | None
) -> None:
    from ragbench.io.atomic import written_whole
    from ragbench.views.ablation import ablation_markdown, ablation_object
    from ragbench_cli.ablation_tables import print_ablation

    if md is not None and md != "-":
        with written_whole(Path(md)) as file:
            file.write(ablation_markdown(found).encode())
    if html is not None or html_folder is not None:
        from ragbench.views.html.ablation_page import ablation_page

        page = ablation_page(found)
        write_page(page.body, page.title, html=html, html_folder=html_folder)
    if json:
        console.print_json(ablation_object(found))
    elif md == "-":
        typer.echo(ablation_markdown(found), nl=False)
    else:
        print_ablation(found)


def _is_dead(found: Ablation) -> bool:
    """Whether a stage that was asked gave nothing at all."""
    if all(variant.failed == found.replayed for variant in found.variants):
        return True
    answers = [variant.answers for variant in found.variants if variant.answers is not None]
    return bool(answers) and not any(one.answered + one.declined for one in answers)
