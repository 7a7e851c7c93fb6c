"""``ragbench label``: people say what answers are worth."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from ragbench_cli import console
from ragbench_cli.options import CASES, OUTPUT, JsonOption, RunArgument, option, takes_records


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    run: RunArgument
    metric: Annotated[str, option("--metric", "-m")]
    """Metric whose figure the labels correct, as the run writes it."""
    against: Annotated[Path | None, option("RUN", panel=CASES)] = None
    """Another run of the same cases: both answers side by side, where they differ."""
    number: Annotated[int, option("N", "--number", "-n", min=1, panel=CASES)] = 50
    """Cases, or pairs, to draw."""
    seed: Annotated[int, option(panel=CASES)] = 0
    """Seed of the draw. More cases with the same seed hold the fewer ones."""
    stratified: Annotated[bool, option(panel=CASES, rare=True)] = False
    """Draw in proportion to the metric's values, so that the few are not missed."""
    by: Annotated[str, option("NAME")] = ""
    """Who labels; by default the name of the login. Several people may label the same draw."""
    show_judge: Annotated[bool, option(rare=True)] = False
    """Show the metric's value and the run: labels are then biased towards it."""
    output: Annotated[Path, option("FILE", "--output", "-o", panel=OUTPUT)] = Path("labels.jsonl")
    """File that labels are added to. Its labels are not asked again."""
    page: Annotated[Path | None, option("FILE", panel=OUTPUT)] = None
    """Write a page to label on, which needs no server and no network, instead of asking here."""


@takes_records
def command(asked: Asked, json: JsonOption = False) -> None:
    """Label answers of a run, drawn at random.

    One key per verdict, blind to the metric's value and to the system. Labels correct a figure
    with --labels FILE in eval, report, compare and gate; a label is of this question with
    this answer on these contexts, so it is gone when they change.

    \b
    Examples:
      ragbench label run -m support -n 50
      ragbench label branch --against main -m support -n 100 --page label.html
      ragbench report run --labels labels.jsonl
    """
    from ragbench.verbs.label import draw
    from ragbench_cli.labelling import Session, print_labels

    drawn = draw(
        asked.run,
        asked.metric,
        asked.number,
        against=asked.against,
        seed=asked.seed,
        stratified=asked.stratified,
    )
    if asked.page is not None:
        from ragbench.views.html.page import write_html
        from ragbench.views.labels import label_page

        # Of a page that nobody is named for, what anybody said is not asked again.
        left = Session(drawn, asked.output, asked.by).undone()
        made = label_page(left, by=asked.by, shows_judge=asked.show_judge)
        write_html(asked.page, made.body, title=made.title, script="label.js")
        done = len(drawn.tasks) - len(left.tasks)
        known = f", {done:,} of them labelled in {asked.output}" if done else ""
        console.say(f"page    {asked.page} ({len(drawn.tasks):,} of {drawn.of:,} drawn{known})")
        return
    by = asked.by or os.environ.get("USER") or os.environ.get("USERNAME") or "somebody"
    session = Session(drawn, asked.output, by, shows_judge=asked.show_judge)
    is_done = session.run()
    print_labels(session.book(), asked.run, asked.against, as_json=json)
    if not is_done:
        console.say(f"{session.left:,} are left: the same command goes on with them.")
