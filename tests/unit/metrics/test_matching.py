from __future__ import annotations

from collections.abc import Mapping
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

# --- one text in another


@pytest.mark.parametrize(
    ("chunk", "gold"),
    [
        ("see: ORION  drops\nidle connections", "Orion drops idle"),
        ("ｆｕｌｌ－ｗｉｄｔｈ ＯＲＩＯＮ", "full-width Orion"),
        ("奥里昂网关在三百秒后断开空闲连接。", "网关在三百秒后断开"),
    ],
    ids=["case and spaces", "full-width letters", "no spaces"],
)
def test_a_chunk_holds_a_text_however_it_is_written(chunk: str, gold: str) -> None:
    assert holds(normalised(chunk), normalised(gold))


@pytest.mark.parametrize(
    "chunk",
    [
        LONG[10:],
        LONG.replace("drops", "ends"),
        f"Note. {LONG.replace('gateway', 'gatewy')} And more of the same.",
    ],
    ids=["a piece of it", "another word", "a misspelled word"],
)
def test_a_chunk_holds_a_text_that_it_says_with_small_changes(chunk: str) -> None:
    assert holds(normalised(chunk), normalised(LONG))


@pytest.mark.parametrize(
    ("chunk", "gold"),
    [
        ("short", "shorter"),
        (LONG.replace("300", "600"), LONG),
        ("A quite different sentence about gardens, flowers and the rain in May.", LONG),
        # 30 characters are too few to be recognised when they are not verbatim.
        ("idle connections drop after 30", "idle connections drop after 3 s"),
    ],
    ids=["shorter", "another number", "another matter", "too short to be recognised"],
)
def test_a_chunk_does_not_hold_a_text_that_says_something_else(chunk: str, gold: str) -> None:
    assert not holds(normalised(chunk), normalised(gold))


@pytest.mark.parametrize(
    ("chunk", "expected"),
    [
        (f"About the network, in short. {LONG[:50]}", True),
        (f"{LONG[:30]} And then something else that is as long as the rest was.", False),
        (f"{LONG[-50:]} About the garden and its many flowers.", True),
        (f"About the network, in short. {LONG[:20]}", False),
    ],
    ids=["50 of 83 at its end", "30 at its start", "50 at its start", "20 at its end"],
)
def test_of_a_text_that_was_cut_in_two_the_chunk_with_the_larger_part_holds_it(
    chunk: str, expected: bool
) -> None:
    assert holds(normalised(chunk), normalised(LONG)) is expected


ALPHABET = "abcdefghijklmnopqrstuvwxyz"
LETTERS = "".join(ALPHABET[position * 7 % 26] for position in range(60))
"""One word of 60 letters whose halves differ."""


@pytest.mark.parametrize(
    ("chunk", "gold", "expected"),
    [
        (f"## {LETTERS[:20]}", LETTERS[:40], True),
        (f"## {LETTERS[:20]}", LETTERS[:39], False),  # the text is too short
        (f"## {LETTERS[:20]}", LETTERS[:41], False),  # less than half
        (f"{LETTERS[20:41]} ##", LETTERS[:41], True),
        (f"{LETTERS[21:41]} ##", LETTERS[:41], False),  # less than half
        (f"## {LETTERS[:21]} ##", LETTERS[:41], False),  # within the chunk
    ],
)
def test_half_of_a_text_of_40_characters_is_enough_at_an_end_of_the_chunk(
    chunk: str, gold: str, expected: bool
) -> None:
    assert holds(normalised(chunk), normalised(gold)) is expected


REACTOR = "reactor turbine coolant switches operator"


@pytest.mark.parametrize(
    ("chunk", "gold", "expected"),
    [
        (f"{REACTOR} and more", "reactor turbine coolant swatches operator", True),
        (f"{REACTOR} and more", "reactox turbinx coolanx switchex operatox", False),
        ("zzzzz reactor turbine coolant switches opexator zzzzz", REACTOR[:40], True),
        ("zzzzz reactor turbine coolant switches opexato zzzzz", REACTOR[:39], False),
    ],
    ids=["4 of 5 words", "no word", "40 characters", "39 characters"],
)
def test_nine_in_ten_characters_and_half_of_the_words_are_enough_from_40_characters_on(
    chunk: str, gold: str, expected: bool
) -> None:
    assert holds(normalised(chunk), normalised(gold)) is expected


