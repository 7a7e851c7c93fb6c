import pytest

from ragbench.text.question import holds_number, parse_question, said_as_clause


@pytest.mark.parametrize(
    ("query", "tokens"),
    [
        ("What is the capital of France?", ("capit", "franc")),
        ("Who is it?", ("who", "is", "it")),  # of function words alone: they stay
        ("苹果是什么", ("苹果",)),  # question words do not blur into pairs
        (" ?", ()),
    ],
)
def test_function_words_are_left_out(query: str, tokens: tuple[str, ...]) -> None:
    assert parse_question(query).tokens == tokens


def test_words_that_stand_next_to_each_other_are_pairs() -> None:
    pairs = {("the", "capit"), ("capit", "of"), ("of", "franc")}
    assert parse_question("What is the capital of France?").pairs == pairs


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("When did it open?", True),
        ("What year was it?", True),
        ("Wie groß ist es?", True),
        ("Quand ?", True),
        ("¿Cuántos días?", True),
        ("哪年开业？", True),
        ("Who opened it?", False),
        ("Wie geht das?", False),
        ("谁发明的？", False),
    ],
)
def test_whether_a_number_is_asked_for(query: str, wanted: bool) -> None:
    assert parse_question(query).wants_number is wanted


@pytest.mark.parametrize(
    ("text", "held"),
    [("room 5", True), ("Two of us", True), ("十二天", True), ("None here", False)],
)
def test_whether_a_text_holds_a_number(text: str, held: bool) -> None:
    assert holds_number(text) is held


@pytest.mark.parametrize(
    ("question", "clause"),
    [
        ("When was the mill built?", "when the mill was built"),
        ("Which rooms are not heated?", "which rooms are not heated"),
        ("Who did not sign the treaty?", "who did not sign the treaty"),
        ("Is it open?", None),
    ],
)
def test_a_question_becomes_part_of_a_sentence(question: str, clause: str | None) -> None:
    assert said_as_clause(question) == clause
