"""The stage: operators one after the other, what each did, and what happens when one fails."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest

from ragbench import PostRetrieval, Query, RagbenchError, build_operator
from ragbench.errors import ConfigError, InputError, MissingExtraError
from ragbench.post.build import Resources
from ragbench.post.catalogue import OPERATORS, types_by_action
from ragbench.post.filter import Threshold, TopK
from ragbench.post.format import Template
from ragbench.post.operator import Operator, OperatorInput, OperatorOutput, RankedChunk
from ragbench.post.rerank import Rerank
from ragbench.post.rerankers.lexical import LexicalReranker
from tests.unit.post.operators.builders import Scripted, Shelf, chunk, ids

CHUNKS = [chunk("a", "Ask HR.", 0.9), chunk("b", "Ask IT.", 0.5), chunk("c", "Ask us.", 0.1)]
QUERY = Query(text="Whom?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Raising:
    error: BaseException
    name: str = "custom.raising"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        raise self.error


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokenReranker:
    name: str = "broken"

    def score(self, query: Query, chunks: Any) -> list[float]:
        raise RuntimeError("no model")


def test_each_step_says_what_it_dropped() -> None:
    stage = PostRetrieval(operators=(Threshold(min_score=0.3), TopK(k=1)))
    done = stage.run(QUERY, CHUNKS)
    assert ids(done.chunks) == ["a"]
    first, second = done.steps
    assert (first.operator, first.dropped) == ("filter.threshold", ("c",))
    assert first.given == (("a", 0.9), ("b", 0.5), ("c", 0.1))
    assert (second.operator, second.dropped) == ("filter.top_k", ("b",))
    assert second.given == first.left


def test_the_chunks_that_go_out_are_the_objects_that_came_in() -> None:
    done = PostRetrieval(operators=(Rerank(reranker=LexicalReranker()), TopK(k=2))).run(
        QUERY, CHUNKS
    )
    assert all(any(entry.chunk is given for given in CHUNKS) for entry in done.chunks)


def test_without_a_format_the_text_is_that_of_the_chunks() -> None:
    done = PostRetrieval().run(QUERY, CHUNKS[:2])
    assert (done.history_text, done.formatted) == ("Ask HR.\n\nAsk IT.", False)
    assert done.texts == ["Ask HR.", "Ask IT."]
    assert done.steps == ()


def test_the_last_format_writes_the_text() -> None:
    stage = PostRetrieval(operators=(Template(), Template(template="- {text}", separator="\n")))
    done = stage.run(QUERY, CHUNKS[:2])
    assert (done.history_text, done.formatted) == ("- Ask HR.\n- Ask IT.", True)
    assert done.texts == ["- Ask HR.\n- Ask IT."]


@pytest.mark.parametrize("name", sorted(set(types_by_action()) - {"rerank"}))
def test_nothing_retrieved_stays_nothing(name: str) -> None:
    settings: dict[str, dict[str, Any]] = {
        "filter.threshold": {"min_score": 0},
        "filter.top_k": {"k": 1},
        "filter.percentile": {"percentile": 50},
        "filter.token_budget": {"budget": 5},
        "merge.multi_query": {"queries": [{"query": "{question}"}]},
        "augment.metadata": {"fields": ["x"]},
        "compress.extractive": {"budget": 5},
    }
    resources = Resources(service=Shelf(), chat=Scripted([]))
    for kind in types_by_action()[name] or [""]:
        given = {"action": name, "type": kind} if kind else {"action": name}
        operator = build_operator(given | settings.get(f"{name}.{kind}", {}), resources)
        done = PostRetrieval(operators=(operator,), on_error="raise").run(QUERY, [])
        assert done.chunks == ()


# --- failures


def test_an_operator_that_raises_is_passed_over_and_told_of() -> None:
    stage = PostRetrieval(operators=(Raising(error=RuntimeError("boom")), TopK(k=1)))
    done = stage.run(QUERY, CHUNKS)
    assert ids(done.chunks) == ["a"]
    assert [(failure.stage, failure.message) for failure in done.failures] == [
        ("custom.raising", "boom")
    ]
    assert done.steps[0].left == done.steps[0].given


def test_on_error_raise_stops() -> None:
    stage = PostRetrieval(operators=(Raising(error=RuntimeError("boom")),), on_error="raise")
    with pytest.raises(RuntimeError, match="boom"):
        stage.run(QUERY, CHUNKS)


def test_a_reranker_that_raises_leaves_the_order_and_its_cut() -> None:
    operators = (Rerank(reranker=BrokenReranker(), top_k=2),)
    done = PostRetrieval(operators=operators).run(QUERY, CHUNKS)
    assert ids(done.chunks) == ["a", "b"]
    assert [failure.message for failure in done.failures] == ["no model"]
    with pytest.raises(RagbenchError, match="no model"):
        PostRetrieval(operators=operators, on_error="raise").run(QUERY, CHUNKS)


@pytest.mark.parametrize(
    "error", [InputError("no such model"), MissingExtraError("x", "y"), KeyboardInterrupt()]
)
def test_what_would_fail_for_every_question_is_raised(error: BaseException) -> None:
    with pytest.raises(type(error)):
        PostRetrieval(operators=(Raising(error=error),)).run(QUERY, CHUNKS)


def test_an_operator_that_gives_something_else_is_passed_over() -> None:
    @dataclass
    class Odd:
        output: Any
        name: str = "odd"

        def apply(self, context: OperatorInput) -> OperatorOutput:
            return cast("OperatorOutput", self.output)

    for output in (None, [CHUNKS[0]], ""):
        done = PostRetrieval(operators=(Odd(output),)).run(QUERY, CHUNKS)
        assert ids(done.chunks) == ["a", "b", "c"]
        assert done.failures[0].message == (
            f"odd.apply returned {type(output).__name__}: expected the entries of context.chunks "
            "that are left, or an OperatorOutput"
        )


def test_an_operator_may_return_the_chunks_that_are_left() -> None:
    class Backwards:
        name = "backwards"

        def apply(self, context: OperatorInput) -> list[RankedChunk]:
            return [entry for entry in reversed(context.chunks) if entry.chunk.id != "b"]

    done = PostRetrieval(operators=(Backwards(),)).run("Which?", CHUNKS)
    assert [(one.chunk.id, one.rank, one.initial_rank) for one in done.chunks] == [
        ("c", 1, 3),
        ("a", 2, 1),
    ]
    assert done.steps[0].dropped == ("b",)
    assert done.failures == ()


def test_on_error_is_one_of_two_words() -> None:
    with pytest.raises(ConfigError, match="on_error must be one of keep, raise"):
        PostRetrieval(on_error="skip")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# --- identity


@pytest.mark.extra("http")
def test_settings_are_part_of_the_identity_and_credentials_are_not() -> None:
    def identity(**settings: Any) -> str:
        operator = build_operator({"action": "filter", "type": "top_k", **settings})
        return str(PostRetrieval(operators=(operator,)).identity)

    assert identity(k=3) == identity(k=3) != identity(k=4)
    secret = build_operator(
        {
            "action": "rerank",
            "type": "http",
            "url": "https://bob:pw@host/rerank?api_key=s3cret",
            "headers": {"X-Api-Key": "s3cret"},
        }
    )
    told = str(PostRetrieval(operators=(secret,)).identity)
    assert "s3cret" not in told
    assert "pw@" not in told


@pytest.mark.extra("tokens")
def test_a_tokenizer_of_the_same_name_with_another_vocabulary_is_another_one(
    tmp_path: Path,
) -> None:
    tokenizers: Any = import_module("tokenizers")
    identities: set[str] = set()
    for words in (["a", "b"], ["a", "c"]):
        model = tokenizers.models.WordLevel({word: at for at, word in enumerate(words)}, words[0])
        tokenizers.Tokenizer(model).save(str(tmp_path / "tokenizer.json"))
        operator = build_operator(
            {
                "action": "filter",
                "type": "token_budget",
                "budget": 9,
                "counter": f"tokenizers:{tmp_path / 'tokenizer.json'}",
            }
        )
        identities.add(str(PostRetrieval(operators=(operator,)).identity))
    assert len(identities) == 2


# --- the catalogue


def test_every_operator_of_the_catalogue_exists_under_its_name() -> None:
    for name in OPERATORS.builtin:
        found = OPERATORS.load(name)
        assert isinstance(found, type)
        assert callable(getattr(found, "apply", None)), name


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (7, "a mapping with an 'action', not 7"),
        ({}, "'action' is missing. Known: none, rerank, filter"),
        ({"action": "filtre"}, "Did you mean 'filter'"),
        ({"action": "filter"}, "filter: the setting 'type' is missing. Known: threshold"),
        (
            {"action": "filter", "type": "topk"},
            "unknown type 'topk' of filter. Did you mean 'top_k'",
        ),
        ({"action": "filter", "type": "top_k"}, "filter.top_k: the setting 'k' is missing"),
        ({"action": "filter", "type": "top_k", "k": "3"}, "k must be a whole number"),
        ({"action": "filter", "type": "top_k", "k": 3, "n": 1}, "unknown setting 'n'. Known: k"),
        ({"action": "none", "type": "x"}, "unknown setting 'type'"),
        ({"action": "rerank"}, "rerank: the setting 'type' is missing. Known: cross_encoder"),
        ({"action": "rerank", "type": "lexic"}, "Did you mean 'lexical'"),
        ({"action": "rerank", "type": "lexical", "top_k": 0}, "top_k must be at least 1"),
        ({"action": "rerank", "type": "lexical", "b": 7}, "b must lie between 0 and 1"),
        ({"action": "merge", "type": "multi_query", "queries": [{"query": "x"}]}, "method search"),
        ({"action": "merge", "type": "link_expand"}, "method neighbours"),
        ({"action": "merge", "type": "link_expand", "service": 1}, "'service' is not a setting"),
        ({"action": "filter", "type": "llm"}, "needs a language model"),
        ({"action": "filter", "type": "llm", "chat": "x"}, "'chat' is not a setting"),
        (
            {"action": "filter", "type": "token_budget", "budget": 5, "counter": "x"},
            "token counter",
        ),
    ],
)
def test_a_bad_setting_is_refused_with_what_exists(given: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_operator(given)


def test_rerankers_are_configured_flat_or_apart() -> None:
    flat = build_operator({"action": "rerank", "type": "lexical", "b": 0.5, "top_k": 3})
    apart = build_operator(
        {"action": "rerank", "reranker": {"name": "lexical", "b": 0.5}, "top_k": 3}
    )
    assert flat == apart == Rerank(reranker=LexicalReranker(b=0.5), top_k=3)


def test_an_operator_of_the_users_own_is_taken_as_it_is() -> None:
    mine = Raising(error=RuntimeError())
    assert isinstance(mine, Operator)
    assert build_operator(mine) is mine
