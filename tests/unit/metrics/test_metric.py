"""``@metric`` and plans: what a function says, is given, and what becomes of what it returns."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import numpy as np
import pytest

from ragbench import RetrievalResult, Skip, metric, parse_metrics
from ragbench.core.case import Expectation, ExpectationKind
from ragbench.core.metric import Direction, Group, Need, Parameter, metric_of
from ragbench.core.outcome import Cell, Failure, Outcome, Status
from ragbench.core.trace import Trace
from ragbench.errors import ConfigError, MissingExtraError
from ragbench.ledger.folder import MetricInfo
from ragbench.metrics.citations import Cited
from ragbench.metrics.expectations import Expected
from ragbench.metrics.matching import Matching
from ragbench.metrics.metric import ARGUMENTS, AtLeast, definition_of
from ragbench.metrics.plan import Plan
from ragbench.metrics.rank import Ranking
from ragbench.metrics.registry import MetricLike, find_definition, parse_metric
from tests.unit.metrics.builders import answered, cell, cells, failed, generated, retrieved, trace

# --- what a function says of itself


@metric(
    group="overall",
    direction="lower",
    low=None,
    high=10,
    unit="s",
    cutoff="k",
    abstains=True,
    aliases=("o",),
    cite="nobody",
    version=3,
)
def odd(
    response: str,
    contexts: Sequence[str],
    *,
    k: int | None = None,
    style: Literal["a", "b"] = "a",
    least: Annotated[int, AtLeast(1), "how few"] = 2,
    share: float = 1,
    loud: bool = False,
) -> float:
    """Something odd, in
    two lines.

    More of it.

    Args:
        response: the answer
        style: which of
            the two.
        share: how much

    Returns:
        loud: nothing of it
    """
    return 1.0


def test_the_definition_is_what_the_function_says() -> None:
    found = definition_of(odd)
    assert found is not None and (found.name, found.aliases, found.version) == ("odd", ("o",), 3)
    assert (found.group, found.direction) == (Group.OVERALL, Direction.LOWER)
    assert found.needs == {Need.RESPONSE, Need.RETRIEVED_CONTEXTS}
    assert found.summary == "Something odd, in two lines"
    assert (found.low, found.high, found.unit, found.cutoff) == (None, 10, "s", "optional")
    assert (found.abstains, found.citation) == (True, "nobody")
    assert found.parameters == (
        Parameter(name="style", default="a", summary="which of the two", choices=("a", "b")),
        Parameter(name="least", default=2, summary="how few", low=1),
        Parameter(name="share", default=1.0, summary="how much"),
        Parameter(name="loud", default=False, summary=""),
    )
    assert isinstance(found.parameters[2].default, float)


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("def f(respons): ...", "reads 'respons', which does not exist. Did you mean 'response'?"),
        ("def f(response, n=3): ...", "reads 'n', which does not exist."),
        ("def f(response, query=''): ...", "has a default for 'query'"),
        ("def f(*all): ...", "takes '*all': name what it reads"),
        ("def f(): ...", "reads nothing of a case. Known: query"),
        ("def f(response, *, n): ...", "has the parameter 'n' without a default"),
        ("async def f(response): ...", "is a coroutine function"),
        ("class f: ...", "is not a function"),
    ],
)
def test_what_is_wrong_with_a_function_is_reported_at_once(source: str, shown: str) -> None:
    names: dict[str, Any] = {}
    exec(source, names)
    with pytest.raises(ConfigError, match=f"the metric 'f'.*{re.escape(shown)}"):
        metric(names["f"])


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"grup": "x"}, "has the option 'grup', which does not exist. Did you mean 'group'?"),
        ({"group": "x"}, "has the group 'x': it is one of retriever, generator, overall"),
        ({"cutoff": "k"}, "has cutoff='k', and no keyword-only parameter of that name"),
        ({"name": "two words"}, "needs a name of letters"),
        ({"probability": True, "high": 5}, "is a probability: its values go from 0 to 1"),
    ],
)
def test_what_is_wrong_with_an_option_is_reported_at_once(
    options: dict[str, Any], shown: str
) -> None:
    named: dict[str, Any] = {"name": "f", **options}
    with pytest.raises(ConfigError, match=rf"^test_metric\.py:.*{re.escape(shown)}"):
        metric(**named)(lambda response: 1.0)


# --- what it is given

FOUND = retrieved("a", "c", metadata=[{"source": "x"}, {}], seconds=0.5)
assert FOUND.value is not None
ANSWERED = trace(
    grades={"a": 2, "b": 0, "z": 1},
    gold_texts=["text of a"],
    evidence=["of a"],
    references=["right", "also right"],
    answerable=True,
    retrieval=replace(FOUND, value=replace(FOUND.value, scores=[0.9, 0.1])),
    generation=generated(
        "an answer [1]",
        candidates=["one", "two"],
        confidence=0.75,
        seconds=1.5,
        metadata={"usage": {"prompt_tokens": 3}},
    ),
)
EXPECTED = Expectation(kind=ExpectationKind.MENTIONS, texts=("answer",))
SCORED = replace(ANSWERED, case=replace(ANSWERED.case, expectations=(EXPECTED,)))
FIXED = RetrievalResult(  # lists would let one metric change what the next one reads
    ("text of a", "text of c"),
    context_ids=("a", "c"),
    scores=(0.9, 0.1),
    context_metadata=({"source": "x"}, {}),
)
ANSWER = replace(cast("Any", SCORED.generation.value), multi_responses=("one", "two"))
GIVEN: dict[str, Any] = {
    "query": "query",
    "response": "an answer [1]",
    "multi_responses": ("one", "two"),
    "confidence": 0.75,
    "declined": False,
    "reference": "right",
    "citations": [Cited("an answer [1]", ("1",), (0,))],
    "references": ("right", "also right"),
    "answerable": True,
    "contexts": ("text of a", "text of c"),
    "context_ids": ("a", "c"),
    "scores": (0.9, 0.1),
    "context_metadata": ({"source": "x"}, {}),
    "reference_contexts": ("text of a",),
    "reference_context_ids": ("a", "z"),
    "grades": {"a": 2, "b": 0, "z": 1},
    "evidence": SCORED.case.evidence,
    "retrieval_seconds": 0.5,
    "tokens": {"prompt_tokens": 3.0},
    "generation_seconds": 1.5,
    "retrieval": FIXED,
    "generation": ANSWER,
    "case": SCORED.case,
    "trace": replace(
        SCORED,
        retrieval=replace(SCORED.retrieval, value=FIXED),
        generation=replace(SCORED.generation, value=ANSWER),
    ),
    "expectations": Expected(trace=SCORED),
}


def noting(argument: str, seen: list[Any]) -> MetricLike:
    function = eval(f"lambda {argument}: seen.append({argument}) or 1.0", {"seen": seen})
    noted: MetricLike = metric(name="f", direction="neither")(function)
    return noted


@pytest.mark.parametrize("argument", [name for name in ARGUMENTS if name != "ranking"])
def test_each_argument_is_what_its_name_says(argument: str) -> None:
    seen: list[Any] = []
    assert cells([noting(argument, seen)], SCORED)[0] == (Cell.measured(1.0),)
    assert seen == [GIVEN[argument]]


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_a_case_that_lacks_it_is_skipped_and_the_function_not_called(argument: str) -> None:
    if argument in ("query", "case", "trace"):
        return  # always there
    seen: list[Any] = []
    (found,) = cells([noting(argument, seen)], trace())[0]
    assert found.status is Status.SKIPPED and found.reason
    broken = trace(retrieval=failed("retrieve"), generation=failed("generate"))
    (found,) = cells([noting(argument, seen)], broken)[0]
    assert found.status in (Status.SKIPPED, Status.FAILED)
    assert seen == []
    cells([noting("trace", seen)], broken)
    assert seen == [broken]  # a metric of the trace sees failed cases too


def test_a_ranking_beside_other_arguments_is_compared_as_the_run_does() -> None:
    @metric
    def first(query: str, ranking: Ranking) -> float:
        return float(ranking.grades[:1] == (1,))

    one = trace(gold_texts=["some text"], retrieval=retrieved("a", texts=["Some text."]))
    nothing = trace(gold_texts=[], retrieval=retrieved("a"))
    rows = cells([first], nothing, one, matching=Matching.TEXT)
    assert rows == [(Cell.skipped("no relevant context is known"),), (Cell.measured(1.0),)]


def test_the_best_of_several_references_counts() -> None:
    def share(response: str, reference: str) -> float | None:
        return None if not reference else min(len(response) / len(reference), 1.0)

    ways: tuple[Any, ...] = ("higher", "lower", "neither")
    metrics: list[MetricLike] = [
        metric(name=way, direction=way)(lambda response, reference: share(response, reference))
        for way in ways
    ]
    several, one = answered("ab", "abcd", "abc", "abcdef"), answered("ab", "abcd")
    rows = cells(metrics, several, one, answered("ab", "", "abcd"))
    values = [[2 / 3, 1 / 3, 0.5], [0.5, 0.5, 0.5], [0.5, 0.5, None]]
    assert [[c.value for c in row] for row in rows] == values


# --- what becomes of what it returns


@pytest.mark.parametrize(
    ("given", "cell"),
    [
        (0.5, Cell.measured(0.5)),
        (1, Cell.measured(1.0)),
        (True, Cell.measured(1.0)),
        (np.float32(0.5), Cell.measured(0.5)),
        (np.array(0.25), Cell.measured(0.25)),
        (1 + 1e-12, Cell.measured(1 + 1e-12)),
        (None, Cell.skipped("the metric gave no value")),
        (Skip("too short"), Cell.skipped("too short")),
    ],
)
def test_numbers_are_measured_and_what_is_none_is_skipped(given: object, cell: Cell) -> None:
    returns = metric(name="returns")(lambda response: given)
    assert cells([returns], answered("a"), answered("b")) == [(cell,), (cell,)]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (float("nan"), "gave nan, which is not a finite number"),
        (10**400, "gave inf, which is not a finite number of up to 1e+100"),
        (-1e200, "gave -1e+200, which is not a finite number"),
        ("0.5", "gave '0.5' (a str), which is not a number"),
        (np.array([0.5, 1.0]), "(a ndarray), which is not a number"),
        (1.5, "gave 1.5, outside of its range, 0 to 1: give @metric the right low and high"),
        (-0.1, "gave -0.1, outside of its range, 0 to 1"),
        ("x" * 100, "gave 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx... (a str)"),
    ],
)
def test_what_is_no_number_of_the_range_fails_the_case(given: object, shown: str) -> None:
    returns = metric(name="returns")(lambda response: given)
    (found,) = cells([returns], answered("a"))[0]
    assert found.failure is not None and found.failure.stage == "score"
    assert shown in found.failure.message


def test_a_batch_is_given_columns_and_the_best_reference_counts_there_too() -> None:
    seen: list[Any] = []

    @metric(batch=True, high=None)
    def distance(response: list[str], reference: list[str]) -> Any:
        seen.append((response, reference))
        return np.array([len(one) for one in reference])

    rows = cells([distance], answered("a", "x", "yy"), answered("b", "zzz"))
    assert seen == [(["a", "a", "b"], ["x", "yy", "zzz"])]
    assert [row[0].value for row in rows] == [2.0, 3.0]


# --- parameters


@metric(high=None, cutoff="k")
def settings(
    response: str, *, k: int, rel: Annotated[int, AtLeast(1)] = 1, style: str = "plain"
) -> float:
    return 100 * k + 10 * rel + len(style)


UNTYPED: Any = settings


def test_parameters_and_cutoff_are_bound() -> None:
    three, named = parse_metrics(
        [partial(settings, k=3, rel=2), partial(settings, k=1, rel=1, style="x")]
    )
    assert (three.name, named.name) == ("settings(rel=2)@3", "settings(style=x)@1")
    assert cells([three], answered("a"))[0][0].value == 325.0


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (settings, "'settings' needs a cutoff, as in settings@10"),
        (partial(UNTYPED, k=1, rel="two"), "rel must be a whole number, not 'two'"),
        (partial(UNTYPED, k=1, other=3), "has no parameter 'other': it has rel, style"),
        (partial(settings, "a", k=1), "parameters of a metric are given by their names"),
        (len, "'len' is not a metric: write @metric above the function"),
    ],
)
def test_what_cannot_be_bound_is_reported(given: MetricLike, shown: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(shown)):
        parse_metrics([given])


def test_two_metrics_of_one_name_are_refused() -> None:
    other: MetricLike = metric(name="token_f1")(lambda response: 1.0)
    with pytest.raises(ConfigError, match="two metrics are called 'token_f1'"):
        parse_metrics(["token_f1", other])
    (own,) = parse_metrics([other, other])
    assert own.identity != parse_metric("token_f1").identity


# --- in files

FILE = '''
from ragbench import metric
from words import WORDS

@metric(abstains=True)
def stop_share(response: str, *, least: int = 0) -> float:
    """Share of stop words."""
    words = response.split()
    return sum(w in WORDS for w in words) / len(words)

@metric(name="mine:recall", cutoff="k")
def recall(ranking, *, k: int, rel: int = 1) -> float:
    """Found ones."""
    return sum(grade >= rel for grade in ranking.grades[:k]) / ranking.relevant(rel)

def plain(response):
    return 1.0
'''


@pytest.fixture
def here(own_modules: Path) -> Path:
    """A folder with metrics in files, which is the current one."""
    (own_modules / "mine.py").write_text(FILE, encoding="utf-8")
    (own_modules / "words.py").write_text("WORDS = {'a', 'the'}\n", encoding="utf-8")
    (own_modules / "sub").mkdir()
    (own_modules / "sub" / "other.py").write_text(FILE, encoding="utf-8")
    return own_modules


@pytest.mark.usefixtures("here")
def test_a_function_in_a_file_is_a_metric_by_its_place() -> None:
    one = trace(grades={"a": 2, "b": 1}, retrieval=retrieved("a"), generation=generated("the cat"))
    found = parse_metrics("mine.py:stop_share, mine.py:recall(rel=2)@5 mine:stop_share(least=3)")
    names = ["stop_share", "mine:recall(rel=2)@5", "stop_share(least=3)"]
    assert [metric.name for metric in found] == names
    assert [c.value for c in cells(found, one)[0]] == [0.5, 1.0, 0.5]
    assert found[0].definition.scorer == "mine.py:stop_share"
    assert parse_metric("sub/other.py:stop_share").name == "stop_share"
    assert parse_metric("./sub/other.py:stop_share").name == "stop_share"
    assert find_definition("mine.py:recall").summary == "Found ones"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mine.py:stop_shar", "'mine.py:stop_shar': there is no 'stop_shar'. Did you mean stop_sh"),
        ("mine.py:plain", "'mine.py:plain' is a function, not a metric: write @metric above"),
        ("none.py:f", "there is no file 'none.py'"),
        ("nowhere.at.all:f", "there is no module 'nowhere'"),
        ("ragas:blue", "unknown metric 'ragas:blue'. Did you mean ragas:bleu"),
        ("broken.py:f", "broken.py:5: the metric 'f' reads 'responze'"),
        ("raises.py:f", "importing 'raises.py' failed: ZeroDivisionError"),
        ("mine.py:recall", "'mine.py:recall' needs a cutoff, as in mine.py:recall@10"),
        ("mine.py", "'mine.py' is a file: name a function in it, as in mine.py:my_metric"),
    ],
)
def test_a_place_without_a_metric_is_reported(here: Path, text: str, shown: str) -> None:
    broken = "from ragbench import metric\n\n\n\n@metric\ndef f(responze): ...\n"
    (here / "broken.py").write_text(broken, encoding="utf-8")
    (here / "raises.py").write_text("1 / 0\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=re.escape(shown)):
        parse_metric(text)


CALLED: list[int] = []


@metric(high=None)
def length(response: str) -> float:
    """A response's length; not of unlucky ones."""
    if len(response) == 13:
        raise ValueError("unlucky") from KeyError("why")
    return float(len(response))


