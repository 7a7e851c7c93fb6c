from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ragbench import Case, Evidence, Skip
from ragbench.core.matched import Match, Matched, MatchedBy
from ragbench.core.outcome import Cell
from ragbench.core.trace import Trace
from ragbench.metrics.gold_space import GoldSpace, MatchingTally, MatchingVerdict
from ragbench.metrics.matching import Matching, holds, match, normalised
from tests.unit.metrics.builders import SKIPPED, cell, failed, retrieved, trace, value

LONG = "The Orion gateway drops idle connections after 300 seconds unless keep-alive is on."
LETTERS = "".join(chr(ord("a") + at * 7 % 26) for at in range(60))
"""Halves of it differ, and it is one word."""
LONG_WORDS = "reactor turbine coolant switched operator"
FIVE = "reactor turbine coolant switches operator"
MISSPELLED = "warranty extension applies whenever registered customers complete inspections"


def misspelled(count: int) -> str:
    """Letter by letter alike (a partial ratio above 93), with so many words of its own."""
    words = MISSPELLED.split()
    return " ".join([*(f"{word[:3]}q{word[4:]}" for word in words[:count]), *words[count:]])


@pytest.mark.parametrize(
    ("chunk", "gold", "expected"),
    [
        ("see: ORION  drops\nidle connections", "Orion drops idle", True),
        ("ｆｕｌｌ－ｗｉｄｔｈ ＯＲＩＯＮ", "full-width Orion", True),
        ("short", "shorter", False),
        # a piece of the gold text, and a text with some words changed
        (LONG[10:], LONG, True),
        (LONG.replace("drops", "ends"), LONG, True),
        (f"Note. {LONG.replace('gateway', 'gatewy')} And more of the same.", LONG, True),
        # a near-duplicate that says another number
        (LONG.replace("300", "600"), LONG, False),
        ("A quite different sentence about gardens, flowers and the rain in May.", LONG, False),
        # 30 characters are too few to be recognised when they are not verbatim
        ("idle connections drop after 30", "idle connections drop after 3 s", False),
        ("奥里昂网关在三百秒后断开空闲连接。", "网关在三百秒后断开", True),
        # the gold text was cut in two: the chunk with the larger part of it holds it
        (f"About the network, in short. {LONG[:50]}", LONG, True),
        (f"{LONG[:30]} And then something else that is as long as the rest was.", LONG, False),
        (f"{LONG[-50:]} About the garden and its many flowers.", LONG, True),
        (f"About the network, in short. {LONG[:20]}", LONG, False),
        # At least half of a gold text of 40 characters or more stands at an end of the chunk.
        (f"## {LETTERS[:20]}", LETTERS[:40], True),
        (f"## {LETTERS[:20]}", LETTERS[:39], False),
        (f"## {LETTERS[:20]}", LETTERS[:41], False),
        (f"{LETTERS[20:41]} ##", LETTERS[:41], True),
        (f"{LETTERS[21:41]} ##", LETTERS[:41], False),
        (f"## {LETTERS[:21]} ##", LETTERS[:41], False),
        # Half of the words, and nine in ten of the characters; from 40 characters on.
        (f"{LONG_WORDS} and more", LONG_WORDS.replace("switched", "swatched"), True),
        (f"{LONG_WORDS} and more", "reactox turbinx coolanx switchex operatox", False),
        ("zzzzz reactor turbine coolant switches opexator zzzzz", FIVE[:40], True),
        ("zzzzz reactor turbine coolant switches opexato zzzzz", FIVE[:39], False),
        (misspelled(4), MISSPELLED, True),
        (misspelled(5), MISSPELLED, False),
    ],
)
def test_when_a_chunk_holds_a_gold_text(chunk: str, gold: str, expected: bool) -> None:
    assert holds(normalised(chunk), normalised(gold)) is expected


