"""``ragbench ablate``: variants of post-retrieval over one stored run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ragbench.core.ablation import Ablation
from ragbench.errors import ConfigError
from ragbench_cli import console
from ragbench_cli.answerers import (
    GeneratorChoice,
    GeneratorOption,
    GeneratorPipelineOption,
    PriceOption,
)
from ragbench_cli.console import ExitCode
from ragbench_cli.eval_options import LimitOption, RagArgsOption
from ragbench_cli.html_options import HtmlFolderOption, HtmlOption, write_page
from ragbench_cli.llm_options import LLMBaseUrlOption, LLMChoice, LLMModelOption
from ragbench_cli.options import JsonOption, RunArgument, option

if TYPE_CHECKING:
    from ragbench.core.space_search import SpaceSearch
    from ragbench.post.build import Variant
    from ragbench.post.score_store import ScoreStore
    from ragbench.post.space import Candidate
    from ragbench.text.token_counter import TokenCounter
    from ragbench_cli.answerers import Answerer


def _metrics(typed: str) -> list[str]:
    from ragbench.metrics.registry import definitions

    before, comma, last = typed.rpartition(",")
    return [
        f"{before}{comma}{definition.name}"
        for definition in definitions()
        if definition.name.casefold().startswith(last.casefold())
    ]


def command(
    run: RunArgument,
    variants: Annotated[
        Path | None,
        option(
            "--variants",
            help="YAML file with the variants; the others are compared with its first one. See "
            "docs/post_retrieval.md.",
            metavar="FILE",
        ),
    ] = None,
    search: Annotated[
        Path | None,
        option(
            "--search",
            help="YAML file with a space of operators and settings: finds the best, and its honest "
            "gain. See docs/post_retrieval.md.",
            metavar="FILE",
        ),
    ] = None,
    folds: Annotated[
        int,
        option(
            "--folds",
            help="Parts of the cases of --search: the best is chosen on all but one.",
            metavar="N",
            min=2,
            show_default=True,
        ),
    ] = 2,
    seed: Annotated[
        int,
        option(
            "--seed",
            help="Seed of the parts of --search.",
            metavar="N",
            min=0,
            show_default=True,
        ),
    ] = 0,
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
    price: PriceOption = None,
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
    With --search, every combination of a space is tried, and the gain of the best one is measured
    on cases that did not choose it. Evaluate with --top-k 50 first, so that there is something to
    choose from.

    \b
    Examples:
      ragbench eval datasets/pellorin --top-k 50 --out run
      ragbench ablate run --variants variants.yaml -m recall@5,nDCG@5
      ragbench ablate run --variants variants.yaml --pipeline rag.yaml
      ragbench ablate run --search space.yaml -m nDCG@5
    """
    from ragbench.llm.budget import Budget
    from ragbench.post.build import Resources, load_variants
    from ragbench.post.space import load_space
    from ragbench.text.token_counter import token_counter
    from ragbench_cli.models import amount, language_model

    if (variants is None) == (search is None):
        raise ConfigError("name what is tried: --variants FILE or --search FILE, one of them")
    shown = Shown(json=json, md=md, html=html, html_folder=html_folder)
    shown.check(is_search=search is not None)
    with ExitStack() as stack:
        stack.enter_context(console.users_code())
        tokens = token_counter(counter)
        budget = Budget(amount(max_cost, "--max-cost"))
        answering = GeneratorChoice(rag=rag, arguments=rag_args, pipeline=pipeline, price=price)
        answerer = stack.enter_context(answering.opened(run, budget))
        trying = Trying(
            run=run,
            metrics=metrics,
            counter=tokens,
            limit=limit,
            scores=scores,
            concurrency=concurrency,
            answerer=answerer,
            advance=_advance(stack, run, limit, shown=not json),
        )
        asked = LLMChoice(model=llm_model, base_url=llm_base_url)
        chat = stack.enter_context(language_model("post_retrieve", asked.settings, budget=budget))
        found: Ablation | SpaceSearch
        if variants is not None:
            found = trying.variants(stack, load_variants(variants, Resources(chat=chat)))
        else:
            assert search is not None
            found = trying.space(stack, load_space(search, Resources(chat=chat)), folds, seed)
    shown.show(found)
    if isinstance(found, Ablation) and _is_dead(found):
        console.say("Error: every variant failed on every case, so nothing was measured.")
        raise typer.Exit(ExitCode.CANNOT_RUN)