@metric(high=None)
def plain_length(response: str) -> int:
    CALLED.append(len(response))
    return len(response)


@metric(high=None, batch=True)
def length_of_all(response: Sequence[str]) -> list[float | None]:
    """The same, all at once."""
    CALLED.append(len(response))
    if any(len(one) == 13 for one in response):
        raise ValueError("unlucky")
    return [len(one) or None for one in response]


def answers(*responses: str) -> list[Trace]:
    return [trace(generation=generated(response)) for response in responses]


def test_a_bad_case_costs_its_own_cell_only() -> None:
    CALLED.clear()
    rows = cells([length, plain_length], *answers(*("x" * size for size in (1, 2, 13, 4, 5))))
    assert CALLED == [1, 2, 13, 4, 5]
    assert [row[0].value for row in rows] == [1.0, 2.0, None, 4.0, 5.0]
    assert [row[1].value for row in rows] == [1.0, 2.0, 13.0, 4.0, 5.0]
    failure = rows[2][0].failure
    assert failure is not None and failure.traceback is not None
    assert (failure.type, failure.message, failure.stage) == ("ValueError", "unlucky", "score")
    assert failure.cause == "KeyError: 'why'" and "unlucky" in failure.traceback


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda response: next(iter([])) if response == "b" else 1.0, "StopIteration"),
        (lambda response: sys.exit(3) if response == "b" else 1.0, "SystemExit"),
        (lambda response, reference: 1.0 if reference == "right" else 1 / 0, "ZeroDivisionError"),
    ],
)
def test_whatever_a_function_raises_fails_its_case_alone(
    function: Callable[..., float], error: str
) -> None:
    fine = answered("a", "right", "right")
    rows = cells([metric(name="own")(function)], fine, answered("b", "right", "wrong"), fine)
    assert [row[0].value for row in rows] == [1.0, None, 1.0]
    assert error in str(rows[1][0].failure)