WARRANTY = "warranty extension applies whenever registered customers complete inspections"


def with_misspelled_words(count: int) -> str:
    """The warranty's eight words; the fourth letter of the first ones is another.

    Letter by letter it stays alike: a partial ratio above 93.
    """
    words = WARRANTY.split()
    for position in range(count):
        word = words[position]
        words[position] = f"{word[:3]}q{word[4:]}"
    return " ".join(words)


@pytest.mark.parametrize(("misspelled", "expected"), [(4, True), (5, False)])
def test_with_more_than_half_of_its_words_misspelled_a_text_is_another(
    misspelled: int, expected: bool
) -> None:
    chunk = with_misspelled_words(misspelled)

    assert holds(normalised(chunk), normalised(WARRANTY)) is expected


# --- what cannot be compared


def test_without_ids_of_the_rag_and_texts_of_the_gold_nothing_is_compared() -> None:
    case = trace(gold=["a"], retrieval=retrieved("a", with_ids=False))

    assert cell("recall@1", case) == Cell.skipped(
        "retrieval gave no context ids, and no relevant text is known to compare with"
    )


@pytest.mark.parametrize("matching", Matching)
@pytest.mark.parametrize("gold", [None, []])
def test_without_a_gold_nothing_is_compared(gold: list[str] | None, matching: Matching) -> None:
    case = trace(gold=gold, gold_texts=gold, retrieval=retrieved("a"))

    score = cell("recall@1", case, matching=matching)

    assert score == Cell.skipped("no relevant context is known")


@pytest.mark.parametrize(
    ("matching", "reason"),
    [
        (
            Matching.TEXT,
            "chunks are compared by their text, and only ids of what is relevant are known",
        ),
        (
            Matching.NOT_COMPARABLE,
            "not comparable: no retrieved id is one of the gold's, and no relevant text is known",
        ),
    ],
)
def test_a_gold_of_ids_alone_has_no_text_to_compare_with(matching: Matching, reason: str) -> None:
    case = trace(gold=["a"], retrieval=retrieved("a"))

    assert cell("recall@1", case, matching=matching) == Cell.skipped(reason)


# --- what one case matches

OWNER = f"{LONG} The owner is Mara Lind, see the directory for her telephone number."


@pytest.mark.parametrize(
    ("gold", "evidence", "reciprocal_rank"),
    [
        ([OWNER], "the owner is mara lind, see", 1 / 3),
        # "Mara Lind" alone is found anywhere: the reference context decides; a piece of it holds.
        ([OWNER], "Mara Lind", 1 / 2),
        (None, "Mara Lind", 1.0),
    ],
)
def test_evidence_is_the_gold_unless_it_turns_up_by_chance(
    gold: list[str] | None, evidence: str, reciprocal_rank: float
) -> None:
    retrieval = retrieved("a", "b", "c", texts=["Mara Lind", LONG, OWNER])
    case = trace(gold_texts=gold, evidence=[evidence], retrieval=retrieval)

    assert value("MRR", case, matching=Matching.TEXT) == reciprocal_rank


CHUNKS_OF_DOC = [
    retrieved("chunk-3", metadata=[{"document_id": "doc"}]),
    retrieved("chunk-3", metadata=[{"doc_id": "doc"}]),
    retrieved("chunk-3", metadata=[{"source": "doc"}]),
    retrieved("doc#0"),
    retrieved("doc#7-1a2b3c"),
    retrieved("doc::4"),
]


@pytest.mark.parametrize("retrieval", CHUNKS_OF_DOC)
def test_a_chunk_is_found_by_the_document_that_its_metadata_or_its_id_names(
    retrieval: Any,
) -> None:
    case = trace(gold=["doc"], retrieval=retrieval)

    assert verdict(case).matching is Matching.DOCUMENT_ID
    assert value("recall@1", case, matching=Matching.DOCUMENT_ID) == 1.0
    assert value("recall@1", case, matching=Matching.AUTO) == 1.0


@pytest.mark.parametrize("retrieval", CHUNKS_OF_DOC)
def test_a_chunk_of_the_document_is_not_found_where_ids_alone_are_compared(retrieval: Any) -> None:
    case = trace(gold=["doc"], retrieval=retrieval)

    assert value("recall@1", case, matching=Matching.ID) == 0.0