class Trying(NamedTuple):
    """How variants are tried, as the command line says it."""

    run: Path
    metrics: str | None
    counter: TokenCounter
    limit: int | None
    scores: Path | None
    concurrency: int
    answerer: Answerer
    advance: Callable[[int], None]

    def variants(self, stack: ExitStack, known: Sequence[Variant]) -> Ablation:
        """Tries variants."""
        from ragbench.metrics.registry import parse_metrics
        from ragbench.verbs.ablate import ablate

        store = self._store(stack, known)
        found = ablate(
            self.run,
            known,
            metrics=None if self.metrics is None else parse_metrics(self.metrics),
            counter=self.counter,
            limit=self.limit,
            scores=store,
            concurrency=self.concurrency,
            advance=self.advance,
            rag=self.answerer.rag,
            price=self.answerer.price,
        )
        _say_scores(store)
        return replace(found, generator=self.answerer.name)

    def space(
        self, stack: ExitStack, space: Sequence[Candidate], folds: int, seed: int
    ) -> SpaceSearch:
        """Tries all of a space.

        Raises:
            ConfigError: several metrics are named.
        """
        from ragbench.metrics.registry import parse_metrics
        from ragbench.verbs.search_space import search_space

        named = () if self.metrics is None else tuple(parse_metrics(self.metrics))
        if len(named) > 1:
            raise ConfigError("--search chooses by one metric: name one with --metrics")
        store = self._store(stack, [one.variant for one in space])
        found = search_space(
            self.run,
            space,
            metric=named[0] if named else None,
            counter=self.counter,
            limit=self.limit,
            scores=store,
            concurrency=self.concurrency,
            advance=self.advance,
            rag=self.answerer.rag,
            folds=folds,
            seed=seed,
        )
        _say_scores(store)
        return found

    def _store(self, stack: ExitStack, variants: Sequence[Variant]) -> ScoreStore:
        from ragbench.post.score_store import ScoreStore, needs_store

        kept = self.run / "reranker_scores.sqlite" if needs_store(variants) else None
        return stack.enter_context(ScoreStore(self.scores or kept))


def _say_scores(store: ScoreStore) -> None:
    if store.asked or store.reused:
        console.say(f"{store.asked:,} scores asked for, {store.reused:,} known from before")


def _advance(
    stack: ExitStack, run: Path, limit: int | None, *, shown: bool
) -> Callable[[int], None]:
    from ragbench.ledger.folder import RunFolder
    from ragbench.ledger.manifest import read_manifest
    from ragbench.stages.stage import Progress

    cases = read_manifest(RunFolder(path=run).manifest).dataset.cases
    bars = stack.enter_context(console.progress(shown=shown))

    def advance(done: int) -> None:
        if bars is not None:
            bars(Progress("ablate", min(cases, limit or cases), done))

    return advance


class Shown(NamedTuple):
    """Where the result goes, as the command line says it."""

    json: bool
    md: str | None
    html: Path | None
    html_folder: Path | None

    def check(self, *, is_search: bool) -> None:
        """Refuses what cannot be.

        Raises:
            ConfigError: two results want standard output, or there is no such page.
        """
        if self.json and self.md == "-":
            raise ConfigError("--json and --md - both want standard output: give --md a file")
        if is_search and (self.html is not None or self.html_folder is not None):
            raise ConfigError("a search has no page: use --md or --json")

    def show(self, found: Ablation | SpaceSearch) -> None:
        """Prints the result, and writes the files that were asked for."""
        from ragbench.io.atomic import written_whole

        markdown = _markdown(found)
        if self.md is not None and self.md != "-":
            with written_whole(Path(self.md)) as file:
                file.write(markdown.encode())
        if isinstance(found, Ablation) and not (self.html is None and self.html_folder is None):
            from ragbench.views.html.ablation_page import ablation_page

            page = ablation_page(found)
            write_page(page.body, page.title, html=self.html, html_folder=self.html_folder)
        if self.json:
            console.print_json(_plain(found))
        elif self.md == "-":
            typer.echo(markdown, nl=False)
        else:
            _print(found)


def _markdown(found: Ablation | SpaceSearch) -> str:
    from ragbench.views.ablation import ablation_markdown
    from ragbench.views.space_search import space_search_markdown

    return ablation_markdown(found) if isinstance(found, Ablation) else space_search_markdown(found)


def _plain(found: Ablation | SpaceSearch) -> dict[str, Any]:
    from ragbench.views.ablation import ablation_object
    from ragbench.views.space_search import search_object

    return ablation_object(found) if isinstance(found, Ablation) else search_object(found)


def _print(found: Ablation | SpaceSearch) -> None:
    from ragbench_cli.ablation_tables import print_ablation, print_search

    if isinstance(found, Ablation):
        print_ablation(found)
    else:
        print_search(found)


def _is_dead(found: Ablation) -> bool:
    """Whether a stage that was asked gave nothing at all."""
    if all(variant.failed == found.replayed for variant in found.variants):
        return True
    answers = [variant.answers for variant in found.variants if variant.answers is not None]
    return bool(answers) and not any(one.answered + one.declined for one in answers)