def test_a_function_of_many_cases_is_asked_in_halves_where_it_fails() -> None:
    CALLED.clear()
    rows = cells([length_of_all], *answers("a", "bb", "x" * 13, ""))
    assert CALLED == [4, 2, 2, 1, 1]
    assert [row[0].value for row in rows] == [1.0, 2.0, None, None]
    assert [row[0].status for row in rows] == ["measured", "measured", "failed", "skipped"]
    one_too_few = metric(name="few", batch=True)(lambda response: response[1:])
    found = cells([one_too_few], *answers("a", "b"))
    assert all("gave 0 values for 1 case" in str(row[0].failure) for row in found)


def test_what_only_the_user_can_change_stops_the_run() -> None:
    @metric
    def needs_setting(response: str) -> float:
        raise ConfigError("no judge is configured")

    def prepare() -> None:
        raise MissingExtraError("sacrebleu", "text")

    with pytest.raises(ConfigError, match="no judge"):
        cells([needs_setting], *answers("a"))
    with pytest.raises(MissingExtraError):  # before anything runs
        Plan(parse_metrics([metric(name="heavy", prepare=prepare)(lambda response: 1.0)]))


def test_a_metric_that_is_not_installed_stops_before_anything_runs() -> None:
    stored = metric_of(MetricInfo.of(parse_metrics([plain_length])[0]).definition)
    gone = replace(stored, definition=replace(stored.definition, scorer="nowhere:at_all"))
    with pytest.raises(ConfigError, match="'plain_length' cannot be computed here: there is no"):
        Plan([gone])


def test_a_failed_stage_passes_its_failure_on() -> None:
    retrieval, generation = failed("retrieve"), failed("generate")
    one = trace(gold=["a"], references=["a"], retrieval=retrieval, generation=generation)
    row = cells("recall@5, token_f1, retrieval_latency, generation_latency, best_of_n", one)[0]
    which = (retrieval, generation, retrieval, generation, generation)
    assert [c.failure for c in row] == [one.failure for one in which]


def test_a_failure_without_a_record_is_still_a_failure() -> None:
    one = trace(gold=["a"], retrieval=Outcome(status=Status.FAILED))
    found = cell("recall@5", one).failure
    assert found == Failure(type="Failure", message="the cause was not recorded", stage="retrieval")


def test_an_alternative_reference_alone_is_a_reference() -> None:
    one = trace(references=["", "b"], generation=generated("b"))
    case = replace(one.case, reference=None)
    assert cell("exact_match", replace(one, case=case)) == Cell.measured(1.0)