def test_where_the_gold_is_a_chunk_its_neighbour_in_the_document_is_not_found() -> None:
    case = trace(gold=["doc#1"], retrieval=retrieved("doc#0"))

    assert value("recall@1", case, matching=Matching.DOCUMENT_ID) == 0.0


def test_a_number_of_a_chunk_is_not_taken_for_that_of_a_document() -> None:
    """Rows of a table are numbered, and so are the documents that they are parts of."""
    right = trace(gold=["51"], retrieval=retrieved("9", metadata=[{"document_id": 51}]))
    chance = trace(gold=["184"], retrieval=retrieved("184", metadata=[{"document_id": "12"}]))
    neighbour = trace(gold=["7"], retrieval=retrieved("8", metadata=[{"document_id": "7"}]))

    assert verdict(right, chance, neighbour).matching is Matching.DOCUMENT_ID
    assert value("recall@1", right, matching=Matching.DOCUMENT_ID) == 1.0
    assert value("recall@1", chance, matching=Matching.DOCUMENT_ID) == 0.0


GRADED = Case(id="case", query="query", grades={"a": 2, "b": 0, "c": 1})


def test_what_was_matched_names_rank_gold_and_how() -> None:
    result = retrieved("x", "a", "a", "c#2", "b").value
    assert result is not None

    matched = match(GRADED, result, Matching.DOCUMENT_ID)

    assert matched == Matched(
        golds=("a", "b", "c"),
        grades=(2, 0, 1),
        is_by_id=True,
        chunks=5,
        matches=(
            Match(rank=2, gold=0, by=MatchedBy.ID),
            Match(rank=4, gold=2, by=MatchedBy.DOCUMENT),
            Match(rank=5, gold=1, by=MatchedBy.ID),
        ),
        repeated=(3,),
    )


def test_of_nothing_retrieved_nothing_is_matched() -> None:
    result = retrieved().value
    assert result is not None

    matched = match(GRADED, result, Matching.DOCUMENT_ID)

    assert isinstance(matched, Matched)
    assert matched.matches == ()


def test_a_case_without_a_gold_is_not_matched() -> None:
    result = retrieved("a").value
    assert result is not None

    assert isinstance(match(Case(id="x", query="x"), result, Matching.AUTO), Skip)


@pytest.mark.parametrize(
    ("document", "start", "end", "by"),
    [
        ("doc", 0, 200, MatchedBy.OVERLAP),  # holds it
        ("doc", 110, 140, MatchedBy.OVERLAP),  # is within it
        ("doc", 0, 125, MatchedBy.OVERLAP),  # shares 25 of its 50 characters
        ("doc", 0, 124, None),
        ("doc", 140, 160, MatchedBy.OVERLAP),  # half of the shorter: the chunk
        ("doc", 141, 161, None),
        ("doc", 120, 120, None),  # an empty chunk holds nothing
        ("doc", 400, 500, None),
        # Without a place in the same document, texts are compared: and it holds the text.
        ("other", 400, 500, MatchedBy.TEXT),
        ("doc", 400, None, MatchedBy.TEXT),
        ("doc", None, 500, MatchedBy.TEXT),
    ],
)
@pytest.mark.parametrize("evidence_end", [None, 150], ids=["start and length", "start and end"])
def test_overlap_with_the_evidence_decides_where_both_sides_have_them(
    document: str,
    start: int | None,
    end: int | None,
    by: MatchedBy | None,
    evidence_end: int | None,
) -> None:
    """The evidence is 50 characters of `doc`, from 100 to 150."""
    evidence = Evidence(text="e" * 50, document_id="doc", start=100, end=evidence_end)
    case = Case(id="case", query="query", evidence=(evidence,))
    metadata: Mapping[str, Any] = {"document_id": document, "start": start, "end": end}
    result = retrieved("x", texts=["word " + "e" * 50], metadata=[metadata]).value
    assert result is not None

    matched = match(case, result, Matching.TEXT)

    assert isinstance(matched, Matched)
    ways = [each.by for each in matched.matches]
    assert ways == ([] if by is None else [by])


# --- the verdict over a run


def verdict(*traces: Trace, corpus: list[str] | None = None) -> MatchingVerdict:
    gold = GoldSpace()
    for case_trace in traces:
        gold.add(case_trace.case)
    tally = MatchingTally(gold)
    for case_trace in traces:
        tally.add(case_trace)
    if corpus is None:
        return tally.verdict(None)
    return tally.verdict(lambda: corpus)


