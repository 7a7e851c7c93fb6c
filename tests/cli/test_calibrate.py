"""``ragbench calibrate``: labels to a calibration that ``validate`` uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.runs import Done, Ragbench, lines

WITH_THE_NUMBER = "The {0} of the north has {1} rooms."
WITHOUT_IT = ("The help desk is open from 8 to 17.", "Nobody counts the rooms of the old {0}.")


def query_with_chunks(number: int, *, answer_present: bool) -> dict[str, Any]:
    """A labelled query, whose answer is in one of its chunks or in none."""
    thing = f"tower {number}"
    texts = [text.format(thing) for text in WITHOUT_IT]
    if answer_present:
        # The chunk with the answer has each place in turn.
        texts.insert(number % 3, WITH_THE_NUMBER.format(thing, number + 2))
    chunks: list[dict[str, Any]] = []
    for position, text in enumerate(texts):
        is_relevant = "has" in text
        chunks.append({"id": f"c{position}", "text": text, "relevant": is_relevant})
    return {
        "query": f"How many rooms does the {thing} of the north have?",
        "answer_present": answer_present,
        "chunks": chunks,
    }


def labelled(count: int) -> list[dict[str, Any]]:
    """Queries of which every second one has its answer in the chunks, the first one too."""
    records = []
    for number in range(count):
        is_even = number % 2 == 0
        records.append(query_with_chunks(number, answer_present=is_even))
    return records


def calibrate(ragbench: Ragbench, labels: str, *options: str) -> Done:
    return ragbench("calibrate", labels, "--workers", "1", *options)


def test_a_calibration_shows_how_good_it_is(ragbench: Ragbench) -> None:
    labels = lines("labels.jsonl", labelled(60))

    done = calibrate(ragbench, labels, "-o", "mine.json").ok()

    printed = done.out.splitlines()
    assert printed[0] == "lexical on 60 labelled queries, 30 with the answer"
    words_of_lines = [line.split() for line in printed]
    assert ["before", "after,"] in [words[:2] for words in words_of_lines]
    for title in ("answer present", "relevant chunks"):
        row = printed.index(title)
        figures = words_of_lines[row + 1 : row + 4]
        assert [words[0] for words in figures] == ["precision", "recall", "calibration"]


def test_queries_without_a_label_and_malformed_ones_are_skipped_and_counted(
    ragbench: Ragbench,
) -> None:
    labels = lines("labels.jsonl", [*labelled(60), {"query": "no label", "chunks": []}])
    with Path(labels).open("a", encoding="utf-8") as file:
        file.write("{oops")

    done = calibrate(ragbench, labels, "-o", "mine.json").ok()

    printed = done.out.splitlines()
    assert "1 without a label: skipped" in printed
    assert "1 malformed: skipped" in printed
    done.told("malformed: labels.jsonl:62: ")


def test_validate_uses_a_calibration(ragbench: Ragbench) -> None:
    labels = lines("labels.jsonl", labelled(60))
    calibrate(ragbench, labels, "-o", "mine.json").ok()
    without_answer = query_with_chunks(1, answer_present=False)
    dump = lines("dump.jsonl", [{"query_id": "q", **without_answer}])
    command = ("validate", dump, "--json", "-q")

    plain = ragbench(*command).json
    calibrated = ragbench(*command, "--calibration", "mine.json").json

    assert calibrated["answer_probability"] != plain["answer_probability"]
    assert calibrated["answer_present"] is False


def test_a_bound_on_false_yes_is_cross_validated(ragbench: Ragbench) -> None:
    labels = lines("labels.jsonl", labelled(60))

    done = calibrate(ragbench, labels, "--max-false-yes", "0.3")

    assert "cross-validated (--max-false-yes):" in done.out


def test_the_same_labels_give_the_same_bytes_with_any_number_of_workers(
    ragbench: Ragbench,
) -> None:
    labels = lines("labels.jsonl", labelled(36))

    ragbench("calibrate", labels, "-o", "a.json", "--workers", "1", "-q").ok()
    ragbench("calibrate", labels, "-o", "b.json", "--workers", "2", "-q").ok()

    assert Path("a.json").read_bytes() == Path("b.json").read_bytes()


def test_the_result_in_json_counts_the_labels(ragbench: Ragbench) -> None:
    labels = lines("labels.jsonl", labelled(36))

    done = calibrate(ragbench, labels, "-o", "mine.json", "--json", "-q").ok()

    assert done.json["labelled"] == 36
    assert done.json["unlabelled"] == 0
    assert done.json["failed"] == 0
    assert done.json["report"]["answer_after"]["count"] == 36
    assert done.err == ""


def test_what_is_not_shown_to_be_better_is_not_written(ragbench: Ragbench) -> None:
    """`lexical` finds the answers .8 to .9 probable, and 34 of 40 are there: it fits as it is."""
    records = [query_with_chunks(2 * number, answer_present=True) for number in range(40)]
    for record in records[::7]:
        record["answer_present"] = False
    labels = lines("labels.jsonl", records)

    done = ragbench("calibrate", labels, "-o", "mine.json", "--json").ends(1)

    assert not Path("mine.json").exists()
    done.told("mine.json was not written")
    assert done.json["report"]["is_better"] is False


# --- labels of `ragbench label`


def label_line(record: dict[str, Any], value: float | None, by: str = "ann") -> dict[str, Any]:
    """A line as ``ragbench label RUN -m answer_present`` writes it."""
    return {
        "question": record["query"],
        "answer": "",
        "contexts": [chunk["text"] for chunk in record["chunks"]],
        "metric": "answer_present",
        "value": value,
        "by": by,
    }


def test_labels_of_a_run_give_the_calibration_of_a_dump_with_the_same_labels(
    ragbench: Ragbench,
) -> None:
    records = labelled(60)
    for record in records:
        for chunk in record["chunks"]:
            # A label of `ragbench label` says nothing of single chunks.
            del chunk["relevant"]
    label_lines = [label_line(record, float(record["answer_present"])) for record in records]
    dump = lines("dump.jsonl", records)
    labels = lines("labels.jsonl", label_lines)

    calibrate(ragbench, dump, "-o", "dump.json", "-q").ok()
    calibrate(ragbench, labels, "-o", "labels.json", "-q").ok()

    assert Path("labels.json").read_bytes() == Path("dump.json").read_bytes()


def test_labels_of_answers_and_undecided_ones_do_not_count(ragbench: Ragbench) -> None:
    *clear, half_clear, unclear = labelled(40)
    decided = [label_line(record, float(record["answer_present"])) for record in clear]
    agreed = label_line(clear[0], 1.0, by="bob")
    partly = label_line(half_clear, 0.5)
    disputed = [
        label_line(unclear, 0.0),
        label_line(unclear, 1.0, by="bob"),
    ]
    of_answer = {**label_line(clear[0], 0.0), "answer": "Two.", "metric": "support"}
    labels = lines("labels.jsonl", [*decided, agreed, partly, *disputed, of_answer])

    done = calibrate(ragbench, labels, "--json").ok()

    assert done.json["labelled"] == 38
    assert done.json["unlabelled"] == 2
    done.told("1 label by other metrics left out")
