import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.text.question import answer_span, holds_number, parse_question, said_as_clause
from ragbench.text.tokens import tokenise


def test_function_words_are_left_out() -> None:
    for query, tokens in (
        ("What is the capital of France?", ("capit", "franc")),
        ("Who is it?", ("who", "is", "it")),  # of function words alone: they stay
        ("苹果是什么", ("苹果",)),  # question words do not blur into pairs
        (" ?", ()),
    ):
        assert parse_question(query).tokens == tokens


def test_words_that_stand_next_to_each_other_are_pairs() -> None:
    pairs = {("the", "capit"), ("capit", "of"), ("of", "franc")}
    assert parse_question("What is the capital of France?").pairs == pairs


NUMBER = "When did it open?|What year was it?|Wie groß ist es?|Quand ?|¿Cuántos días?|哪年开业？"
NONE = "Who opened it?|Wie geht das?|谁发明的？"


def test_whether_a_number_is_asked_for_and_held() -> None:
    for texts, wanted in ((NUMBER, True), (NONE, False)):
        for query in texts.split("|"):
            assert parse_question(query).wants_number is wanted, query
    held = [holds_number(text) for text in ("room 5", "Two of us", "十二天", "None here")]
    assert held == [True, True, True, False]


def test_a_question_becomes_part_of_a_sentence() -> None:
    for question, clause in (
        ("When was the mill built?", "when the mill was built"),
        ("Which rooms are not heated?", "which rooms are not heated"),
        ("Who did not sign the treaty?", "who did not sign the treaty"),
        ("Is it open?", None),
    ):
        assert said_as_clause(question) == clause


# --- the words that answer


def span_of(query: str, sentence: str) -> str | None:
    found = answer_span(query, parse_question(query), sentence)
    return None if found is None else sentence[found.start : found.end]


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


def test_the_sentence_stays_whole_where_nothing_decides() -> None:
    for query, sentence in (
        ("What does the gate do?", "The gate decides in 3 ways."),  # no kind
        ("Why did Tom Reed leave?", "Tom Reed left in May because of Ida."),
        ("When was the mill built?", "The mill was built by Tom Reed."),  # no date
        ("Who was Tom Reed?", "Tom Reed was a miller."),  # nothing that the question lacks
        ("Who is to be called?", "Otherwise the desk is called."),  # the capital of the beginning
        ("Wer leitet das Lager?", "Das Lager wird von der Leitung geführt."),  # German nouns
        ("谁建了磨坊？", "磨坊由Reed建造。"),
        ("When?", ""),
        ("When was it?", "1999 " * 500),  # a table
    ):
        assert span_of(query, sentence) is None


@given(
    st.sampled_from(["When was it?", "How many are there?", "Who was it?", "年假有多少天？"]),
    st.text(max_size=60) | st.text(alphabet="12 .-年五万AbMay月%$", max_size=60),
)
def test_a_span_lies_in_the_sentence_and_repeats_nothing_asked(query: str, sentence: str) -> None:
    question = parse_question(query)
    found = answer_span(query, question, sentence)
    if found is not None:
        assert 0 <= found.start < found.end <= len(sentence)
        said = sentence[found.start : found.end]
        assert said == said.strip()
        assert set(question.tokens).isdisjoint(tokenise(said))
