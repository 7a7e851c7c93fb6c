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
    definition = definition_of(odd)

    assert definition is not None
    assert definition.name == "odd"
    assert definition.aliases == ("o",)
    assert definition.version == 3
    assert definition.group == Group.OVERALL
    assert definition.direction == Direction.LOWER
    assert definition.needs == {Need.RESPONSE, Need.RETRIEVED_CONTEXTS}
    assert definition.summary == "Something odd, in two lines"
    assert (definition.low, definition.high) == (None, 10)
    assert definition.unit == "s"
    assert definition.cutoff == "optional"
    assert definition.abstains is True
    assert definition.citation == "nobody"


def test_parameters_are_the_keyword_only_arguments_as_their_annotations_say() -> None:
    definition = definition_of(odd)

    assert definition is not None
    style, least, share, loud = definition.parameters
    assert style == Parameter(
        name="style", default="a", summary="which of the two", choices=("a", "b")
    )
    assert least == Parameter(name="least", default=2, summary="how few", low=1)
    assert share == Parameter(name="share", default=1.0, summary="how much")
    assert loud == Parameter(name="loud", default=False, summary="")


def test_the_default_of_a_parameter_has_the_type_of_its_annotation() -> None:
    definition = definition_of(odd)

    assert definition is not None
    assert isinstance(definition.parameters[2].default, float)  # share: float = 1


