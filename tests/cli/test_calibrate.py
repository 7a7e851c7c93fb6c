"""``ragbench calibrate``: labels to a calibration that ``validate`` uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.runs import Ragbench, lines

ANSWER = "The {0} of the north has {1} rooms."
OTHERS = [
    "The help desk is open from 8 to 17.",
    "The {0} of the north is old, and nobody counts its rooms.",
]


def labelled(count: int) -> list[dict[str, Any]]:
    """Queries of which every second one has its answer in the chunks."""
    records: list[dict[str, Any]] = []
    for number in range(count):
        thing, present = f"tower {number}", number % 2 == 0
        texts = [text.format(thing) for text in OTHERS]
        if present:
            texts.insert(number % 3, ANSWER.format(thing, number + 2))
        chunks = [
            {"id": f"c{at}", "text": text, "relevant": "has" in text}
            for at, text in enumerate(texts)
        ]
        query = f"How many rooms does the {thing} of the north have?"
        records.append({"query": query, "answer_present": present, "chunks": chunks})
    return records


def test_a_calibration_is_learned_shown_and_used(ragbench: Ragbench) -> None:
    labels = lines("labels.jsonl", [*labelled(60), {"query": "no label", "chunks": []}])
    with Path(labels).open("a", encoding="utf-8") as file:
        file.write("{oops")
    done = ragbench("calibrate", labels, "-o", "mine.json", "--workers", "1").ok()
    shown = done.out.splitlines()
    assert shown[0] == "lexical on 60 labelled queries, 30 with the answer"
    assert "1 without a label: skipped" in shown
    assert "1 malformed: skipped" in shown
    assert any(line.split()[:2] == ["before", "after,"] for line in shown)
    for name in ("answer present", "relevant chunks"):
        at = shown.index(name)
        figures = [line.split()[0] for line in shown[at + 1 : at + 4]]
        assert figures == ["precision", "recall", "calibration"]
    assert "malformed: labels.jsonl:62: " in done.err
    dump = lines("dump.jsonl", [{"query_id": "q", **labelled(2)[1]}])
    plain = ragbench("validate", dump, "--json", "-q")
    fitted = ragbench("validate", dump, "--json", "-q", "--calibration", "mine.json").ok()
    first, second = plain.json, fitted.json
    assert first["answer_probability"] != second["answer_probability"]
    assert second["answer_present"] is False
    bounded = ragbench("calibrate", labels, "--max-false-yes", "0.3", "--workers", "1").out
    assert "cross-validated (--max-false-yes):" in bounded


def test_the_same_labels_give_the_same_bytes(ragbench: Ragbench) -> None:
    labels = lines("labels.jsonl", labelled(36))
    for name, workers in (("a.json", "1"), ("b.json", "2")):
        done = ragbench("calibrate", labels, "-o", name, "--workers", workers, "--json", "-q").ok()
        value = done.json
        assert (value["labelled"], value["unlabelled"], value["failed"]) == (36, 0, 0)
        assert value["report"]["answer_after"]["count"] == 36
        assert done.err == ""
    assert Path("a.json").read_bytes() == Path("b.json").read_bytes()


def test_what_is_not_shown_to_be_better_is_not_written(ragbench: Ragbench) -> None:
    records = labelled(80)[::2]  # each with its answer, which `lexical` finds .8 to .9 probable
    for record in records[::7]:
        record["answer_present"] = False  # six of forty: the labels fit as it is
    labels = lines("labels.jsonl", records)
    done = ragbench("calibrate", labels, "-o", "mine.json", "--json")
    assert (done.code, Path("mine.json").exists()) == (1, False)
    assert "mine.json was not written" in done.err
    assert done.json["report"]["is_better"] is False


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
            del chunk["relevant"]  # a label of `ragbench label` says nothing of single chunks
    dump = lines("dump.jsonl", records)
    labels = lines(
        "labels.jsonl", [label_line(record, float(record["answer_present"])) for record in records]
    )

    ragbench("calibrate", dump, "-o", "dump.json", "--workers", "1", "-q").ok()
    ragbench("calibrate", labels, "-o", "labels.json", "--workers", "1", "-q").ok()

    assert Path("labels.json").read_bytes() == Path("dump.json").read_bytes()


def test_labels_of_answers_and_undecided_ones_do_not_count(ragbench: Ragbench) -> None:
    records = labelled(40)
    decided = [label_line(record, float(record["answer_present"])) for record in records[:38]]
    agreed = label_line(records[0], 1.0, by="bob")
    partly = label_line(records[38], 0.5)
    disputed = [label_line(records[39], 0.0), label_line(records[39], 1.0, by="bob")]
    of_answer = {**label_line(records[0], 0.0), "answer": "Two.", "metric": "support"}
    labels = lines("labels.jsonl", [*decided, agreed, partly, *disputed, of_answer])

    done = ragbench("calibrate", labels, "--workers", "1", "--json").ok()

    assert done.json["labelled"] == 38
    assert done.json["unlabelled"] == 2
    assert "1 label by other metrics left out" in done.err
