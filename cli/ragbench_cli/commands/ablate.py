"""``ragbench ablate``: variants of post-retrieval over one stored run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragbench_cli import console
from ragbench_cli.options import JsonOption, RunArgument, option

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
    json: JsonOption = False,
) -> None:
    """Compare variants of post-retrieval on a stored run.

    The retrievals of the run go through each variant; the RAG is not asked again. For each metric
    the mean difference from the first variant is shown with its 95% interval, and what each
    variant costs: time, and tokens for the generator. Evaluate with --top-k 50 first, so that
    there is something to choose from.

    \b
    Example:
      ragbench eval datasets/pellorin --top-k 50 --out run
      ragbench ablate run --variants variants.yaml -m recall@5,nDCG@5
    """
    from ragbench.metrics.registry import parse_metrics
    from ragbench.post.build import Resources, load_variants
    from ragbench.text.token_counter import token_counter
    from ragbench.verbs.ablate import ablate
    from ragbench.views.ablation import ablation_object
    from ragbench_cli.comparison_tables import print_ablation
    from ragbench_cli.models import language_model

    with console.stdout_for_data():
        chosen = None if metrics is None else parse_metrics(metrics)
    tokens = token_counter(counter)
    with console.stdout_for_data(), language_model("post_retrieve") as chat:
        known = load_variants(variants, Resources(chat=chat))
        found = ablate(run, known, metrics=chosen, counter=tokens)
    if json:
        console.print_json(ablation_object(found))
    else:
        print_ablation(found)
    if all(variant.failed == found.replayed for variant in found.variants):
        from ragbench_cli.console import ExitCode

        console.say("Error: every variant failed on every case, so nothing was measured.")
        raise typer.Exit(ExitCode.CANNOT_RUN)
