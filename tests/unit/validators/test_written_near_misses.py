"""Near misses that people wrote: each pair's label is true, and no tested passage is learned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.train_validator.reader_sources import TESTED, Example
from benchmarks.train_validator.written_near_misses import written_near_misses

MILL = "the mill ( at tarn ) was n't built in 1901 , but in 1903 by ten men ."
MILL_PLAIN = "the mill (at tarn) wasn't built in 1901, but in 1903 by ten men."
BRIDGE = "The bridge was opened in 1910. It has nine arches."
TESTED_PASSAGE = " ".join(f"word{at}" for at in range(40))


def folders(tmp_path: Path) -> tuple[Path, Path]:
    data, extra = tmp_path / "data", tmp_path / "extra"
    data.mkdir()
    extra.mkdir()
    for name in TESTED:
        row = json.dumps({"text": TESTED_PASSAGE, "title": "T", "pid": name})
        (data / f"{name}.passages.jsonl").write_text(row + "\n", "utf-8")
    return data, extra


def lines(path: Path, *rows: tuple[str, ...]) -> None:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")


def unansq(extra: Path, passage: str = MILL) -> None:
    lines(extra / "unansq-dev-context.txt", (passage, "0", "19"))
    asked = ("a", "when was the mill built ?", "14", "14")
    lines(extra / "unansq-dev-answerable-questions.txt", asked)
    without = ("b", "when was the mill sold ?", "14", "14")
    lines(extra / "unansq-dev-unanswerable-questions.txt", without)


def training_file(extra: Path, passage: str = BRIDGE) -> None:
    asked = ("c", "how many arches does the bridge have ?", "8", "8")
    lines(extra / "unansq-train-answerable-questions.txt", asked)
    without = ("d", "how many arches did the bridge lose ?", "8", "8")
    lines(extra / "unansq-train-unanswerable-questions.txt", without)
    answers = [{"text": "nine", "answer_start": passage.find("nine")}]
    known = {"id": "c", "question": "How many arches does the bridge have?", "answers": answers}
    paragraph = {"context": passage, "qas": [known]}
    whole = {"data": [{"title": "Bridge", "paragraphs": [paragraph]}]}
    (extra / "squad_train_parts.json").write_text(json.dumps(whole), "utf-8")


def test_a_question_and_its_twin_stand_beside_the_passage_with_the_answer_s_place(
    tmp_path: Path,
) -> None:
    data, extra = folders(tmp_path)
    unansq(extra)
    found = written_near_misses(data, extra)
    assert found.without == (Example("when was the mill sold?", MILL_PLAIN, 0.0),)
    (answered,) = found.answered
    assert (answered.query, answered.label) == ("when was the mill built?", 1.0)
    assert answered.text[answered.start : answered.end] == "1903"


def test_twins_are_found_in_the_training_file_by_their_question(tmp_path: Path) -> None:
    data, extra = folders(tmp_path)
    training_file(extra)
    found = written_near_misses(data, extra)
    assert found.without == (Example("how many arches did the bridge lose?", BRIDGE, 0.0),)
    (answered,) = found.answered
    assert answered.text[answered.start : answered.end] == "nine"


def test_the_file_s_own_questions_without_an_answer_count_with_those_of_their_passage(
    tmp_path: Path,
) -> None:
    data, extra = folders(tmp_path)
    asked = {"id": "e", "question": "Who sold the bridge? ", "answers": [], "is_impossible": True}
    place = {"text": "1910", "answer_start": BRIDGE.index("1910")}
    known = {"id": "f", "question": "When was it opened?", "answers": [place]}
    paragraphs = [
        {"context": BRIDGE, "qas": [asked, known]},
        {"context": "A passage of which all is known.", "qas": [{**known, "answers": []}]},
    ]
    whole = {"data": [{"title": "Bridge", "paragraphs": paragraphs}]}
    (extra / "squad_train_parts.json").write_text(json.dumps(whole), "utf-8")
    found = written_near_misses(data, extra)
    assert [one.query for one in found.without] == ["Who sold the bridge?"]
    assert [(one.query, one.text) for one in found.answered] == [("When was it opened?", BRIDGE)]


def test_passages_of_tested_sets_are_left_out(tmp_path: Path) -> None:
    data, extra = folders(tmp_path)
    unansq(extra, passage=f"Once more : {TESTED_PASSAGE}")
    training_file(extra)
    found = written_near_misses(data, extra)
    assert [one.query for one in found.without] == ["how many arches did the bridge lose?"]


def test_a_folder_without_them_gives_none(tmp_path: Path) -> None:
    found = written_near_misses(*folders(tmp_path))
    assert (found.without, found.answered) == ((), ())


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    data, extra = folders(tmp_path)
    unansq(extra)
    lines(extra / "unansq-dev-context.txt", (MILL, "0", "1"), (MILL, "0", "1"))
    with pytest.raises(ValueError, match="zip"):
        written_near_misses(data, extra)