def test_what_cannot_be_compared_says_why() -> None:
    no_ids = trace(gold=["a"], retrieval=retrieved("a", with_ids=False))
    assert cell("recall@1", no_ids) == Cell.skipped(
        "retrieval gave no context ids, and no relevant text is known to compare with"
    )
    for one in (trace(), trace(gold=[], gold_texts=[])):
        one = replace(one, retrieval=retrieved("a"))
        for matching in Matching:
            found = cell("recall@1", one, matching=matching)
            assert found == Cell.skipped("no relevant context is known")
    no_texts = trace(gold=["a"], retrieval=retrieved("a"))
    assert cell("recall@1", no_texts, matching=Matching.TEXT) == Cell.skipped(
        "chunks are compared by their text, and only ids of what is relevant are known"
    )
    assert cell("recall@1", no_texts, matching=Matching.NOT_COMPARABLE) == Cell.skipped(
        "not comparable: no retrieved id is one of the gold's, and no relevant text is known"
    )


OWNER = f"{LONG} The owner is Mara Lind, see the directory for her telephone number."


@pytest.mark.parametrize(
    ("gold", "evidence", "expected"),
    [
        ([OWNER], "the owner is mara lind, see", 1 / 3),
        # "Mara Lind" alone is found anywhere: the reference context decides; a piece of it holds.
        ([OWNER], "Mara Lind", 1 / 2),
        (None, "Mara Lind", 1.0),
    ],
)
def test_evidence_is_the_gold_unless_it_turns_up_by_chance(
    gold: list[str] | None, evidence: str, expected: float
) -> None:
    found = retrieved(*"abc", texts=["Mara Lind", LONG, OWNER])
    one = trace(gold_texts=gold, evidence=[evidence], retrieval=found)
    assert value("MRR", one, matching=Matching.TEXT) == expected


@pytest.mark.parametrize(
    ("id", "metadata"),
    [
        *(("chunk-3", [{key: "doc"}]) for key in ("document_id", "doc_id", "source")),
        ("doc#0", None),
        ("doc#7-1a2b3c", None),
        ("doc::4", None),
    ],
)
def test_a_chunk_is_found_by_the_document_that_its_metadata_or_its_id_names(
    id: str, metadata: list[dict[str, str]] | None
) -> None:
    one = trace(gold=["doc"], retrieval=retrieved(id, metadata=metadata))
    assert verdict(one).matching is Matching.DOCUMENT_ID
    assert value("recall@1", one, matching=Matching.DOCUMENT_ID) == value("recall@1", one) == 1.0
    assert value("recall@1", one, matching=Matching.ID) == 0.0
    # Another chunk of the same document is none where chunks are the gold.
    other = trace(gold=["doc#1"], retrieval=retrieved("doc#0"))
    assert value("recall@1", other, matching=Matching.DOCUMENT_ID) == 0.0


def test_a_number_of_a_chunk_is_not_taken_for_that_of_a_document() -> None:
    """Rows of a table are numbered, and so are the documents that they are parts of."""
    right = trace(gold=["51"], retrieval=retrieved("9", metadata=[{"document_id": 51}]))
    chance = trace(gold=["184"], retrieval=retrieved("184", metadata=[{"document_id": "12"}]))
    other = trace(gold=["7"], retrieval=retrieved("8", metadata=[{"document_id": "7"}]))
    assert verdict(right, chance, other).matching is Matching.DOCUMENT_ID
    assert value("recall@1", right, matching=Matching.DOCUMENT_ID) == 1.0
    assert value("recall@1", chance, matching=Matching.DOCUMENT_ID) == 0.0


