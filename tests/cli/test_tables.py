"""How a report looks, what a command shows on the way, and how a signal ends it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from ragbench.core.report import FailureGroup, Interval, Latency, Report, StageCount, Summary
from ragbench.metrics.registry import parse_metric
from ragbench.stages.stage import Progress
from ragbench_cli import console
from ragbench_cli.console import InTurn, Lines
from ragbench_cli.report_tables import print_report


def summary(name: str, measured: int = 10, *, abstained: int = 0, failed: int = 0) -> Summary:
    return Summary(
        metric=parse_metric(name),
        total=10,
        measured=measured,
        abstained=abstained,
        failed=failed,
        skipped=10 - measured - abstained - failed,
        score=0.5 if measured else None,
        interval=Interval(low=0.25, high=0.75) if measured > 1 else None,
        clusters=measured,
    )


def report(
    summaries: Sequence[Summary] = (),
    failures: Sequence[FailureGroup] = (),
    latencies: Sequence[Latency] = (),
    notes: Sequence[str] = (),
) -> Report:
    return Report(
        manifest={"dataset": {"name": "office", "cases": 10}, "rag": {"name": "mine"}},
        metrics=tuple(item.metric for item in summaries),
        summaries=tuple(summaries),
        stages=(
            StageCount(stage="retrieve", measured=10, abstained=0, skipped=0, failed=0),
            StageCount(stage="generate", measured=7, abstained=2, skipped=0, failed=1),
        ),
        failures=tuple(failures),
        latencies=tuple(latencies),
        notes=tuple(notes),
        rows=lambda: iter(()),
    )


def failure(message: str, count: int = 1, kind: str = "ValueError", first: int = 0) -> FailureGroup:
    """An error of so many cases, of which up to five are examples, from the case `first` on."""
    number_of_examples = min(count, 5)
    return FailureGroup(
        stage="generate",
        type=kind,
        message=message,
        count=count,
        examples=tuple(f"c{first + place}" for place in range(number_of_examples)),
    )


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    def call(shown: Report, columns: int = 80) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        print_report(shown, is_full=True)
        return capsys.readouterr().out

    return call


def test_the_whole_picture(printed: Any) -> None:
    shown = report(
        [
            summary("recall@5", 8),
            summary("token_f1", 7, abstained=2, failed=1),
            summary("nDCG@10", 1),
            summary("brier", 0),
        ],
        [failure("no", 1)],
        [Latency(stage="retrieve", count=10, mean=0.0005, p50=0.25, p95=1.5, longest=61.0)],
        ["Mind the gap."],
    )

    out = printed(shown)

    assert out == (
        "mine on office: 10 cases\n"
        "retrieve  10 done\n"
        "generate  7 answered, 2 abstained, 1 failed\n"
        "\n"
        "metric    score    95% interval  n of 10  abstained  skipped  failed\n"
        "recall@5  0.500  0.250 .. 0.750        8          -        2       -\n"
        "token_f1  0.500  0.250 .. 0.750        7          2        -       1\n"
        "nDCG@10   0.500               -        1          -        9       -\n"
        "\n"
        "not measured\n"
        "  brier: no case\n"
        "\n"
        "failed\n"
        "  generate, 1 case: ValueError: no (as in c0)\n"
        "\n"
        "time per case   n    mean       p50     p95  longest\n"
        "  retrieve     10  0.5 ms  250.0 ms  1.50 s  61.00 s\n"
        "\n"
        "notes\n"
        "  Mind the gap.\n"
    )


def test_of_cases_that_shared_a_call_only_the_mean_is_shown(printed: Any) -> None:
    shared = Latency(
        stage="retrieve", count=10, mean=0.1, p50=None, p95=None, longest=None, sharing=8
    )

    out = printed(report([summary("recall@5")], latencies=[shared]))

    table = (
        "time per case   n      mean\n"
        "  retrieve     10  100.0 ms\n"
        "  up to 8 cases shared a call; --batch-size 1 measures each alone\n"
    )
    assert table in out


def test_failures_of_one_type_share_a_line(printed: Any) -> None:
    groups = [
        failure("first", count=3),
        failure("second", count=2, first=3),
        failure("t", kind="KeyError", first=9),
    ]
    lines = printed(report(failures=groups), 200).splitlines()
    examples = "as in c0, c1, c2; 2 of them with another message"
    assert f"  generate, 5 cases: ValueError: first ({examples})" in lines
    assert "  generate, 1 case: KeyError: t (as in c9)" in lines

    # A long message is cut, and of 20 types the first 8 are shown.
    many = [failure("a\n\n b " + "x" * 500, kind="Error00")]
    for number in range(1, 20):
        many.append(failure("m", kind=f"Error{number:02}"))
    out = " ".join(printed(report(failures=many)).split())
    assert "a b " in out
    assert "x" * 250 not in out
    assert "Error07" in out
    assert "Error08" not in out
    assert "and 12 more types of error: see report.json" in out


@pytest.mark.parametrize("columns", [44, 60, 80, 120, 200])
def test_tables_fit_the_terminal(printed: Any, columns: int) -> None:
    summaries = [
        summary("ragas:non_llm_context_precision_with_reference", 5, failed=5),
        summary("recall@5", 5, abstained=5),
    ]
    shown = report(summaries, [failure("word " * 60)])

    lines = printed(shown, columns).splitlines()

    assert any(line.startswith("recall@5 ") for line in lines)
    for line in lines:
        assert len(line) <= columns
        assert line == line.rstrip()


def test_a_line_every_half_minute() -> None:
    printed: list[str] = []
    clock = iter([0.0, 29.0, 30.0, 31.0, 60.0, 89.9])
    lines = Lines(print=printed.append, now=lambda: next(clock))

    lines.advance(Progress("retrieve", 1000, 100))
    lines.advance(Progress("retrieve", 1000, 100))
    lines.advance(Progress("retrieve", 1000, 100, 3))
    lines.advance(Progress("generate", 1000, 10, 0, 10))
    lines.advance(Progress("generate", 1000, 10, 2))
    lines.advance(Progress("generate", 1000, 10, recorded=4))

    assert printed == [
        "retrieve 300/1,000 (3 failed)",
        "generate 20/1,000 (2 failed, 10 from before)",
    ]


def hints_of_a_run_in_turn(seconds: float, *, cases: int, reused: int = 0) -> list[str]:
    """What is said while each case of a run takes so long, one after the other."""
    hints: list[str] = []
    clock = iter(number * seconds for number in range(cases))
    in_turn = InTurn(print=hints.append, now=lambda: next(clock))
    if reused:
        in_turn.advance(Progress("retrieve", cases, reused, reused=reused))
    for _ in range(cases - reused):
        in_turn.advance(Progress("retrieve", cases, 1))
    return hints


def test_a_slow_system_in_turn_is_told_once_what_eight_calls_save() -> None:
    hints = hints_of_a_run_in_turn(2.0, cases=211)

    assert hints == [
        "retrieve takes 2.0 s a case, one after the other: 400 s more. --concurrency 8 needs about "
        "50 s, if your RAG allows several calls"
    ]


@pytest.mark.parametrize(
    ("seconds", "cases", "reused"),
    [
        pytest.param(0.001, 200, 0, id="fast"),
        pytest.param(1.0, 12, 0, id="few cases"),
        pytest.param(1.0, 200, 200, id="from before"),
    ],
)
def test_a_system_that_nobody_waits_for_gets_no_hint(
    seconds: float, cases: int, reused: int
) -> None:
    assert hints_of_a_run_in_turn(seconds, cases=cases, reused=reused) == []


def test_calls_that_hang_end_with_the_first_sigterm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends it kills soon."""
    monkeypatch.setattr(console, "_LAST_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt), console.stop_on_signal() as stopped:
        assert not stopped()
        signal.raise_signal(signal.SIGTERM)
        assert stopped()
        threading.Event().wait(60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_before_there_are_calls_the_first_signal_ends_it(number: signal.Signals) -> None:
    """A command that reads a huge file, or loads a model, does not ask."""
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), console.stop_on_signal():
        signal.raise_signal(number)
    assert signal.getsignal(number) is before