@pytest.mark.parametrize(
    ("source", "message"),
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
def test_what_is_wrong_with_a_function_is_reported_at_once(source: str, message: str) -> None:
    namespace: dict[str, Any] = {}
    exec(source, namespace)

    with pytest.raises(ConfigError, match=f"the metric 'f'.*{re.escape(message)}"):
        metric(namespace["f"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grup": "x"}, "has the option 'grup', which does not exist. Did you mean 'group'?"),
        ({"group": "x"}, "has the group 'x': it is one of retriever, generator, overall"),
        ({"cutoff": "k"}, "has cutoff='k', and no keyword-only parameter of that name"),
        ({"name": "two words"}, "needs a name of letters"),
        ({"probability": True, "high": 5}, "is a probability: its values go from 0 to 1"),
    ],
)
def test_what_is_wrong_with_an_option_is_reported_at_once(
    options: dict[str, Any], message: str
) -> None:
    options = {"name": "f", **options}

    with pytest.raises(ConfigError, match=rf"^test_metric\.py:.*{re.escape(message)}"):
        metric(**options)(lambda response: 1.0)


# --- what its arguments are

RETRIEVED = retrieved("a", "c", metadata=[{"source": "x"}, {}], seconds=0.5)
assert RETRIEVED.value is not None
FULL_CASE = trace(
    grades={"a": 2, "b": 0, "z": 1},
    gold_texts=["text of a"],
    evidence=["of a"],
    references=["right", "also right"],
    answerable=True,
    retrieval=replace(RETRIEVED, value=replace(RETRIEVED.value, scores=[0.9, 0.1])),
    generation=generated(
        "an answer [1]",
        candidates=["one", "two"],
        confidence=0.75,
        seconds=1.5,
        metadata={"usage": {"prompt_tokens": 3}},
    ),
)
MENTIONS_ANSWER = Expectation(kind=ExpectationKind.MENTIONS, texts=("answer",))
SCORED = replace(FULL_CASE, case=replace(FULL_CASE.case, expectations=(MENTIONS_ANSWER,)))
FROZEN_RETRIEVAL = RetrievalResult(  # lists would let one metric change what the next one reads
    ("text of a", "text of c"),
    context_ids=("a", "c"),
    scores=(0.9, 0.1),
    context_metadata=({"source": "x"}, {}),
)
FROZEN_ANSWER = replace(cast("Any", SCORED.generation.value), multi_responses=("one", "two"))
ARGUMENT_VALUES: dict[str, Any] = {
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
    "retrieval": FROZEN_RETRIEVAL,
    "generation": FROZEN_ANSWER,
    "case": SCORED.case,
    "trace": replace(
        SCORED,
        retrieval=replace(SCORED.retrieval, value=FROZEN_RETRIEVAL),
        generation=replace(SCORED.generation, value=FROZEN_ANSWER),
    ),
    "expectations": Expected(trace=SCORED),
}
"""What a metric is called with for SCORED, by the name of the argument."""


def metric_that_notes(argument: str, values: list[Any]) -> MetricLike:
    """A metric that reads one argument of a case, and notes what it was called with."""
    function = eval(f"lambda {argument}: values.append({argument}) or 1.0", {"values": values})
    noting: MetricLike = metric(name="f", direction="neither")(function)
    return noting


@pytest.mark.parametrize("argument", [name for name in ARGUMENTS if name != "ranking"])
def test_each_argument_is_what_its_name_says(argument: str) -> None:
    values: list[Any] = []

    rows = cells([metric_that_notes(argument, values)], SCORED)

    assert rows == [(Cell.measured(1.0),)]
    assert values == [ARGUMENT_VALUES[argument]]


ALWAYS_THERE = ("query", "case", "trace")
MAY_BE_MISSING = [name for name in ARGUMENTS if name not in ALWAYS_THERE]
BROKEN = trace(retrieval=failed("retrieve"), generation=failed("generate"))


@pytest.mark.parametrize("argument", MAY_BE_MISSING)
def test_a_case_that_lacks_it_is_skipped_and_the_function_not_called(argument: str) -> None:
    values: list[Any] = []

    ((score,),) = cells([metric_that_notes(argument, values)], trace())

    assert score.status is Status.SKIPPED
    assert score.reason
    assert values == []


@pytest.mark.parametrize("argument", MAY_BE_MISSING)
def test_with_failed_stages_the_function_is_not_called(argument: str) -> None:
    values: list[Any] = []

    ((score,),) = cells([metric_that_notes(argument, values)], BROKEN)

    assert score.status in (Status.SKIPPED, Status.FAILED)
    assert values == []


def test_a_metric_of_the_trace_sees_failed_cases_too() -> None:
    values: list[Any] = []

    cells([metric_that_notes("trace", values)], BROKEN)

    assert values == [BROKEN]


def test_a_ranking_beside_other_arguments_is_compared_as_the_run_does() -> None:
    @metric
    def first_is_relevant(query: str, ranking: Ranking) -> float:
        return float(ranking.grades[:1] == (1,))

    without_gold = trace(gold_texts=[], retrieval=retrieved("a"))
    same_text = trace(gold_texts=["some text"], retrieval=retrieved("a", texts=["Some text."]))

    rows = cells([first_is_relevant], without_gold, same_text, matching=Matching.TEXT)

    assert rows == [(Cell.skipped("no relevant context is known"),), (Cell.measured(1.0),)]


@pytest.mark.parametrize(
    ("direction", "scores"),
    [
        # "ab" is 2/4, 2/3 and 2/6 of the three references, the first of which is the reference.
        ("higher", [2 / 3, 0.5, 0.5]),
        ("lower", [1 / 3, 0.5, 0.5]),
        ("neither", [0.5, 0.5, None]),
    ],
)
def test_the_best_of_several_references_counts(direction: str, scores: list[float | None]) -> None:
    def share(response: str, reference: str) -> float | None:
        return len(response) / len(reference) if reference else None

    directed: MetricLike = metric(name="share", direction=cast("Any", direction))(share)
    three_references = answered("ab", "abcd", "abc", "abcdef")
    one_reference = answered("ab", "abcd")
    first_is_empty = answered("ab", "", "abcd")

    rows = cells([directed], three_references, one_reference, first_is_empty)

    assert [row[0].value for row in rows] == scores


# --- what becomes of what it returns


@pytest.mark.parametrize(
    ("result", "cell"),
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
def test_numbers_are_measured_and_what_is_none_is_skipped(result: object, cell: Cell) -> None:
    returns = metric(name="returns")(lambda response: result)

    rows = cells([returns], answered("a"), answered("b"))

    assert rows == [(cell,), (cell,)]


@pytest.mark.parametrize(
    ("result", "message"),
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
def test_what_is_no_number_of_the_range_fails_the_case(result: object, message: str) -> None:
    returns = metric(name="returns")(lambda response: result)

    ((score,),) = cells([returns], answered("a"))

    assert score.failure is not None
    assert score.failure.stage == "score"
    assert message in score.failure.message


def test_a_batch_is_given_columns_and_the_best_reference_counts_there_too() -> None:
    columns: list[Any] = []

    @metric(batch=True, high=None)
    def distance(response: list[str], reference: list[str]) -> Any:
        columns.append((response, reference))
        return np.array([len(text) for text in reference])

    rows = cells([distance], answered("a", "x", "yy"), answered("b", "zzz"))

    assert columns == [(["a", "a", "b"], ["x", "yy", "zzz"])]
    assert [row[0].value for row in rows] == [2.0, 3.0]


# --- parameters


@metric(high=None, cutoff="k")
def settings(
    response: str, *, k: int, rel: Annotated[int, AtLeast(1)] = 1, style: str = "plain"
) -> float:
    return 100 * k + 10 * rel + len(style)


UNTYPED_SETTINGS: Any = settings


@pytest.mark.parametrize(
    ("bound", "name"),
    [
        (partial(settings, k=3, rel=2), "settings(rel=2)@3"),
        # What is the default is not named.
        (partial(settings, k=1, rel=1, style="x"), "settings(style=x)@1"),
    ],
)
def test_a_bound_function_is_named_with_its_parameters_and_its_cutoff(
    bound: MetricLike, name: str
) -> None:
    [parsed] = parse_metrics([bound])

    assert parsed.name == name


def test_bound_parameters_and_the_cutoff_reach_the_function() -> None:
    ((score,),) = cells([partial(settings, k=3, rel=2)], answered("a"))

    assert score.value == 325.0  # 100 * 3 + 10 * 2 + len("plain")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (settings, "'settings' needs a cutoff, as in settings@10"),
        (partial(UNTYPED_SETTINGS, k=1, rel="two"), "rel must be a whole number, not 'two'"),
        (partial(UNTYPED_SETTINGS, k=1, other=3), "has no parameter 'other': it has rel, style"),
        (partial(settings, "a", k=1), "parameters of a metric are given by their names"),
        (len, "'len' is not a metric: write @metric above the function"),
    ],
)
def test_what_cannot_be_bound_is_reported(function: MetricLike, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse_metrics([function])


@pytest.fixture
def own_token_f1() -> MetricLike:
    """A metric of the user's that is called like one of ours."""
    function: MetricLike = metric(name="token_f1")(lambda response: 1.0)
    return function


def test_two_metrics_of_one_name_are_refused(own_token_f1: MetricLike) -> None:
    with pytest.raises(ConfigError, match="two metrics are called 'token_f1'"):
        parse_metrics(["token_f1", own_token_f1])


def test_the_same_function_twice_is_one_metric(own_token_f1: MetricLike) -> None:
    assert len(parse_metrics([own_token_f1, own_token_f1])) == 1


def test_a_metric_that_is_called_like_ours_has_an_identity_of_its_own(
    own_token_f1: MetricLike,
) -> None:
    [own] = parse_metrics([own_token_f1])

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
def metric_files(own_modules: Path) -> Path:
    """A folder with metrics in files, which is the current one."""
    (own_modules / "mine.py").write_text(FILE, encoding="utf-8")
    (own_modules / "words.py").write_text("WORDS = {'a', 'the'}\n", encoding="utf-8")
    (own_modules / "sub").mkdir()
    (own_modules / "sub" / "other.py").write_text(FILE, encoding="utf-8")
    broken = "from ragbench import metric\n\n\n\n@metric\ndef f(responze): ...\n"
    (own_modules / "broken.py").write_text(broken, encoding="utf-8")
    (own_modules / "raises.py").write_text("1 / 0\n", encoding="utf-8")
    return own_modules


@pytest.mark.usefixtures("metric_files")
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("mine.py:stop_share", "stop_share"),
        ("mine.py:recall(rel=2)@5", "mine:recall(rel=2)@5"),
        ("mine:stop_share(least=3)", "stop_share(least=3)"),
        ("sub/other.py:stop_share", "stop_share"),
        ("./sub/other.py:stop_share", "stop_share"),
    ],
)
def test_a_function_in_a_file_is_a_metric_by_its_place(text: str, name: str) -> None:
    assert parse_metric(text).name == name