def test_what_was_matched_names_rank_gold_and_how() -> None:
    case = trace(grades={"a": 2, "b": 0, "c": 1}).case
    result = retrieved("x", "a", "a", "c#2", "b").value
    assert result is not None
    found = match(case, result, Matching.DOCUMENT_ID)
    assert isinstance(found, Matched)
    matches = (
        Match(rank=2, gold=0, by=MatchedBy.ID),
        Match(rank=4, gold=2, by=MatchedBy.DOCUMENT),
        Match(rank=5, gold=1, by=MatchedBy.ID),
    )
    facts: Any = {"golds": ("a", "b", "c"), "grades": (2, 0, 1), "is_by_id": True, "chunks": 5}
    assert found == Matched(**facts, matches=matches, repeated=(3,))
    nothing = match(case, retrieved().value or result, Matching.DOCUMENT_ID)
    assert isinstance(nothing, Matched)
    assert nothing.matches == ()
    assert isinstance(match(Case(id="x", query="x"), result, Matching.AUTO), Skip)


@pytest.mark.parametrize(
    ("place", "by"),
    [
        (("doc", 0, 200), MatchedBy.OVERLAP),  # holds it
        (("doc", 110, 140), MatchedBy.OVERLAP),  # is within it
        (("doc", 0, 125), MatchedBy.OVERLAP),  # shares 25 of its 50 characters
        (("doc", 0, 124), None),
        (("doc", 140, 160), MatchedBy.OVERLAP),  # half of the shorter: the chunk
        (("doc", 141, 161), None),
        (("doc", 120, 120), None),  # an empty chunk holds nothing
        # Without a place in the same document, texts are compared: and it holds the text.
        (("other", 400, 500), MatchedBy.TEXT),
        (("doc", 400, None), MatchedBy.TEXT),
        (("doc", None, 500), MatchedBy.TEXT),
        (("doc", 400, 500), None),
    ],
)
@pytest.mark.parametrize("end", [None, 150])
def test_overlap_with_the_evidence_decides_where_both_sides_have_them(
    place: tuple[Any, ...], by: MatchedBy | None, end: int | None
) -> None:
    metadata: Mapping[str, Any] = {"document_id": place[0], "start": place[1], "end": place[2]}
    span = Evidence(text="e" * 50, document_id="doc", start=100, end=end)
    case = Case(id="case", query="query", evidence=(span,))
    result = retrieved("x", texts=[f"word {'e' * 50}"], metadata=[metadata]).value
    assert result is not None
    found = match(case, result, Matching.TEXT)
    assert isinstance(found, Matched)
    assert [one.by for one in found.matches] == ([] if by is None else [by])


# --- the verdict over a run


def verdict(*traces: Trace, corpus: list[str] | None = None) -> MatchingVerdict:
    gold = GoldSpace()
    for one in traces:
        gold.add(one.case)
    tally = MatchingTally(gold)
    for one in traces:
        tally.add(one)
    return tally.verdict(None if corpus is None else lambda: corpus)


def numbered(n: int, id: str, *, gold_text: bool = True) -> Trace:
    """A case whose right chunk was retrieved under an id of the RAG's own."""
    text = f"{LONG} This is written on page {n} of the handbook."
    gold_texts, retrieval = [text] if gold_text else None, retrieved(id, texts=[text])
    return trace(gold=[str(n)], gold_texts=gold_texts, retrieval=retrieval)


OTHER = "What the page says, said by somebody in quite different words."
HARBOUR = "Something else that the handbook says about the harbour and its cranes."
PAGES = [f"{LONG} This is written on page {n} of the handbook." for n in range(4)]
CONTRADICTED = [
    trace(
        gold=["0", "1"],
        gold_texts=PAGES[:2],
        retrieval=retrieved("0", "1", texts=[PAGES[0], OTHER]),
    ),
    trace(
        gold=["2", "3"], gold_texts=PAGES[2:], retrieval=retrieved("2", "3", texts=[OTHER, OTHER])
    ),
]
"""One of four chunks with a gold id has its text; texts are found in one case of two."""


def believed(agreeing: int, count: int) -> list[Trace]:
    """Cases whose gold ids were retrieved; the texts of the first ones are those of the gold."""
    cases = [numbered(n, str(n)) for n in range(agreeing)]
    return cases + [
        trace(gold=[str(n)], gold_texts=[OTHER], retrieval=retrieved(str(n), texts=[f"{LONG} {n}"]))
        for n in range(agreeing, count)
    ]