def page(number: int) -> str:
    return f"{LONG} This is written on page {number} of the handbook."


def page_retrieved_as(number: int, id: str) -> Trace:
    """A case whose right chunk was retrieved, under an id of the RAG's own."""
    retrieval = retrieved(id, texts=[page(number)])
    return trace(gold=[str(number)], gold_texts=[page(number)], retrieval=retrieval)


OTHER_WORDS = "What the page says, said by somebody in quite different words."
HARBOUR = "Something else that the handbook says about the harbour and its cranes."


def test_an_id_that_meets_by_chance_decides_nothing() -> None:
    cases = [page_retrieved_as(number, f"own-{number}") for number in range(60)]
    cases[7] = page_retrieved_as(7, "5")

    decided = verdict(*cases)

    assert decided.matching is Matching.TEXT
    (note,) = decided.notes
    assert "(1 of 60 retrieved ids" in note


def test_where_both_sides_number_their_chunks_but_differently_texts_decide() -> None:
    # 7 and 60 have no divisor in common: each number from 0 to 59 is given once.
    cases = [page_retrieved_as(number, str(number * 7 % 60)) for number in range(60)]

    decided = verdict(*cases)

    assert decided.matching is Matching.TEXT
    (note,) = decided.notes
    assert "ids of the two sides do not mean the same, though 60 of 60" in note


def test_where_each_case_retrieves_everything_its_ids_find_no_more_than_its_texts() -> None:
    cases: list[Trace] = []
    for number in range(3):
        retrieval = retrieved("1", "2", "0", texts=[page(0), page(1), page(2)])
        case = trace(gold=[str(number)], gold_texts=[page(number)], retrieval=retrieval)
        cases.append(case)

    decided = verdict(*cases)

    assert decided.matching is Matching.TEXT
    (note,) = decided.notes
    assert "of 3 chunks whose id is a relevant one, 0 have its text" in note


def test_ids_that_the_texts_contradict_decide_nothing() -> None:
    """One of four chunks with a gold id has its text; texts are found in one case of two."""
    half_right = trace(
        gold=["0", "1"],
        gold_texts=[page(0), page(1)],
        retrieval=retrieved("0", "1", texts=[page(0), OTHER_WORDS]),
    )
    wrong = trace(
        gold=["2", "3"],
        gold_texts=[page(2), page(3)],
        retrieval=retrieved("2", "3", texts=[OTHER_WORDS, OTHER_WORDS]),
    )

    decided = verdict(half_right, wrong)

    assert decided.matching is Matching.TEXT
    (note,) = decided.notes
    assert "of 4 chunks whose id is a relevant one, 1 have its text" in note


def cases_with_gold_ids(*, same_text: int, other_words: int) -> list[Trace]:
    """Cases whose gold ids were retrieved; the text of some is that of the gold."""
    cases = [page_retrieved_as(number, str(number)) for number in range(same_text)]
    for number in range(same_text, same_text + other_words):
        retrieval = retrieved(str(number), texts=[f"{LONG} {number}"])
        case = trace(gold=[str(number)], gold_texts=[OTHER_WORDS], retrieval=retrieval)
        cases.append(case)
    return cases


@pytest.mark.parametrize(
    ("same_text", "other_words", "note"),
    [(0, 4, "Only 0 of 4 chunks"), (2, 3, "Only 2 of 5 chunks")],
)
def test_reference_contexts_in_other_words_contradict_no_id_and_that_they_differ_is_said(
    same_text: int, other_words: int, note: str
) -> None:
    cases = cases_with_gold_ids(same_text=same_text, other_words=other_words)

    decided = verdict(*cases)

    assert decided.matching is Matching.DOCUMENT_ID
    assert len(decided.notes) == 1
    assert note in decided.notes[0]


def test_reference_contexts_of_which_most_agree_are_not_noted() -> None:
    cases = cases_with_gold_ids(same_text=3, other_words=2)

    assert verdict(*cases) == MatchingVerdict(Matching.DOCUMENT_ID)


