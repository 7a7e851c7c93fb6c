"""What the verdicts on a dump say of the retriever, on numbers that can be checked by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from ragbench import Chunk
from ragbench.core.validation import RetrievalDoctor, RetrievalDump
from ragbench.io.joined import open_dump
from ragbench.stages.doctor import DoctorTally, earlier_verdicts
from ragbench.stages.validate import validate_query
from ragbench.validators.lexical import LexicalValidator
from tests.cli.runs import lines

QUERY = "How many days of paid leave do employees get?"
LEAVE = "Employees get 27 days of paid leave a year."
DESK = "The help desk is open from 8 to 17."
ROOMS = [f"Room {number} has a window and a door." for number in range(6)]


def retrieval_of(texts: list[str], *, number: int = 0) -> RetrievalDump:
    """A retrieval whose scores fall by .1 with each rank, and by .01 with its number."""
    chunks: list[Chunk] = []
    for position, text in enumerate(texts):
        score = 1.0 - 0.1 * position - 0.01 * number
        source = "desk" if text == DESK else "handbook"
        chunk = Chunk(id=f"c{position}", text=text, score=score, metadata={"source": source})
        chunks.append(chunk)
    return RetrievalDump(query_id=f"q{number}", query=QUERY, chunks=tuple(chunks))


def tally_of(*retrievals: list[str], earlier: dict[str, bool] | None = None) -> DoctorTally:
    """The tally of the queries q0, q1 ..., which retrieved these texts."""
    tally = DoctorTally(earlier=earlier)
    for number, texts in enumerate(retrievals):
        dump = retrieval_of(texts, number=number)
        tally.add(dump, validate_query(LexicalValidator(), dump))
    return tally


def findings_of(doctor: RetrievalDoctor) -> list[str]:
    return [finding.text for finding in doctor.findings]


# --- four queries: the answer at ranks 1, 2 and 7, and nowhere


@pytest.fixture(name="doctor", scope="module")
def doctor_of_four_queries() -> RetrievalDoctor:
    tally = tally_of(
        [LEAVE, DESK],
        [DESK, LEAVE],
        [*ROOMS, LEAVE],
        [DESK, DESK],
    )
    return tally.result()


def test_answers_are_counted_by_rank(doctor: RetrievalDoctor) -> None:
    assert doctor.answer_ranks == {"1": 1, "2-5": 1, "6-20": 1, "21+": 0, "never": 1}


def test_a_cut_off_is_the_score_down_to_which_answers_are_kept(doctor: RetrievalDoctor) -> None:
    # The answers score 1, 1 - .1 - .01 and 1 - .6 - .02; to keep 90% of three, all three.
    assert [cutoff.keeps for cutoff in doctor.cutoffs] == [0.9, 0.95, 0.99]
    assert doctor.cutoffs[0].score == pytest.approx(0.38)


def test_repeated_chunks_are_counted(doctor: RetrievalDoctor) -> None:
    # The last query has a text twice, of 2 + 2 + 7 + 2 chunks.
    assert doctor.duplicates.count == 1
    assert doctor.duplicates.total == 13


def test_repeated_chunks_that_the_reader_left_out_were_retrieved(tmp_path: Path) -> None:
    row = {"query": QUERY, "contexts": [LEAVE, LEAVE, LEAVE]}
    path = lines(tmp_path / "dump.jsonl", [row])
    tally = DoctorTally()

    with open_dump(path) as dump:
        for retrieval in dump:
            tally.add(retrieval, validate_query(LexicalValidator(), retrieval))

    duplicates = tally.result().duplicates
    assert (duplicates.count, duplicates.total) == (2, 3)


def test_chunks_and_relevant_ones_are_counted_by_source(doctor: RetrievalDoctor) -> None:
    sources = {source.source: (source.chunks, source.relevant) for source in doctor.sources}
    assert sources == {"handbook": (9, 3), "desk": (4, 0)}


def test_a_query_whose_answer_is_nowhere_is_weak(doctor: RetrievalDoctor) -> None:
    (weakest,) = doctor.weakest

    assert weakest.query_id == "q3"
    assert weakest.reason == "nothing relevant"


def test_answers_far_down_are_a_reason_to_rerank(doctor: RetrievalDoctor) -> None:
    (far_down,) = [finding for finding in doctor.findings if "below rank 5" in finding.text]

    assert "rerank" in far_down.action


# --- the weakest queries


@pytest.fixture(name="weak", scope="module")
def doctor_of_thirteen_weak_queries() -> RetrievalDoctor:
    """Twelve queries with nothing relevant, one with the answer, and one with nothing at all."""
    irrelevant = [[DESK]] * 12
    tally = tally_of(*irrelevant, [LEAVE], [])
    return tally.result()


def test_the_weakest_queries_come_first(weak: RetrievalDoctor) -> None:
    query_ids = [query.query_id for query in weak.weakest]

    assert query_ids[:4] == ["q13", "q0", "q1", "q2"]
    assert weak.weakest[0].reason == "nothing was retrieved"


def test_ten_of_the_weakest_queries_are_listed(weak: RetrievalDoctor) -> None:
    assert len(weak.weakest) == 10


def test_an_empty_dump_has_no_findings() -> None:
    doctor = DoctorTally().result()

    assert doctor.findings == ()
    assert doctor.cutoffs == ()
    assert doctor.duplicates.share is None
    assert doctor.compared is None


# --- two dumps


def test_verdicts_of_an_earlier_dump_are_read_without_the_undecided(tmp_path: Path) -> None:
    rows = [
        {"query_id": "q0", "answer_present": False},
        {"query_id": "q1", "answer_present": True},
        {"query_id": "q2", "answer_present": None},
    ]

    verdicts = lines(tmp_path / "a.jsonl", rows)

    earlier = earlier_verdicts(Path(verdicts))

    assert earlier == {"q0": False, "q1": True}


def test_two_dumps_are_compared_query_by_query() -> None:
    earlier = {f"q{number}": False for number in range(6)}
    earlier["q9"] = True  # which this dump lacks
    six_with_the_answer = [[LEAVE]] * 6

    compared = tally_of(*six_with_the_answer, earlier=earlier).result().compared

    assert compared is not None
    assert compared.queries == 6
    assert compared.won == 6
    assert compared.lost == 0
    # Six coins that all fall alike.
    assert compared.p_value == pytest.approx(2 * 0.5**6)


# --- findings of scores and ranks


def test_answers_at_rank_1_are_a_reason_for_fewer_chunks() -> None:
    doctor = tally_of(*[[LEAVE, DESK]] * 20).result()

    assert "every answer stands at rank 1" in findings_of(doctor)


def test_where_one_chunk_is_retrieved_rank_1_is_no_reason_for_fewer() -> None:
    doctor = tally_of(*[[LEAVE]] * 20).result()

    assert "every answer stands at rank 1" not in findings_of(doctor)


def test_cut_offs_of_distances_are_distances() -> None:
    tally = tally_of([LEAVE, DESK])
    tally.distances = True  # a score of 1.0 is then a distance of -1.0

    cutoffs = tally.result().cutoffs

    assert [cutoff.score for cutoff in cutoffs] == [-1.0, -1.0, -1.0]


def test_scores_that_rise_are_the_first_finding() -> None:
    falling = retrieval_of([LEAVE, DESK])
    rising = replace(falling, chunks=falling.chunks[::-1])
    tally = DoctorTally()

    tally.add(rising, validate_query(LexicalValidator(), rising))

    assert findings_of(tally.result())[0].startswith("the scores rise")
