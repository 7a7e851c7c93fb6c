"""``ragbench ablate``: variants of post-retrieval over one stored run."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragbench_cli import console
from ragbench_cli.eval_options import LimitOption
from ragbench_cli.html_options import HtmlFolderOption, HtmlOption, write_page
from ragbench_cli.llm_options import LLMBaseUrlOption, LLMModelOption
from ragbench_cli.options import JsonOption, RunArgument, option

if TYPE_CHECKING:
    from ragbench.llm.settings import LLMSettings

__all__ = [
    "command",
]


def _metrics(typed: str) -> list[str]:
    from ragbench.core.metric import Group
    from ragbench.metrics.registry import definitions

    before, comma, last = typed.rpartition(",")
    return [
        f"{before}{comma}{definition.name}"
        for definition in definitions()
        if definition.group is Group.RETRIEVER
        and definition.name.casefold().startswith(last.casefold())
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
            help="Metrics of the retriever by name, separated by commas. By default those of the "
            "run.",
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
    html: HtmlOption = None,
    html_folder: HtmlFolderOption = None,
    json: JsonOption = False,
) -> None:
    """Compare variants of post-retrieval on a stored run.

    The retrievals of the run go through each variant; the RAG is not asked again. For each metric
    the mean difference from the first variant is shown with an interval; the intervals of all
    variants hold together with 95%. Shown are, too, the score of the best order of the same
    chunks, variants that did not act, the operators that lost gold contexts, and what each
    variant costs. Evaluate with --top-k 50 first, so that there is something to choose from.

    \b
    Example:
      ragbench eval datasets/pellorin --top-k 50 --out run
      ragbench ablate run --variants variants.yaml -m recall@5,nDCG@5
    """
    from ragbench.ledger.folder import RunFolder
    from ragbench.ledger.manifest import read_manifest
    from ragbench.llm.budget import Budget
    from ragbench.metrics.registry import parse_metrics
    from ragbench.post.build import Resources, load_variants
    from ragbench.post.score_store import ScoreStore, needs_store
    from ragbench.stages.stage import Progress
    from ragbench.text.token_counter import token_counter
    from ragbench.verbs.ablate import ablate
    from ragbench.views.ablation import ablation_object
    from ragbench_cli.comparison_tables import print_ablation
    from ragbench_cli.llm_options import llm_settings
    from ragbench_cli.models import amount, language_model

    budget = Budget(amount(max_cost, "--max-cost"))
    with console.stdout_for_data():
        chosen = None if metrics is None else parse_metrics(metrics)
    tokens = token_counter(counter)

    def settings() -> LLMSettings:
        return llm_settings(model=llm_model, base_url=llm_base_url)

    with ExitStack() as stack:
        stack.enter_context(console.stdout_for_data())
        chat = stack.enter_context(language_model("post_retrieve", settings, budget=budget))
        known = load_variants(variants, Resources(chat=chat))
        cases = read_manifest(RunFolder(path=run).manifest).dataset.cases
        file = scores or (run / "reranker_scores.sqlite" if needs_store(known) else None)
        store = stack.enter_context(ScoreStore(file))
        bars = stack.enter_context(console.progress(shown=not json))

        def advance(done: int) -> None:
            if bars is not None:
                bars(Progress("ablate", min(cases, limit or cases), done))

        found = ablate(
            run,
            known,
            metrics=chosen,
            counter=tokens,
            limit=limit,
            scores=store,
            concurrency=concurrency,
            advance=advance,
        )
        if store.asked or store.reused:
            console.say(f"{store.asked:,} scores asked for, {store.reused:,} known from before")
    if html is not None or html_folder is not None:
        from ragbench.views.html.ablation_page import ablation_page

        page = ablation_page(found)
        write_page(page.body, page.title, html=html, html_folder=html_folder)
    if json:
        console.print_json(ablation_object(found))
    else:
        print_ablation(found)
    if all(variant.failed == found.replayed for variant in found.variants):
        from ragbench_cli.console import ExitCode

        console.say("Error: every variant failed on every case, so nothing was measured.")
        raise typer.Exit(ExitCode.CANNOT_RUN)