@pytest.mark.parametrize(
    ("text", "gold_texts"),
    [(LONG, [HARBOUR, LONG]), (HARBOUR, [f"{HARBOUR} {LONG}"])],
    ids=["one of two", "a part of one"],
)
def test_a_chunk_agrees_with_any_of_the_reference_contexts_or_with_a_part_of_one(
    text: str, gold_texts: list[str]
) -> None:
    cases: list[Trace] = []
    for id in ("a", "b", "c"):
        retrieval = retrieved(id, texts=[text])
        cases.append(trace(gold=[id], gold_texts=gold_texts, retrieval=retrieval))

    assert verdict(*cases) == MatchingVerdict(Matching.DOCUMENT_ID)


def test_an_id_wins_where_its_metadata_names_something_else() -> None:
    retrieval = retrieved("u-1", metadata=[{"source": "all.pdf"}])

    decided = verdict(trace(gold=["u-1"], retrieval=retrieval))

    assert decided == MatchingVerdict(Matching.ID)


def test_ids_of_no_case_are_not_comparable() -> None:
    decided = verdict(trace(gold=["a"], retrieval=retrieved("b")))

    assert decided.matching is Matching.NOT_COMPARABLE
    (note,) = decided.notes
    assert "none of 1" in note


def test_ids_of_another_case_show_that_ids_are_comparable() -> None:
    decided = verdict(
        trace(gold=["a"], retrieval=retrieved("b")),
        trace(gold=["b"], retrieval=retrieved("z")),
    )

    assert decided == MatchingVerdict(Matching.DOCUMENT_ID)


def test_a_rag_without_ids_is_compared_by_texts() -> None:
    retrieval = retrieved("x", with_ids=False)

    decided = verdict(trace(gold=["a"], gold_texts=[LONG], retrieval=retrieval))

    assert decided.matching is Matching.TEXT
    (note,) = decided.notes
    assert "by their text: the RAG gives neither ids nor documents." in note


def test_a_dataset_without_ids_is_compared_by_texts() -> None:
    decided = verdict(trace(gold_texts=[LONG], retrieval=retrieved("x")))

    assert decided.matching is Matching.TEXT
    (note,) = decided.notes
    assert "by their text: the dataset names no ids of what is relevant." in note


def test_where_one_side_has_only_texts_and_the_other_only_ids_nothing_is_noted() -> None:
    decided = verdict(trace(gold=["a"], retrieval=retrieved("x", with_ids=False)))

    assert decided == MatchingVerdict(Matching.DOCUMENT_ID)


def test_chunks_that_were_recognised_by_their_document_are_counted() -> None:
    decided = verdict(
        trace(gold=["a"], retrieval=retrieved("a")),
        trace(gold=["b"], retrieval=retrieved("b#1", "b#2", "z")),
    )

    assert decided.matching is Matching.DOCUMENT_ID
    (note,) = decided.notes
    expected = "2 of 3 relevant chunks were recognised by the document that they were cut from"
    assert expected in note


# --- the corpus


def cases_with_foreign_ids() -> list[Trace]:
    """Three cases: the gold's ids are 0, 1 and 2; the RAG's are u-0, u-1 and u-2."""
    cases: list[Trace] = []
    for number in range(3):
        retrieval = retrieved(f"u-{number}", texts=[page(number)])
        cases.append(trace(gold=[str(number)], retrieval=retrieval))
    return cases


def test_foreign_ids_are_shown_beside_those_of_the_gold() -> None:
    (note,) = verdict(*cases_with_foreign_ids()).notes

    assert "none of 3 retrieved ids (such as 'u-0') is one of the gold's (such as '0')" in note


def test_ids_of_one_corpus_are_comparable_and_nothing_was_found() -> None:
    decided = verdict(*cases_with_foreign_ids(), corpus=["u-1", "0"])

    assert decided.matching is Matching.DOCUMENT_ID


@pytest.mark.parametrize("corpus", [["u-1"], ["0"]])
def test_a_corpus_with_ids_of_one_side_alone_makes_none_comparable(corpus: list[str]) -> None:
    decided = verdict(*cases_with_foreign_ids(), corpus=corpus)

    assert decided.matching is Matching.NOT_COMPARABLE


# --- texts that are too short


