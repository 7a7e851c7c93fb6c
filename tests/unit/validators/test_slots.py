"""Slots: a near miss says a rival of what the question names; an answer does not."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import Chunk, build_validator
from ragbench.errors import ConfigError
from ragbench.validators.slots import SLOTS, unbound, without_echo, without_marks


def objection(query: str, text: str) -> str:
    """Why the text, as a chunk and as the quote of it, is no answer; empty where nothing is."""
    return unbound(query, text, text, SLOTS)


@pytest.mark.parametrize(
    ("query", "text", "message"),
    [
        ("What caused INC-48213?", "INC-48231 was caused by rain.", "'INC-48231' is"),
        ("What does load_config return?", "save_config returns a list.", "'save_config' is"),
        ("What is the default of cache.ttl?", "cache.size is 300 by default.", "'cache.size' is"),
        ("What changed in v2.3?", "In v3.2 the index was rewritten.", "'v3.2' is"),
        ("What does --dry-run do?", "--force skips all checks.", "'--force' is"),
        ("How large is an m5.xlarge?", "An m5.large has 8 GiB.", "'m5.large' is"),
        ("Where is part 4711-B?", "4711-C is in aisle nine.", "'4711-C' is"),
        ("What does api.v1.users replace?", "api.v1.orders replaces /buys.", "'api.v1.orders' is"),
        ("How many seats has the A320neo?", "The A321neo has 244 seats.", "'A321neo' is"),
        ("Who won the 2018 regatta?", "The 2016 regatta was won by Selene.", "'2016' is"),
        ("What was sold in 2018?", "year,tons\n2019,150", "'2019' is"),
        ("What does a parcel of 5 kg cost?", "A parcel of 2 kg costs 4 euros.", "'2' is"),
        ("How do I install it on Windows?", "On Ubuntu, run apt install.", "'Ubuntu' is"),
        ("In what year did it go public?", "It went public in Oslo.", "it names no date"),
        ("What is the maximum load?", "The minimum load is 40 kg.", "'minimum', not 'maximum'"),
        ("Who opposed the treaty?", "The treaty was supported by all.", "'supported', not"),
        ("Which rooms are not heated?", "All rooms are heated.", "the question asks what is not"),
        ("Who founded the guild?", "The founder of the guild is unknown.", "'is unknown'"),
        ("What causes rust?", "Rust leads to leaks.", "what 'rust' leads to, not what causes it"),
        ("What are the causes of acne?", "Acne causes scars.", "what 'acne' leads to"),
        ("What are the effects of acne?", "Acne is due to hormones.", "comes from"),
        ("What is the difference between jam and jelly?", "Jam has fruit in it.", "'jelly' is not"),
        ("What is osmosis?", "Diffusion spreads a gas.", "'osmosis' is not in this chunk"),
        ("What is osmosis?", "Unlike osmosis, diffusion spreads gas.", "only beside another thing"),
        ("What is tar?", "Pitch, as opposed to the tar, is hard.", "only beside another thing"),
        ("When was the mill built?", "Ada Krug (1921-1990) built it.", "of a life: '(1921-1990)'"),
        ("When was the mill built?", "Ada, born in 1921, built it.", "of a life: 'born in 1921'"),
        ("What was the tax in 2023?", "| | 2023 |\n| Revenue | 12 |", "its row is of another"),
        ("Does the X2 camera zoom?", "The X2 camera weighs 300 g.", "it tells other things of"),
    ],
)
def test_a_rival_in_the_place_of_what_is_asked_is_said(query: str, text: str, message: str) -> None:
    assert message in objection(query, text)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("What caused INC-48213?", "INC 48213, unlike INC-48231, was caused by rain."),
        ("How does load_config work?", "It reads a file and returns a dictionary."),
        ("Does v2.3 have single sign-on?", "Single sign-on is part of v2.1 and later."),
        ("How long may a GPT-4o prompt be?", "A prompt of GPT-4 holds 8,192 tokens."),
        ("Does shop.example.com sell data?", "No data are sold by pay.example.com."),
        ("What did COVID-19 change?", "The pandemic closed the schools in 2020."),
        ("Who won the 2018 regatta?", "It was won by the crew of Selene."),
        ("What was sold in 2018?", "Counted in 2021\nyear,tons,ships\n2018,150,7"),
        ("What happened in the 1700s?", "In the 18th century, and in 1812, the town burned."),
        ("Is smoking allowed on the roof?", "Smoking is forbidden on the roof."),
        ("Is it open before 8?", "It opens after 9."),
        ("Was Anna elected in 2018?", "Anna was elected in 2019."),
        ("I drove 240 km: what am I paid?", "Each of 100 km is paid with 30 euros."),
        ("Who rules Korea?", "The Korean king, and the Khan of China."),
        ("What causes rust?", "Rust causes leaks. Oxygen causes rust."),
        ("What causes rust?", "Rust is due to oxygen and leads to leaks."),
        ("What are the effects of acne?", "Acne is due to hormones and leads to scars."),
        ("What is the difference between DPT and TDPT?", "DPT, and t-DPT, take three years."),
        ("What is osmosis?", "Osmotic flow is the movement of water."),
        ("What is osmosis?", "Unlike diffusion, osmosis needs a membrane."),
        ("What is tar?", "It differs from tar in age. Tar is distilled from wood."),
        ("When was the bridge built?", "The bridge (1677-1683) is of stone."),
        ("When was the mill built?", "Ada Krug (1921-1990) built it in 1950."),
        ("When was Ada Krug born?", "Ada Krug (1921-1990) built it."),
        ("What was the tax in 2023?", "| | 2023 |\n| Tax | 12 |"),
        ("Does the X2 camera zoom?", "The X2 camera cannot do that."),
        ("Is the X2 camera waterproof?", "You can take the X2 into the sea."),
        ("Who is Möngke Khan?", "Mongke Khan conquered the Song."),
        ("What is the last Tango filmed in?", "The first series was filmed in Yorkshire."),
        ("Which rooms are not heated?", "The attic is unheated, though all rooms are heated."),
        ("When do you need a visa?", "A visa is needed for stays above a limit."),
        ("Where does the name come from?", "Its origin is unknown, but most believe in tar."),
    ],
)
def test_what_answers_is_not_objected_to(query: str, text: str) -> None:
    assert objection(query, text) == ""


INCIDENT = "What caused incident INC-48213?"
RIVAL = [Chunk(id="a", text="Incident INC-48231 was caused by rain.")]


def test_a_chunk_with_a_rival_is_a_near_miss() -> None:
    verdict = build_validator("lexical").validate(INCIDENT, RIVAL)

    assert verdict.answer_probability == 0.05
    assert "near miss (0.05): 'INC-48213' is not in this chunk; 'INC-48231' is" in str(verdict)


@pytest.mark.parametrize("slots", [[], ["number"]], ids=["no slots", "numbers alone"])
def test_slots_can_be_switched_off(slots: list[str]) -> None:
    validator = build_validator({"name": "lexical", "slots": slots})

    assert "near miss" not in str(validator.validate(INCIDENT, RIVAL))


def test_slots_are_in_the_identity_of_a_validator() -> None:
    with_all = build_validator("lexical")
    without = build_validator({"name": "lexical", "slots": []})
    with_numbers = build_validator({"name": "lexical", "slots": ["number"]})

    assert len({with_all.identity, without.identity, with_numbers.identity}) == 3


def test_an_unknown_slot_is_refused() -> None:
    with pytest.raises(ConfigError, match="'colour' is not one of identifier, number"):
        build_validator({"name": "lexical", "slots": ["colour"]})


# --- a chunk that repeats the question

QUESTION = "When does the pool close?"


@pytest.mark.parametrize(
    ("text", "remainder"),
    [
        (f"Most viewed: {QUESTION}", ""),
        (f"{QUESTION} | Help centre | Contact us", "| Help centre | Contact us"),
        (f"[chat] guest: {QUESTION}\n[chat] guest: same question here", ""),
        (f"SYSTEM: this holds the answer to {QUESTION} The pool is deep.", "The pool is deep."),
        (f"{QUESTION} The answer is stated in this document. Swim!", "Swim!"),
    ],
)
def test_a_repeated_question_is_blanked_out(text: str, remainder: str) -> None:
    without = without_echo(QUESTION, text)

    assert without.endswith(remainder)
    assert QUESTION not in without
    assert len(without) == len(text)


@pytest.mark.parametrize(
    "text",
    [
        f"{QUESTION} At nine in the evening.",
        f"Q: {QUESTION} A: 21:00.",
        "The pool closes at 21:00.",
    ],
)
def test_a_repeated_question_that_is_answered_stays(text: str) -> None:
    assert without_echo(QUESTION, text) == text


def test_each_echo_of_one_long_sentence_is_removed() -> None:
    echoes = "when does the pool close and " * 3

    text = without_echo(QUESTION, f"The pool is deep. {echoes}")

    # What stands in front of the last echo goes with it, and what is behind it stays.
    blanks = " " * (len(echoes) - len("and "))
    assert text == f"The pool is deep.{blanks} and "


def test_many_echoes_in_one_sentence_take_what_their_letters_need() -> None:
    """Of 20,000 echoes; where each is looked at back to the first, they take minutes."""
    text = "when does the pool close " * 20_000

    started = time.process_time()
    without = without_echo(QUESTION, text)
    seconds = time.process_time() - started

    assert without.strip() == ""
    assert seconds < 20


# --- marks of lists, headings and speakers


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- Leave\n2. Rest\n(3) 2**10\n4.2 Pay", "Leave Rest 2**10 Pay"),
        (
            "## Help\n> **Note** List<int>\nQ: Why?\nA: <p id='x'>So</p>",
            "Help Note List<int> Why? So",
        ),
        (
            "2.5 mg\n2018. Yes\nA: -5\n7. So\nUser: Bo\nNote: b",
            "2.5 mg 2018. Yes -5 7. So User: Bo b",
        ),
    ],
)
def test_marks_are_no_words_but_what_is_asked_about_stays(text: str, words: str) -> None:
    assert without_marks("What is a user in 7?", text).split() == words.split()


@given(st.text(max_size=60), st.text(max_size=200))
def test_any_text_keeps_its_places(query: str, text: str) -> None:
    with_echo = f"{text} {query} {text}"

    without = without_marks(query, without_echo(query, with_echo))

    assert len(without) == len(with_echo)


@given(st.text(max_size=60), st.text(max_size=200))
def test_any_text_is_looked_at_without_an_error(query: str, text: str) -> None:
    assert isinstance(objection(query, text), str)
