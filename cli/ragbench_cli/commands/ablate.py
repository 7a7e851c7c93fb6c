"""``ragbench ablate``: variants of post-retrieval over one stored run."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ragbench.core.ablation import Ablation
from ragbench.core.chat import Price
from ragbench.core.metric import Metric
from ragbench.core.record import Record, replace
from ragbench.errors import ConfigError
from ragbench.ledger.folder import RunFolder, read_manifest
from ragbench.ledger.scores import ScoreStore
from ragbench.llm.budget import Budget, amount_of
from ragbench.metrics.registry import parse_metrics
from ragbench.post.build import Resources, Variant, load_variants
from ragbench.post.stage import rerankers_of
from ragbench.safe_text import counted
from ragbench.stages.stage import Progress
from ragbench.text.token_counter import token_counter
from ragbench.verbs.ablate import ablate
from ragbench.views.ablation import ablation_document, ablation_object
from ragbench_cli import console
from ragbench_cli.console import ExitCode, StageAdvance
from ragbench_cli.models import LLMChoice, NamedModel, budget_of, language_model
from ragbench_cli.options import Panel, RunArgument, complete_metrics, option, takes_records
from ragbench_cli.output import Output, document_blocks, draw
from ragbench_cli.systems import DocumentsBeside, System, chosen_system


class GeneratorChoice(Record):
    """Whose generation answers from the chunks of each variant."""

    rag: Annotated[str | None, option("RAG")] = None
    """RAG whose generation answers from the chunks of each variant: package.module:attr,
    file.py:attr or an http(s) address."""
    rag_args: Annotated[str | None, option("JSON", panel=Panel.CASES, rare=True)] = None
    """Arguments for the class or factory, as JSON."""
    pipeline: Path | None = None
    """YAML file of a RAG whose generation answers. See docs/pipeline.md."""
    price: Annotated[str | None, option("IN,OUT", rare=True)] = None
    """Price of a million tokens of --rag's prompts and answers, such as 0.15,0.60. A pipeline's
    model has its own."""


@contextmanager
def _answering_system(
    choice: GeneratorChoice, run: Path, budget: Budget
) -> Generator[tuple[System | None, Price | None]]:
    """The system whose generation answers, and the price of its tokens, for a block; or two Nones.

    Without one, only the chunks of the variants are compared.
    """
    if choice.rag is None and choice.pipeline is None:
        # Options of a generator without one would be ignored without a word.
        for name, value in (("--rag-args", choice.rag_args), ("--price", choice.price)):
            if value is not None:
                raise ConfigError(f"{name} needs --rag or --pipeline")
        yield None, None
        return
    manifest = read_manifest(RunFolder(path=run).manifest)
    # Documents beside the dataset of the run, which a keyword RAG searches.
    documents = DocumentsBeside(manifest.dataset.source)
    chosen = chosen_system(choice.rag, choice.pipeline, choice.rag_args, documents, budget=budget)
    with chosen as system:
        price: Price | None = None
        if choice.price is not None:
            price = _price_of_option(choice.price)
        else:
            prices = {chat.price for chat in system.chats}
            if len(prices) == 1:  # of several models it is not known which one answers
                (price,) = prices
        yield system, price


def _price_of_option(text: str) -> Price:
    """The price of prompts and answers from the option ``--price IN,OUT``; one number is for both.

    The amounts are per million tokens.
    """
    prompt_text, comma, answer_text = text.partition(",")
    # One number: prompts and answers cost the same.
    if not comma:
        answer_text = prompt_text
    prompt_price = amount_of(prompt_text, "--price")
    answer_price = amount_of(answer_text, "--price")
    return Price(input=prompt_price, output=answer_price, origin="--price")


class AblateOptions(Record):
    """What is tried, and how."""

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
def command(
    run: RunArgument, answering: GeneratorChoice, options: AblateOptions, output: Output
) -> None:
    """When you change post-retrieval: compare variants on a run.

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
        # Rerankers of the variants may be the user's code.
        stack.enter_context(console.users_code())
        counter = token_counter(options.counter)
        budget = budget_of(options.max_cost)
        system, price = stack.enter_context(_answering_system(answering, run, budget))
        model = LLMChoice(model=options.model.model, base_url=options.model.base_url)
        chat = stack.enter_context(language_model("post_retrieve", model.settings, budget=budget))
        variants = load_variants(options.variants, Resources(chat=chat))
        score_file = options.scores
        # Scores are stored only where it takes time or money to get them again.
        if score_file is None and _asks_elsewhere(variants):
            score_file = run / "reranker_scores.sqlite"
        store = stack.enter_context(ScoreStore(score_file))
        total = read_manifest(RunFolder(path=run).manifest).dataset.cases
        if options.limit is not None:
            # For the bar: as many cases as are replayed.
            total = min(total, options.limit)
        metrics: tuple[Metric, ...] | None = None
        if options.metrics is not None:
            metrics = parse_metrics(options.metrics)
        bars = stack.enter_context(console.progress(shown=not output.json))
        ablation = ablate(
            run,
            variants,
            metrics=metrics,
            counter=counter,
            limit=options.limit,
            scores=store,
            concurrency=options.concurrency,
            advance=partial(_show_progress, bars, total),
            rag=None if system is None else system.rag,
            price=price,
        )
        # Nothing is said of scores where no reranker asked for any.
        if store.asked or store.reused:
            console.say(f"{counted(store.asked, 'score')} asked for, {store.reused:,} reused")
    if system is not None:
        ablation = replace(ablation, generator=system.name)
    document = ablation_document(ablation)
    output.show(
        lambda: document,
        data=partial(ablation_object, ablation),
        screen=lambda: draw(document_blocks(document)),
    )
    if _nothing_measured(ablation):
        console.say("Error: every variant failed on every case, so nothing was measured.")
        raise typer.Exit(ExitCode.CANNOT_RUN)


def _show_progress(bars: StageAdvance | None, total: int, count: int) -> None:
    """Moves the progress on by some cases that are through all variants.

    Variants take long where a reranker is a model.

    Args:
        bars: None where no progress is shown.
        total: all cases.
        count: the cases that are through since the last call.
    """
    if bars is not None:
        bars(Progress("ablate", total, count))


def _asks_elsewhere(variants: Sequence[Variant]) -> bool:
    """Whether a reranker of the variants asks a model or an endpoint.

    Scores of such rerankers are stored, since they cost time or money.
    """
    for variant in variants:
        for reranker in rerankers_of(variant.stage):
            # A reranker of a user need not have the attribute: it counts as asking nothing.
            if getattr(reranker, "asks_elsewhere", False):
                return True
    return False


def _nothing_measured(ablation: Ablation) -> bool:
    """Whether every variant failed on every case, or generation was asked and answered nothing.

    Then nothing was measured, and the command fails.
    """
    if all(variant.failed == ablation.replayed for variant in ablation.variants):
        return True
    was_asked = False
    for variant in ablation.variants:
        answers = variant.answers
        if answers is None:
            continue
        was_asked = True
        # A declined answer is an answer: it was asked for and came.
        if answers.answered + answers.declined:
            return False
    return was_asked
