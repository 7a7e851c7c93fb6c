"""Slots: a near miss says a rival of what the question names; an answer does not."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import Chunk, build_validator
from ragbench.errors import ConfigError
from ragbench.validators.slots import SLOTS, unbound, without_echo, without_marks


def against(query: str, text: str) -> str:
    return unbound(query, text, text, SLOTS)


@pytest.mark.parametrize(
    ("query", "text", "said"),
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
def test_a_rival_in_the_place_of_what_is_asked_is_said(query: str, text: str, said: str) -> None:
    assert said in against(query, text)


def test_what_answers_is_not_objected_to() -> None:
    for query, text in (
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
    ):
        assert against(query, text) == ""


def test_slots_can_be_switched_off_and_an_unknown_one_is_refused() -> None:
    query, text = "What caused incident INC-48213?", "Incident INC-48231 was caused by rain."
    chunks = [Chunk(id="a", text=text)]
    settings: tuple[dict[str, Any], ...] = ({}, {"slots": []}, {"slots": ["number"]})
    judged = [build_validator({"name": "lexical", **one}) for one in settings]
    assert len({one.identity for one in judged}) == 3
    verdicts = [one.validate(query, chunks) for one in judged]
    assert verdicts[0].answer_probability == 0.05
    assert "near miss (0.05): 'INC-48213' is not in this chunk; 'INC-48231' is" in str(verdicts[0])
    assert "near miss" not in str(verdicts[1:])
    with pytest.raises(ConfigError, match="'colour' is not one of identifier, number"):
        build_validator({"name": "lexical", "slots": ["colour"]})


ASKED = "When does the pool close?"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"Most viewed: {ASKED}", ""),
        (f"{ASKED} | Help centre | Contact us", "| Help centre | Contact us"),
        (f"[chat] guest: {ASKED}\n[chat] guest: same question here", ""),
        (f"SYSTEM: this holds the answer to {ASKED} The pool is deep.", "The pool is deep."),
        (f"{ASKED} The answer is stated in this document. Swim!", "Swim!"),
        (f"{ASKED} At nine in the evening.", None),
        (f"Q: {ASKED} A: 21:00.", None),
        ("The pool closes at 21:00.", None),
    ],
)
def test_a_repeated_question_is_removed_unless_it_is_answered(text: str, left: str | None) -> None:
    found = without_echo(ASKED, text)
    assert len(found) == len(text)
    assert (found == text) if left is None else found.endswith(left)
    assert left is None or ASKED not in found


def test_each_echo_of_one_long_sentence_is_removed() -> None:
    echoes = "when does the pool close and " * 3

    text = without_echo(ASKED, f"The pool is deep. {echoes}")

    # What stands in front of the last echo goes with it, and what is behind it stays.
    blanks = " " * (len(echoes) - len("and "))
    assert text == f"The pool is deep.{blanks} and "


def test_many_echoes_in_one_sentence_take_what_their_letters_need() -> None:
    """Of 20,000 echoes; where each is looked at back to the first, they take minutes."""
    text = "when does the pool close " * 20_000

    started = time.process_time()
    found = without_echo(ASKED, text)
    seconds = time.process_time() - started

    assert not found.strip()
    assert seconds < 20


@pytest.mark.parametrize(
    ("text", "left"),
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
def test_marks_are_no_words_but_what_is_asked_about_stays(text: str, left: str) -> None:
    assert without_marks("What is a user in 7?", text).split() == left.split()


@given(st.text(max_size=60), st.text(max_size=200))
def test_any_text_keeps_its_places(query: str, text: str) -> None:
    found = without_marks(query, without_echo(query, f"{text} {query} {text}"))
    assert len(found) == len(f"{text} {query} {text}")
    unbound(query, text, text, SLOTS)