def found_as(text: str, *gold: str) -> list[Trace]:
    return [
        trace(gold=[id], gold_texts=gold, retrieval=retrieved(id, texts=[text])) for id in "abc"
    ]


@pytest.mark.parametrize(
    ("cases", "matching", "notes"),
    [
        # An id that meets by chance decides nothing.
        (
            [numbered(n, "5" if n == 7 else f"own-{n}") for n in range(60)],
            Matching.TEXT,
            ["(1 of 60 retrieved ids"],
        ),
        # Both sides number 0 .. 59, but differently.
        (
            [numbered(n, str(n * 7 % 60)) for n in range(60)],
            Matching.TEXT,
            ["ids of the two sides do not mean the same, though 60 of 60"],
        ),
        # Each case retrieves everything, so that ids seem to find as much as texts.
        (
            [
                trace(
                    gold=[str(n)],
                    gold_texts=[PAGES[n]],
                    retrieval=retrieved("1", "2", "0", texts=PAGES[:3]),
                )
                for n in range(3)
            ],
            Matching.TEXT,
            ["of 3 chunks whose id is a relevant one, 0 have its text"],
        ),
        (CONTRADICTED, Matching.TEXT, ["of 4 chunks whose id is a relevant one, 1 have its text"]),
        # Reference contexts in other words contradict nothing; that they differ is said.
        (believed(0, 4), Matching.DOCUMENT_ID, ["Only 0 of 4 chunks"]),
        (believed(2, 5), Matching.DOCUMENT_ID, ["Only 2 of 5 chunks"]),
        (believed(3, 5), Matching.DOCUMENT_ID, []),
        # A chunk agrees with any of the reference contexts, or with a part of one.
        (found_as(LONG, HARBOUR, LONG), Matching.DOCUMENT_ID, []),
        (found_as(HARBOUR, f"{HARBOUR} {LONG}"), Matching.DOCUMENT_ID, []),
        # An id wins where its metadata names something else.
        (
            [trace(gold=["u-1"], retrieval=retrieved("u-1", metadata=[{"source": "all.pdf"}]))],
            Matching.ID,
            [],
        ),
        # Ids of another case show that ids are comparable; foreign ones leave it to the texts.
        ([trace(gold=["a"], retrieval=retrieved("b"))], Matching.NOT_COMPARABLE, ["none of 1"]),
        (
            [
                trace(gold=["a"], retrieval=retrieved("b")),
                trace(gold=["b"], retrieval=retrieved("z")),
            ],
            Matching.DOCUMENT_ID,
            [],
        ),
        # One side has no ids.
        (
            [trace(gold=["a"], gold_texts=[LONG], retrieval=retrieved("x", with_ids=False))],
            Matching.TEXT,
            ["by their text: the RAG gives neither ids nor documents."],
        ),
        (
            [trace(gold_texts=[LONG], retrieval=retrieved("x"))],
            Matching.TEXT,
            ["by their text: the dataset names no ids of what is relevant."],
        ),
        ([trace(gold=["a"], retrieval=retrieved("x", with_ids=False))], Matching.DOCUMENT_ID, []),
        (
            [
                trace(gold=["a"], retrieval=retrieved("a")),
                trace(gold=["b"], retrieval=retrieved("b#1", "b#2", "z")),
            ],
            Matching.DOCUMENT_ID,
            ["2 of 3 relevant chunks were recognised by the document that they were cut from"],
        ),
    ],
)
def test_how_the_chunks_of_a_run_are_compared(
    cases: list[Trace], matching: Matching, notes: list[str]
) -> None:
    found = verdict(*cases)
    assert found.matching is matching
    assert len(found.notes) == len(notes)
    assert all(part in note for part, note in zip(notes, found.notes, strict=True))


