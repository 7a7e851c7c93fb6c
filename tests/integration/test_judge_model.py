"""A whole judged run in which every prompt is answered by a real model.

Any OpenAI-compatible server will do, such as llama.cpp's ``llama-server`` with a small model::

    llama-server -m SmolLM2-135M-Instruct.Q4_1.gguf --port 8080
    RAGBENCH_TEST_LLM_URL=http://127.0.0.1:8080/v1 pytest -m judge_model

It checks the plumbing, not what the model thinks.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ragbench import Case, RAGInterface, evaluate
from ragbench.core.outcome import Status
from ragbench.llm.session import LLMSession, open_models
from ragbench.llm.settings import resolve
from ragbench.stages.judge import Judging

URL = os.environ.get("RAGBENCH_TEST_LLM_URL", "")
MODEL = os.environ.get("RAGBENCH_TEST_LLM_MODEL", "model")

pytestmark = [
    pytest.mark.judge_model,
    pytest.mark.extra("ragas"),
    pytest.mark.skipif(not URL, reason="no model: set RAGBENCH_TEST_LLM_URL"),
]

METRICS = "exact_match, support, ragas:faithfulness"
OF_THE_MODEL = {"LLMReplyError", "LLMTruncatedError", "LLMRefusedError"}
"""What a small model may do; anything else is a fault of ours."""


class Bees(RAGInterface):
    """Knows one thing."""

    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        return ["Honey bees live in hives. A hive has one queen.", "Cows eat grass."]

    def generate(self, query: str, contexts: Any) -> str:
        return "Honey bees live in hives, and a hive has one queen."


def test_a_real_model_judges_and_is_asked_once(tmp_path: Path) -> None:
    limits = {"max_tokens": 400, "concurrency": 2, "timeout": 300}
    place = {"base_url": URL, "model": MODEL, "cache": str(tmp_path / "cache.sqlite")}
    settings = resolve({**place, **limits}, {})
    bees = Case(id="bees", query="Where do honey bees live?", reference="Honey bees live in hives.")

    def run() -> tuple[Any, Any]:
        """The report, and the receipt of the calls that it took."""
        with LLMSession(lambda: open_models(settings)) as session:
            judging = Judging(session=session, chat=settings)
            out = tmp_path / "run"
            report = evaluate([bees], Bees(), out=out, metrics=METRICS, judging=judging)
            return report, session.receipt()

    report, receipt = run()

    for row in report.rows():
        for metric, cell, judgements in zip(report.metrics, row.cells, row.judgements, strict=True):
            definition = metric.definition
            if cell.status is Status.MEASURED:
                assert cell.value is not None
                highest = definition.high or cell.value
                assert definition.low <= cell.value <= highest
            elif cell.failure is not None:
                assert cell.failure.type in OF_THE_MODEL, cell.failure
            assert judgements or not metric.is_judged
    judged_metrics = [summary for summary in report.summaries if summary.metric.is_judged]
    assert sum(summary.measured for summary in judged_metrics) > 0
    for line in receipt.lines:
        assert line.usage.reported

    # A failure is stored, too: the same command asks no model.
    second_report, second_receipt = run()

    cells = [list(row.cells) for row in report.rows()]
    assert [list(row.cells) for row in second_report.rows()] == cells
    assert second_receipt.lines == ()