@pytest.mark.parametrize(
    ("short_texts", "matching"), [([], Matching.TEXT), (["yes"], Matching.DOCUMENT_ID)]
)
def test_short_texts_that_may_turn_up_anywhere_decide_nothing(
    short_texts: list[str], matching: Matching
) -> None:
    """Beside a long text, "yes" makes a case one whose texts say nothing of its ids."""
    cases: list[Trace] = []
    for number, id in enumerate(["own-0", "own-1", "own-2", "0"]):
        retrieval = retrieved(id, texts=[page(number)])
        gold_texts = [page(number), *short_texts]
        cases.append(trace(gold=[str(number)], gold_texts=gold_texts, retrieval=retrieval))

    assert verdict(*cases).matching is matching


# --- ids that are written differently

COMPARABLE = trace(gold=["there"], retrieval=retrieved("there"))
"""A case whose id is found: it shows that ids of the two sides are comparable."""

WRITINGS = [
    ("doc-1", "DOC-1"),
    ("https://x.org/a", "https://x.org/a/"),
    ("annual report.pdf", "annual%20report.pdf"),
    ("guide", "guide.md"),
    ("./docs/a.txt", "docs/a"),
    ("7", "007"),
    ("caf\u00e9", "cafe\u0301"),
    ("doc-1", "Doc-1#4"),
    (" a", "a"),
]
"""An id of the gold and how the RAG writes it."""


@pytest.mark.parametrize(("gold_id", "rag_id"), WRITINGS)
def test_that_only_the_writing_of_an_id_differs_is_said(gold_id: str, rag_id: str) -> None:
    case = trace(gold=[gold_id], retrieval=retrieved("other", rag_id))

    decided = verdict(COMPARABLE, case)

    assert decided.matching is Matching.DOCUMENT_ID
    (note,) = decided.notes
    assert note.startswith("1 retrieved chunk does not count as relevant though only the writing")
    assert f"for the gold's '{gold_id}'" in note


@pytest.mark.parametrize(("gold_id", "rag_id"), WRITINGS)
def test_an_id_in_another_writing_makes_no_ids_comparable(gold_id: str, rag_id: str) -> None:
    decided = verdict(trace(gold=[gold_id], retrieval=retrieved(rag_id)))

    assert decided.matching is Matching.NOT_COMPARABLE
    assert len(decided.notes) == 2


@pytest.mark.parametrize(
    ("gold_id", "rag_id", "forms"),
    [
        ("caf\u00e9", "cafe\u0301", "in Unicode's form NFD, those of the gold in NFC"),
        ("cafe\u0301", "caf\u00e9", "in Unicode's form NFC, those of the gold in NFD"),
    ],
)
def test_ids_that_look_the_same_are_named_by_their_form(
    gold_id: str, rag_id: str, forms: str
) -> None:
    case = trace(gold=[gold_id], retrieval=retrieved("other", rag_id))

    (note,) = verdict(COMPARABLE, case).notes

    assert forms in note


@pytest.mark.parametrize(
    ("gold_id", "rag_id"), [("doc-1", "doc-10"), ("a.v2", "a.v3"), ("1", "10"), ("a/b", "b")]
)
def test_ids_that_mean_something_else_are_no_other_writing(gold_id: str, rag_id: str) -> None:
    case = trace(gold=[gold_id], retrieval=retrieved(rag_id))

    assert verdict(COMPARABLE, case).notes == ()


def test_another_writing_of_what_another_case_wants_is_not_noted() -> None:
    wants_x = trace(gold=["X"], retrieval=retrieved("z"))
    retrieves_x = trace(gold=["y"], retrieval=retrieved("x"))

    assert verdict(COMPARABLE, wants_x, retrieves_x).notes == ()


def test_another_writing_of_what_is_judged_as_not_relevant_is_not_noted() -> None:
    case = trace(grades={"A": 0, "b": 1}, retrieval=retrieved("a"))

    assert verdict(COMPARABLE, case).notes == ()


# --- nothing was retrieved


@pytest.mark.parametrize(
    "retrieval",
    [failed("retrieve"), SKIPPED, retrieved()],
    ids=["retrieval failed", "retrieval was skipped", "retrieval found nothing"],
)
def test_where_nothing_was_retrieved_nothing_is_said(retrieval: Any) -> None:
    decided = verdict(trace(gold=["a"], retrieval=retrieval))

    assert decided == MatchingVerdict(Matching.DOCUMENT_ID)


def test_an_empty_retrieval_finds_nothing() -> None:
    assert value("recall@5", trace(gold=["a"], retrieval=retrieved())) == 0.0