def test_a_corpus_shows_whether_foreign_ids_are_of_one_kind() -> None:
    cases = [numbered(n, f"u-{n}", gold_text=False) for n in range(3)]
    (note,) = verdict(*cases).notes
    assert "none of 3 retrieved ids (such as 'u-0') is one of the gold's (such as '0')" in note
    # Of one corpus, they are comparable, and nothing was found.
    assert verdict(*cases, corpus=["u-1", "0"]).matching is Matching.DOCUMENT_ID
    for corpus in (["u-1"], ["0"]):
        assert verdict(*cases, corpus=corpus).matching is Matching.NOT_COMPARABLE


def test_short_texts_that_may_turn_up_anywhere_decide_nothing() -> None:
    """Beside a long text, "yes" makes a case one whose texts say nothing of its ids."""
    for texts, expected in (([], Matching.TEXT), (["yes"], Matching.DOCUMENT_ID)):
        found = [retrieved("0" if n == 3 else f"own-{n}", texts=[PAGES[n]]) for n in range(4)]
        cases = [
            trace(gold=[str(n)], gold_texts=[PAGES[n], *texts], retrieval=found[n])
            for n in range(4)
        ]
        assert verdict(*cases).matching is expected


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("doc-1", "DOC-1"),
        ("https://x.org/a", "https://x.org/a/"),
        ("annual report.pdf", "annual%20report.pdf"),
        ("guide", "guide.md"),
        ("./docs/a.txt", "docs/a"),
        ("7", "007"),
        ("caf\u00e9", "cafe\u0301"),
        ("doc-1", "Doc-1#4"),
        (" a", "a"),
    ],
)
def test_that_only_the_writing_of_an_id_differs_is_said(ours: str, theirs: str) -> None:
    there = trace(gold=["there"], retrieval=retrieved("there"))
    found = verdict(there, trace(gold=[ours], retrieval=retrieved("other", theirs)))
    assert found.matching is Matching.DOCUMENT_ID
    (note,) = found.notes
    assert note.startswith("1 retrieved chunk does not count as relevant though only the writing")
    assert f"for the gold's '{ours}'" in note
    alone = verdict(trace(gold=[ours], retrieval=retrieved(theirs)))
    assert alone.matching is Matching.NOT_COMPARABLE
    assert len(alone.notes) == 2


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        ("caf\u00e9", "cafe\u0301", "in Unicode's form NFD, those of the gold in NFC"),
        ("cafe\u0301", "caf\u00e9", "in Unicode's form NFC, those of the gold in NFD"),
    ],
)
def test_ids_that_look_the_same_are_named_by_their_form(ours: str, theirs: str, said: str) -> None:
    there = trace(gold=["there"], retrieval=retrieved("there"))
    (note,) = verdict(there, trace(gold=[ours], retrieval=retrieved("other", theirs))).notes
    assert said in note


def test_ids_that_mean_something_else_are_no_other_writing() -> None:
    there = trace(gold=["there"], retrieval=retrieved("there"))
    for ours, theirs in [("doc-1", "doc-10"), ("a.v2", "a.v3"), ("1", "10"), ("a/b", "b")]:
        assert verdict(there, trace(gold=[ours], retrieval=retrieved(theirs))).notes == ()
    # What another case wants, or what is judged as not relevant, would not count either.
    other = trace(gold=["X"], retrieval=retrieved("z"))
    assert verdict(there, other, trace(gold=["y"], retrieval=retrieved("x"))).notes == ()
    graded = replace(there.case, reference_context_ids=None, grades={"A": 0, "b": 1})
    assert verdict(there, replace(there, case=graded, retrieval=retrieved("a"))).notes == ()


def test_where_nothing_was_retrieved_nothing_is_said() -> None:
    for retrieval in (failed("retrieve"), SKIPPED, retrieved()):
        found = verdict(trace(gold=["a"], retrieval=retrieval))
        assert found == MatchingVerdict(Matching.DOCUMENT_ID)
    assert value("recall@5", trace(gold=["a"], retrieval=retrieved())) == 0.0
