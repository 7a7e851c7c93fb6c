"""Checks of the text alone: what they object to, what they let pass; repeated questions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.text.sentences import Span
from ragbench.validators.objections import object_to, without_echo

FOUNDED = "When was the company founded?"
OPEN = "Is the shop open on Sunday?"
HAMLET = "Who wrote Hamlet?"


@pytest.mark.parametrize(
    ("query", "text", "kind"),
    [
        (FOUNDED, "The founding year of the company is unknown.", "unknown"),
        (FOUNDED, "Nobody knows when the company was founded.", "unknown"),
        ("What is the price of the X200?", "Its price is available on request.", "unknown"),
        ("Who won the 2018 world cup?", "France won the 1998 world cup.", "number"),
        ("What does the 40 litre tank cost?", "The 60 litre tank costs 90 euros.", "number"),
        ("How much aspirin may children take?", "Adults may take 500 mg of aspirin.", "opposite"),
        ("When was the first tower built?", "The last tower was built in 1950.", "opposite"),
        ("Which army wins at Tarn?", "The army of Ebro lost at Tarn.", "opposite"),
        ("Where do prices increase?", "In Leeds, prices are decreasing.", "opposite"),
        ("Who sold the mill?", "Unfortunately we do not know who sold the mill.", "unknown"),
        ("Which rooms are not heated?", "All the rooms are heated from October on.", "negation"),
        ("What can't guests bring?", "Guests can bring towels and food.", "negation"),
        ("Who never signed the treaty?", "Anna of Tarn signed the treaty in 1910.", "negation"),
        ("In what year was the fort built?", "The fort was built by the settlers.", "asked"),
        ("When was the king crowned?", "The king was crowned in Reims.", "asked"),
        ("How many loggers were sold?", "The loggers were sold in Leeds.", "asked"),
        ("Which towns grew in the 1700s?", "Tarn grew in the 17th century.", "number"),
    ],
)
def test_near_misses_are_objected_to(query: str, text: str, kind: str) -> None:
    found = object_to(query, text, Span(0, len(text)))
    assert found is not None
    assert found.kind == kind
    assert found.text


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Who won the 2018 world cup?", "France won the 2018 world cup."),
        ("When does the museum open?", "The museum opens at 11 am."),
        ("Which port does the server use?", "The server listens on port 9443."),
        ("Who may approve a purchase?", "Only department heads may approve a purchase."),
        ("How many died?", "The exact number is not known; about 500 died."),
        ("Is the dose unknown?", "The dose is unknown."),
        ("What did the 2 founders do?", "The two founders sold pumps."),
        ("What happened in the 1990s?", "In 1995 the mill burned down."),
        ("What is part 2 of the film called?", "Part II of the film is called Dawn."),
        ("When was the first tower built?", "The first tower was built before the last one."),
        ("How many people live in towns of 1,200 houses?", "In towns of 1200 houses live 3,000."),
        ("Which rooms are not heated?", "The cellar and the attic have no heating in the rooms."),
        ("Which rooms are not heated?", "All rooms are heated except the cellar."),
        ("Which planets do not have a moon?", "Mercury and Venus lack one."),
        ("Why does the pump not start?", "The pump starts when the lid is closed."),
        ("How do I start a pump that does not start?", "Start the pump with the red switch."),
        ("What causes the printer to not print?", "A dry cartridge; the printer prints blank."),
        ("What should I do if the app does not open?", "Open the app from the menu."),
        ("What animals that are not fish live in water?", "Whales live in the sea."),
        ("In what year was the fort built?", "It was finished a decade later, in the nineties."),
        ("When are pills taken?", "The pills are taken with meals, as soon as pain begins."),
        ("How many loggers were sold?", "A dozen of the loggers were sold."),
        ("Which towns grew in the 1700s?", "Tarn and Ebro grew in the 18th century."),
        ("I drove 240 km in my car. What am I paid?", "Private cars: 0.38 euros per km."),
        ("Who bought the factory?", "The factory was sold to Miller & Sons."),
        ("Is smoking allowed on the roof?", "Smoking is forbidden everywhere, the roof included."),
        ("Did prices increase in 2020?", "Prices decreased that year."),
        ("Can I return it after 30 days?", "It can be returned before 14 days are over."),
        ("When does the shop open?", "The shop close to the mill does so at nine."),
        ("Which army won at Tarn?", "The army of Tarn was winning; that of Ebro lost."),
    ],
)
def test_right_answers_pass(query: str, text: str) -> None:
    assert object_to(query, text, Span(0, len(text))) is None
    assert without_echo(query, text) is None


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (FOUNDED, FOUNDED),
        (FOUNDED, f"Frequently asked questions. {FOUNDED} See the next page."),
        (FOUNDED, f"The answer to {FOUNDED} is stated here."),
        (FOUNDED, f"Exercise 4. {FOUNDED} (4 points)"),
        (FOUNDED, f"Ticket #31: {FOUNDED.lower()}"),
        (FOUNDED, f"{FOUNDED} This is still being looked into and is not known."),
        (FOUNDED, "3. When the company was founded .......... 17"),
        (FOUNDED, f"This document is relevant to: {FOUNDED} It was bought in 1995 by two sisters."),
        (OPEN, OPEN),
        (HAMLET, f"{HAMLET} (unassigned)"),
        (HAMLET, f"{HAMLET} (4 points)"),
        (HAMLET, f"Quiz: {HAMLET} a) ... b) ... c) ..."),
        (HAMLET, f"[chat] ada: {HAMLET}\n[chat] ben: same question here"),
        (HAMLET, f"{HAMLET}\nHello, I could not find this anywhere. Can somebody help?"),
        (HAMLET, f"{HAMLET} The answer is stated in this document. Plays were cheap to print."),
        (HAMLET, f"Most viewed: Where is Elsinore - {HAMLET} - Who plays Ophelia"),
        ("Who wrote Hamlet (1603)?", "To do: Who wrote Hamlet (1603)?"),
        ("the mill was sold to", "the mill was sold to | Help centre | Contact us"),
        ("the mill was sold to", "Verified answer for: the mill was sold to Mills were cheap."),
        ("mills in Tarn by age", "Search: mills in Tarn by age / mills in Ebro / mills by size"),
        ("does the mill grind rye", "This fully answers does the mill grind rye It has ponds."),
        ("where do mills grind rye", "Related searches: mills grind rye"),
        ("where do mills grind rye", "Topics: mills, grind, rye | Read more"),
        ("mills that grind rye", "Keywords: mills, grind, rye"),
    ],
)
def test_an_unanswered_question_is_left_out(query: str, text: str) -> None:
    rest = without_echo(query, text)
    assert rest is not None
    assert len(rest) == len(text)
    left = frozenset(rest.lower().split())
    assert not left & {"founded", "hamlet", "shop", "rye", "sold", "tarn"}


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (FOUNDED, f"Q: {FOUNDED} A: In 1995."),
        (FOUNDED, f"{FOUNDED} It was in 1995, by two sisters."),
        (FOUNDED, "The company was founded in 1995."),
        (OPEN, f"{OPEN} Yes."),
        (OPEN, f"FAQ: {OPEN} A: No."),
        (OPEN, "The shop is open on Sunday | Contact us"),
        (HAMLET, f"Q: {HAMLET} A: Shakespeare"),
        (HAMLET, f"{HAMLET} Shakespeare."),
        ("Where is the office?", "Where is the office? Berlin."),
        ("How can I reach you?", "How can I reach you? Contact us at the front desk."),
        ("How do I contact support by email?", "Contact us by email at support@example.org."),
        ("the mill was sold to", "In 1979 the mill was sold to the Millers."),
        ("opening hours of the mill", "Opening hours of the mill\nIt opens daily at nine."),
        ("what was the most viewed film", "The most viewed film was Dawn."),
    ],
)
def test_a_question_with_a_reply_and_a_plain_statement_stay(query: str, text: str) -> None:
    assert without_echo(query, text) is None


def test_what_stands_beside_an_echo_keeps_its_place() -> None:
    text = f"{FOUNDED} Ask us. The company makes pumps in Leeds, and sells them abroad."
    rest = without_echo("When was the company founded", text)
    assert rest is not None
    assert rest.index("pumps") == text.index("pumps")


@given(st.text(max_size=60), st.text(max_size=200))
def test_any_text_is_checked(query: str, text: str) -> None:
    found = object_to(query, text, Span(0, len(text)))
    assert found is None or found.text
    rest = without_echo(query, text)
    assert rest is None or len(rest) == len(text)
