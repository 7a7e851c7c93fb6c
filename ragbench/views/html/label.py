"""The page on which people label answers; it needs no server, and saves a file of labels."""

from __future__ import annotations

import json

from ragbench.core.labels import Drawn, Judged, LabelTask
from ragbench.core.metric import Need
from ragbench.views.html.page import Page, render
from ragbench.views.labels import ask_text


def label_page(drawn: Drawn, *, by: str = "", shows_judge: bool = False) -> Page:
    """A page with a block for each case; what is asked stands in it for every answer.

    Args:
        by: who labels, where that is known.
        shows_judge: whether the judge's value and the run are shown, too.
    """

    def shown(task: LabelTask, judged: Judged) -> dict[str, object]:
        return {
            "line": json.dumps(drawn.line(task, judged)),
            "text": judged.answer if drawn.reads(Need.RESPONSE) else None,
            "judge": judged.value if shows_judge else None,
            "run": judged.run,
            "contexts": judged.contexts if drawn.reads(Need.RETRIEVED_CONTEXTS) else (),
        }

    values = {
        "metric": drawn.metric.name,
        "about": drawn.metric.definition.summary,
        "asks": ask_text(drawn),
        "of": drawn.of,
        "seed": drawn.seed,
        "by": by,
        "choices": [{**one._asdict(), "value": f"{one.value:g}"} for one in drawn.choices],
        "tasks": [
            {
                "question": task.question,
                "references": task.references if drawn.reads(Need.REFERENCE) else (),
                "answers": [shown(task, judged) for judged in task.answers],
            }
            for task in drawn.tasks
        ],
    }
    return Page(title=f"Labels: {drawn.metric.name}", body=[render("label.html.jinja", values)])
