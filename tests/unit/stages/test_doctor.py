"""What the verdicts on a dump say of the retriever, on numbers that can be checked by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from ragbench import Chunk
from ragbench.core.validation import RetrievalDump, Verdict
from ragbench.stages.doctor import DoctorTally, earlier_verdicts
from ragbench.stages.validate import validate_query
from ragbench.validators.lexical import LexicalValidator
from tests.cli.runs import lines

QUERY = "How many days of paid leave do employees get?"
LEAVE = "Employees get 27 days of paid leave a year."
DESK = "The help desk is open from 8 to 17."


def judged(number: int, texts: list[str]) -> tuple[RetrievalDump, Verdict]:
    sources = [{"source": "desk" if text == DESK else "handbook"} for text in texts]
    chunks = tuple(
        Chunk(id=f"c{at}", text=text, score=1.0 - 0.1 * at - 0.01 * number, metadata=sources[at])
        for at, text in enumerate(texts)
    )
    dump = RetrievalDump(query_id=f"q{number}", query=QUERY, chunks=chunks)
    return dump, validate_query(LexicalValidator(), dump)


def tally(*pools: list[str], earlier: dict[str, bool] | None = None) -> DoctorTally:
    found = DoctorTally(earlier=earlier)
    for number, texts in enumerate(pools):
        found.add(*judged(number, texts))
    return found


def test_ranks_cut_offs_duplicates_and_sources() -> None:
    others = [f"Room {at} has a window and a door." for at in range(6)]
    found = tally([LEAVE, DESK], [DESK, LEAVE], [*others, LEAVE], [DESK, DESK]).result()
    assert found.answer_ranks == {"1": 1, "2-5": 1, "6-20": 1, "21+": 0, "never": 1}
    # The answers score 1.0, 1 - 0.1 - 0.01 and 1 - 0.6 - 0.02.
    assert [one.keeps for one in found.cutoffs] == [0.9, 0.95, 0.99]
    assert found.cutoffs[0].score == pytest.approx(0.38)
    assert (found.duplicates.count, found.duplicates.total) == (1, 13)
    sources = {one.source: (one.chunks, one.relevant) for one in found.sources}
    assert sources == {"handbook": (9, 3), "desk": (4, 0)}
    assert [(one.query_id, one.reason) for one in found.weakest] == [("q3", "nothing relevant")]
    assert any("below rank 5" in one.text and "rerank" in one.action for one in found.findings)


def test_the_weakest_come_first_and_ten_of_them() -> None:
    found = tally(*[[DESK]] * 12, [LEAVE], []).result()
    assert len(found.weakest) == 10
    assert found.weakest[0].reason == "nothing was retrieved"
    assert [one.query_id for one in found.weakest[:4]] == ["q13", "q0", "q1", "q2"]


def test_an_empty_dump_has_no_findings() -> None:
    found = DoctorTally().result()
    assert (found.findings, found.cutoffs) == ((), ())
    assert (found.duplicates.share, found.compared) == (None, None)


def test_two_dumps_are_compared_query_by_query(tmp_path: Path) -> None:
    said = {f"q{number}": False for number in range(6)} | {"q9": True, "q1000": None}
    rows = ({"query_id": id, "answer_present": present} for id, present in said.items())
    before = earlier_verdicts(Path(lines(tmp_path / "a.jsonl", rows)))
    assert "q1000" not in before
    found = tally(*[[LEAVE]] * 6, earlier=before).result().compared
    assert found is not None
    assert (found.queries, found.won, found.lost) == (6, 6, 0)
    assert found.p_value == pytest.approx(2 * 0.5**6)


def test_one_chunk_a_query_is_no_reason_for_fewer() -> None:
    texts = {one.text for one in tally(*[[LEAVE]] * 20).result().findings}
    assert "every answer stands at rank 1" not in texts
    texts = {one.text for one in tally(*[[LEAVE, DESK]] * 20).result().findings}
    assert "every answer stands at rank 1" in texts


def test_cut_offs_of_distances_are_distances() -> None:
    found = tally([LEAVE, DESK])
    found.distances = True  # scores are then minus distances: 1.0 stands for one of -1
    assert [one.score for one in found.result().cutoffs] == [-1.0, -1.0, -1.0]


def test_scores_that_rise_are_the_first_finding() -> None:
    found = DoctorTally()
    dump, _ = judged(0, [LEAVE, DESK])
    dump = replace(dump, chunks=dump.chunks[::-1])
    found.add(dump, validate_query(LexicalValidator(), dump))
    assert found.result().findings[0].text.startswith("the scores rise")
