"""What a question asks for, and which words of a sentence give it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.text.question import answer_span, holds_number, parse_question, said_as_clause
from ragbench.text.tokens import tokenise


@pytest.mark.parametrize(
    ("query", "tokens"),
    [
        pytest.param("What is the capital of France?", ("capit", "franc"), id="English"),
        pytest.param("Who is it?", ("who", "is", "it"), id="of function words alone: they stay"),
        # Question words do not blur into pairs of signs.
        pytest.param("苹果是什么", ("苹果",), id="Chinese"),
        pytest.param(" ?", (), id="no word"),
    ],
)
def test_function_words_are_left_out(query: str, tokens: tuple[str, ...]) -> None:
    assert parse_question(query).tokens == tokens


def test_words_that_stand_next_to_each_other_are_pairs() -> None:
    pairs = {("the", "capit"), ("capit", "of"), ("of", "franc")}

    assert parse_question("What is the capital of France?").pairs == pairs


@pytest.mark.parametrize(
    "query",
    [
        "When did it open?",
        "What year was it?",
        "Wie groß ist es?",
        "Quand ?",
        "¿Cuántos días?",
        "哪年开业？",
    ],
)
def test_a_question_may_want_a_number(query: str) -> None:
    assert parse_question(query).wants_number


@pytest.mark.parametrize("query", ["Who opened it?", "Wie geht das?", "谁发明的？"])
def test_other_questions_want_no_number(query: str) -> None:
    assert not parse_question(query).wants_number


@pytest.mark.parametrize(
    ("text", "expected"),
    [("room 5", True), ("Two of us", True), ("十二天", True), ("None here", False)],
)
def test_whether_a_text_holds_a_number(text: str, expected: bool) -> None:
    assert holds_number(text) is expected


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


# --- the words that answer


def span_of(query: str, sentence: str) -> str | None:
    span = answer_span(query, parse_question(query), sentence)
    if span is None:
        return None
    return sentence[span.start : span.end]


@pytest.mark.parametrize(
    ("query", "sentence", "span"),
    [
        ("When was the mill built?", "The mill was built in 1901 by Tom Reed.", "1901"),
        ("When did it open?", "It opened on 5 March 2011, a Saturday.", "5 March 2011"),
        ("When did it open?", "It opened on March 5th, 2011.", "March 5th, 2011"),
        ("What year did it open?", "It opened on 5 March 2011.", "2011"),
        ("When was it built?", "It was built in the late 19th century.", "the late 19th century"),
        ("When did the war last?", "The war lasted 1914-1918.", "1914-1918"),
        ("When did the town fall?", "The town fell in 410 AD.", "410 AD"),
        ("When does the desk open?", "The desk opens at 8:30 on Mondays.", "8:30"),
        ("When must we leave?", "You may leave on 3 May.", "3 May"),
        ("Wann wurde es gebaut?", "Es wurde am 5. März 1990 gebaut.", "5. März 1990"),
        ("¿Cuándo se fundó?", "Se fundó el 5 de marzo de 1990.", "5 de marzo de 1990"),
        ("公司什么时候成立？", "公司成立于1998年3月5日。", "1998年3月5日"),
        ("公司哪一年成立？", "公司成立于1998年3月5日。", "1998年"),
        # a number
        ("How many bridges are there?", "In 1998 there were 1,200 bridges.", "1,200"),
        ("How many bridges are there?", "There are twenty-five bridges.", "twenty-five"),
        ("How much did it cost?", "It cost $3.5 million.", "$3.5 million"),
        ("How long is the warranty?", "The warranty of model 7 lasts 24 months.", "24 months"),
        ("How old is the tower?", "The tower is 80 years old.", "80 years"),
        ("What percentage of users left?", "Of 300 users 12% left.", "12%"),
        ("How many people live here?", "1500 people live here.", "1500"),
        ("How many codes are there?", "See SEC-04: there are 9 codes.", "9"),
        ("Wie viele Tage Urlaub gibt es?", "Der Urlaub beträgt 28 Tage.", "28"),
        ("年假有多少天？", "员工每年有二十天年假。", "二十天"),
        ("城市有多少人口？", "这座城市有一些公园和500万居民。", "500万"),
        # a name
        ("Who built the mill?", "The mill was built by Tom Reed in May.", "Tom Reed"),
        ("Who built the mill?", "However, Ada de la Cruz built the mill.", "Ada de la Cruz"),
        ("Who leads Acme Corp?", "Acme Corp is led by Ida Moran.", "Ida Moran"),
        ("Where is the office?", "The office is in New Hampton.", "New Hampton"),
        ("Which company makes it?", "It is made by the Bluefin Works and the EU.", "Bluefin Works"),
        # of several the nearest to what was asked
        ("Until when are parts available?", "Sale ends in 2024, parts available to 2028.", "2028"),
        ("When did the sale end?", "Sale ends in 2024, parts available to 2028.", "2024"),
    ],
)
def test_a_question_gets_what_it_asks_for(query: str, sentence: str, span: str) -> None:
    assert span_of(query, sentence) == span


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        pytest.param("What does the gate do?", "The gate decides in 3 ways.", id="no kind"),
        pytest.param(
            "Why did Tom Reed leave?", "Tom Reed left in May because of Ida.", id="a reason"
        ),
        pytest.param("When was the mill built?", "The mill was built by Tom Reed.", id="no date"),
        pytest.param(
            "Who was Tom Reed?", "Tom Reed was a miller.", id="no name that the question lacks"
        ),
        pytest.param(
            "Who is to be called?", "Otherwise the desk is called.", id="a capital at the beginning"
        ),
        pytest.param(
            "Wer leitet das Lager?", "Das Lager wird von der Leitung geführt.", id="German nouns"
        ),
        pytest.param("谁建了磨坊？", "磨坊由Reed建造。", id="a name in Chinese"),
        pytest.param("When?", "", id="no sentence"),
        pytest.param("When was it?", "1999 " * 500, id="a table"),
    ],
)
def test_the_sentence_stays_whole_where_nothing_decides(query: str, sentence: str) -> None:
    assert span_of(query, sentence) is None


@given(
    st.sampled_from(["When was it?", "How many are there?", "Who was it?", "年假有多少天？"]),
    st.text(max_size=60) | st.text(alphabet="12 .-年五万AbMay月%$", max_size=60),
)
def test_a_span_lies_in_the_sentence_and_repeats_nothing_asked(query: str, sentence: str) -> None:
    question = parse_question(query)

    span = answer_span(query, question, sentence)

    if span is not None:
        assert 0 <= span.start < span.end <= len(sentence)
        answer = sentence[span.start : span.end]
        assert answer == answer.strip()
        assert set(question.tokens).isdisjoint(tokenise(answer))
