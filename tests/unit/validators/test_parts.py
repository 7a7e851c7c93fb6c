"""Questions of several parts: where a query is cut, what each part is about, and the verdict."""

from collections.abc import Callable, Sequence

import pytest

from ragbench import Chunk, build_validator
from ragbench.core.validation import RetrievalQuality, Verdict
from ragbench.validators.parts import split_query

GOOD, PARTIAL, POOR = RetrievalQuality


def questions_of(query: str) -> list[str]:
    """The questions of the parts of a query."""
    return [part.question for part in split_query(query)]


@pytest.mark.parametrize(
    ("query", "questions"),
    [
        # A name goes into a part without one ...
        ("Who won in 2018 and who came second?", ["Who won in 2018", "who came second? (2018)"]),
        # ... or with a pronoun, ...
        (
            "Who built the X200 and when was it sold?",
            ["Who built the X200", "when was it sold? (X200)"],
        ),
        # ... from earlier parts only.
        (
            "Who founded Acme and when did Acme move to Berlin?",
            ["Who founded Acme", "when did Acme move to Berlin?"],
        ),
        # What a pronoun brings in beside a name stays in its part.
        (
            "Who founded Acme? When did it move to Berlin? Who runs it?",
            ["Who founded Acme", "When did it move to Berlin (Acme)", "Who runs it? (Acme)"],
        ),
        # The last part that names a thing by itself is what follows is about.
        (
            "Who built the X200 and who built the X300 and what does it cost?",
            ["Who built the X200", "who built the X300", "what does it cost? (X300)"],
        ),
        # Without names, a pronoun is the subject.
        (
            "What is the function of insulin and where is it produced?",
            ["What is the function of insulin", "where is it produced? (insulin)"],
        ),
        ("What causes rust and how is rust removed?", ["What causes rust", "how is rust removed?"]),
        (
            "Does the lamp dim and does it float?",
            ["Does the lamp dim", "does it float? (lamp dim)"],
        ),
        ("When and where does it open?", ["When does it open?", "where does it open?"]),
        (
            "What is the height and the weight of the lamp?",
            ["What is the height of the lamp?", "What is the weight of the lamp?"],
        ),
        (
            "What is the height and weight of the lamp?",
            ["What is the height of the lamp?", "What is the weight of the lamp?"],
        ),
    ],
)
def test_each_part_names_what_it_is_about(query: str, questions: list[str]) -> None:
    assert questions_of(query) == questions


def test_a_query_that_asks_more_than_eight_things_is_read_as_one() -> None:
    two_questions = "Who built the mill? When was it sold? "

    assert len(split_query(two_questions * 1)) == 2
    assert len(split_query(two_questions * 4)) == 8
    assert len(split_query(two_questions * 5)) == 1


@pytest.mark.parametrize(
    "query",
    [
        "Do you collect my data? If yes, how?",
        "Who led the research that was paid by the city and was praised in Leeds?",
        "Which employees work remotely and have a company car?",
        "The council is elected by members of the guild, and who else?",
        "What are the terms and conditions of the sale?",
        "Who lives in Leeds and is the mayor of the town?",
    ],
)
def test_what_is_no_question_of_its_own_is_not_cut_off(query: str) -> None:
    assert questions_of(query) == [query]


# --- the verdict

Judge = Callable[[str, Sequence[str]], Verdict]


@pytest.fixture(params=["lexical", pytest.param("local", marks=pytest.mark.extra("onnx"))])
def judge(request: pytest.FixtureRequest) -> Judge:
    """Gives the verdict of a validator on chunks c1, c2, ... of these texts."""
    validator = build_validator(request.param)

    def validate(query: str, texts: Sequence[str]) -> Verdict:
        chunks = [Chunk(id=f"c{number}", text=text) for number, text in enumerate(texts, start=1)]
        return validator.validate(query, chunks)

    return validate


FOUNDED = "Acme was founded by Lena Ortiz."
MOVED = "In 2011 Acme moved to Berlin."
BOTH = "Who founded Acme and when did Acme move to Berlin?"


@pytest.mark.parametrize("texts", [[f"{FOUNDED} {MOVED}"], [FOUNDED, MOVED], [MOVED, FOUNDED]])
def test_two_parts_that_are_stated_are_an_answer(judge: Judge, texts: list[str]) -> None:
    verdict = judge(BOTH, texts)

    assert verdict.retrieval_quality is GOOD
    assert set(verdict.relevant_chunk_ids) == set(verdict.relevance)


@pytest.mark.parametrize(
    ("text", "missing"), [(FOUNDED, "when did Acme move to Berlin?"), (MOVED, "Who founded Acme")]
)
def test_one_of_two_parts_is_partial_and_the_other_is_named(
    judge: Judge, text: str, missing: str
) -> None:
    verdict = judge(BOTH, [text])

    assert verdict.retrieval_quality is PARTIAL
    assert verdict.message == (
        f"The answer is there in part: 1 relevant chunk (c1). Not stated for certain: '{missing}'."
    )