@pytest.mark.usefixtures("metric_files")
def test_a_metric_in_a_file_knows_its_place_and_its_summary() -> None:
    assert find_definition("mine.py:stop_share").scorer == "mine.py:stop_share"
    assert find_definition("mine.py:recall").summary == "Found ones"


@pytest.mark.usefixtures("metric_files")
def test_metrics_in_files_score_as_their_functions_say() -> None:
    metrics = "mine.py:stop_share, mine.py:recall(rel=2)@5 mine:stop_share(least=3)"
    case = trace(grades={"a": 2, "b": 1}, retrieval=retrieved("a"), generation=generated("the cat"))

    (row,) = cells(metrics, case)

    assert [score.value for score in row] == [0.5, 1.0, 0.5]


@pytest.mark.usefixtures("metric_files")
@pytest.mark.parametrize(
    ("text", "message"),
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
def test_a_place_without_a_metric_is_reported(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse_metric(text)


# --- what fails


def answers(*responses: str) -> list[Trace]:
    return [trace(generation=generated(response)) for response in responses]


UNLUCKY = "x" * 13


@metric(high=None)
def length(response: str) -> float:
    """A response's length; not of unlucky ones."""
    if response == UNLUCKY:
        raise ValueError("unlucky") from KeyError("why")
    return float(len(response))


def test_a_bad_case_costs_its_own_cell_only() -> None:
    lengths: list[int] = []

    @metric(high=None)
    def noted_length(response: str) -> int:
        lengths.append(len(response))
        return len(response)

    rows = cells([length, noted_length], *answers("x", "xx", UNLUCKY, "xxxx"))

    assert [row[0].value for row in rows] == [1.0, 2.0, None, 4.0]
    assert [row[1].value for row in rows] == [1.0, 2.0, 13.0, 4.0]
    assert lengths == [1, 2, 13, 4]


def test_a_failure_names_error_cause_and_stage_with_the_traceback() -> None:
    ((score,),) = cells([length], *answers(UNLUCKY))

    failure = score.failure
    assert failure is not None
    assert (failure.type, failure.message, failure.stage) == ("ValueError", "unlucky", "score")
    assert failure.cause == "KeyError: 'why'"
    assert failure.traceback is not None
    assert "unlucky" in failure.traceback


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
    bad = answered("b", "right", "wrong")

    rows = cells([metric(name="own")(function)], fine, bad, fine)

    assert [row[0].value for row in rows] == [1.0, None, 1.0]
    assert error in str(rows[1][0].failure)


def test_a_function_of_many_cases_is_asked_in_halves_where_it_fails() -> None:
    sizes: list[int] = []

    @metric(high=None, batch=True)
    def lengths(response: Sequence[str]) -> list[float | None]:
        sizes.append(len(response))
        if UNLUCKY in response:
            raise ValueError("unlucky")
        return [len(text) or None for text in response]

    rows = cells([lengths], *answers("a", "bb", UNLUCKY, ""))

    assert sizes == [4, 2, 2, 1, 1]
    assert [row[0].value for row in rows] == [1.0, 2.0, None, None]
    assert [row[0].status for row in rows] == ["measured", "measured", "failed", "skipped"]


def test_a_function_of_many_cases_that_gives_too_few_values_fails_them() -> None:
    without_first = metric(name="few", batch=True)(lambda response: response[1:])

    ((score_a,), (score_b,)) = cells([without_first], *answers("a", "b"))

    assert "gave 0 values for 1 case" in str(score_a.failure)
    assert "gave 0 values for 1 case" in str(score_b.failure)


def test_what_only_the_user_can_change_stops_the_run() -> None:
    @metric
    def needs_setting(response: str) -> float:
        raise ConfigError("no judge is configured")

    with pytest.raises(ConfigError, match="no judge"):
        cells([needs_setting], *answers("a"))


def test_a_missing_extra_stops_before_anything_runs() -> None:
    def prepare() -> None:
        raise MissingExtraError("sacrebleu", "text")

    heavy = metric(name="heavy", prepare=prepare)(lambda response: 1.0)

    with pytest.raises(MissingExtraError):
        Plan(parse_metrics([heavy]))


def test_a_metric_that_is_not_installed_stops_before_anything_runs() -> None:
    [installed] = parse_metrics([length])
    stored = metric_of(MetricInfo.of(installed).definition)
    gone = replace(stored, definition=replace(stored.definition, scorer="nowhere:at_all"))

    with pytest.raises(ConfigError, match="'length' cannot be computed here: there is no"):
        Plan([gone])


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("recall@5", "retrieve"),
        ("token_f1", "generate"),
        ("retrieval_latency", "retrieve"),
        ("generation_latency", "generate"),
        ("best_of_n", "generate"),
    ],
)
def test_a_failed_stage_passes_its_failure_on(name: str, stage: str) -> None:
    case = trace(
        gold=["a"],
        references=["a"],
        retrieval=failed("retrieve"),
        generation=failed("generate"),
    )

    assert cell(name, case).failure == failed(stage).failure


def test_a_failure_without_a_record_is_still_a_failure() -> None:
    case = trace(gold=["a"], retrieval=Outcome(status=Status.FAILED))

    failure = cell("recall@5", case).failure

    assert failure == Failure(
        type="Failure", message="the cause was not recorded", stage="retrieval"
    )


def test_an_alternative_reference_alone_is_a_reference() -> None:
    both_references = trace(references=["a", "b"], generation=generated("b"))
    case = replace(both_references.case, reference=None)

    score = cell("exact_match", replace(both_references, case=case))

    assert score == Cell.measured(1.0)
