"""``ragbench ablate``: variants of post-retrieval over one stored run."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ragbench.core.ablation import Ablation
from ragbench.core.chat import Price
from ragbench.core.record import Record, replace
from ragbench.errors import ConfigError
from ragbench.ledger.folder import RunFolder, read_manifest
from ragbench.ledger.scores import ScoreStore
from ragbench.llm.budget import Budget, amount_of
from ragbench.metrics.registry import parse_metrics
from ragbench.post.build import Resources, load_variants
from ragbench.post.stage import rerankers_of
from ragbench.stages.stage import Progress
from ragbench.text.token_counter import token_counter
from ragbench.verbs.ablate import ablate
from ragbench.views.ablation import ablation_document, ablation_object
from ragbench_cli import console
from ragbench_cli.console import ExitCode
from ragbench_cli.models import LLMChoice, NamedModel, budget_of, language_model
from ragbench_cli.options import Panel, RunArgument, complete_metrics, option, takes_records
from ragbench_cli.output import Output, document_blocks, draw
from ragbench_cli.systems import DocumentsBeside, System, chosen_system


class GeneratorChoice(Record):
    """Whose generation answers where nothing is retrieved, as the command line says it."""

    rag: Annotated[str | None, option("RAG")] = None
    """RAG whose generation answers from the chunks of each variant: package.module:attr,
    file.py:attr or an http(s) address."""
    rag_args: Annotated[str | None, option("JSON", panel=Panel.CASES)] = None
    """Arguments for the class or factory, as JSON."""
    pipeline: Path | None = None
    """YAML file of a RAG whose generation answers. See docs/pipeline.md."""
    price: Annotated[str | None, option("IN,OUT")] = None
    """Price of a million tokens of --rag's prompts and answers, such as 0.15,0.60. A pipeline's
    model has its own."""


@contextmanager
def _answering(
    choice: GeneratorChoice, run: Path, budget: Budget
) -> Generator[tuple[System | None, Price | None]]:
    """Whose generation answers, and the price of its tokens, for the length of a block."""
    if choice.rag is None and choice.pipeline is None:
        for name, value in (("--rag-args", choice.rag_args), ("--price", choice.price)):
            if value is not None:
                raise ConfigError(f"{name} needs --rag or --pipeline")
        yield None, None
        return
    beside = DocumentsBeside(read_manifest(RunFolder(path=run).manifest).dataset.source)
    named = chosen_system(choice.rag, choice.pipeline, choice.rag_args, beside, budget=budget)
    with named as system:
        prices = {chat.price for chat in system.chats}
        typed = None if choice.price is None else _price(choice.price)
        known = prices.pop() if len(prices) == 1 else None
        yield system, typed or known


def _price(typed: str) -> Price:
    first, comma, second = typed.partition(",")
    paid, got = (amount_of(text, "--price") for text in (first, second if comma else first))
    return Price(input=paid, output=got, origin="--price")


class Asked(Record):
    variants: Path
    """YAML file with the variants; the others are compared with its first one. See
    docs/post_retrieval.md."""
    metrics: Annotated[str | None, option("LIST", "-m", complete=complete_metrics)] = None
    """Metrics by name, separated by commas. By default those of the run's retriever, after
    end_to_end_f1 and token_f1 if answers are generated."""
    counter: Annotated[str, option("COUNTER", rare=True)] = "approximate"
    """Token counter: approximate, tiktoken:ENCODING or tokenizers:PATH."""
    limit: Annotated[int | None, option(panel=Panel.CASES)] = None
    """Take only the first N cases."""
    scores: Annotated[Path | None, option("--score-cache", rare=True)] = None
    """File for scores of slow or paid rerankers, so that none is asked for twice. By default
    reranker_scores.sqlite in the run's folder."""
    concurrency: Annotated[int, option(min=1)] = 1
    """Cases in flight at once. More than one makes times longer than a query takes."""
    model: NamedModel
    max_cost: Annotated[str | None, option("AMOUNT", panel=Panel.JUDGING)] = None
    """Cap on the cost of the language model. Answers so far are kept, and the same command
    continues."""


@takes_records
def command(run: RunArgument, answering: GeneratorChoice, asked: Asked, shown: Output) -> None:
    """Compare variants of post-retrieval on a stored run.

    The retrievals of the run go through each variant; nothing is retrieved again. For each metric
    the mean difference from the first variant is shown with an interval; the intervals of all
    variants hold together with 95%. Also shown are the score of the best order of the same chunks,
    variants that did not act, the operators that lost gold contexts, and the cost of each variant.
    With --rag or --pipeline, its generation answers from the chunks of each variant, and the
    answers are scored. Evaluate with --top-k 50 first, so that there is something to choose from.

    \b
    Examples:
      ragbench eval datasets/pellorin --rag baseline --top-k 50 --out run
      ragbench ablate run --variants variants.yaml -m recall@5,nDCG@5
      ragbench ablate run --variants variants.yaml --pipeline rag.yaml
    """
    with ExitStack() as stack:
        stack.enter_context(console.users_code())
        tokens = token_counter(asked.counter)
        budget = budget_of(asked.max_cost)
        system, price = stack.enter_context(_answering(answering, run, budget))
        model = LLMChoice(model=asked.model.model, base_url=asked.model.base_url)
        chat = stack.enter_context(language_model("post_retrieve", model.settings, budget=budget))
        tried = load_variants(asked.variants, Resources(chat=chat))
        rerankers = [one for each in tried for one in rerankers_of(each.stage)]
        is_paid = any(getattr(one, "asks_elsewhere", False) for one in rerankers)
        kept = run / "reranker_scores.sqlite" if is_paid else None
        store = stack.enter_context(ScoreStore(asked.scores or kept))
        cases = read_manifest(RunFolder(path=run).manifest).dataset.cases
        total = min(cases, asked.limit or cases)
        bars = stack.enter_context(console.progress(shown=not shown.json))
        found = ablate(
            run,
            tried,
            metrics=None if asked.metrics is None else parse_metrics(asked.metrics),
            counter=tokens,
            limit=asked.limit,
            scores=store,
            concurrency=asked.concurrency,
            advance=lambda done: bars and bars(Progress("ablate", total, done)),
            rag=None if system is None else system.rag,
            price=price,
        )
        if store.asked or store.reused:
            console.say(f"{store.asked:,} scores asked for, {store.reused:,} reused")
    done = found if system is None else replace(found, generator=system.name)
    made = ablation_document(done)
    shown.show(
        lambda: made,
        data=partial(ablation_object, done),
        screen=lambda: draw(document_blocks(made)),
    )
    if _is_dead(found):
        console.say("Error: every variant failed on every case, so nothing was measured.")
        raise typer.Exit(ExitCode.CANNOT_RUN)


def _is_dead(found: Ablation) -> bool:
    """Whether a stage that was asked gave nothing at all."""
    if all(variant.failed == found.replayed for variant in found.variants):
        return True
    answers = [variant.answers for variant in found.variants if variant.answers is not None]
    return bool(answers) and not any(one.answered + one.declined for one in answers)
