"""Does the form of a text change what `local` says of it? ``python -m benchmarks.reader_forms``.

The held-out questions of daily work (`train_validator/everyday.py`), each with a text that answers
it and two that do not, as they are and in forms that chunks have: bulleted, numbered, as HTML, as
an FAQ with another question. How many are Yes, and the area under the curve, with marks read as
words and as shipped. Given DATA, also MTRAG's questions with texts in which marks stand, as people
have labelled them, beside three such texts of other conversations.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.reader_near_misses import Pair, _area
from benchmarks.train_validator.everyday import items
from ragbench import Chunk
from ragbench.text.sentences import split_sentences
from ragbench.validators import local
from ragbench.validators.slots import without_marks

SEED, QUESTIONS, OTHERS = 1, 100, 3
Form = Callable[[str, int], str]


def bulleted(text: str, _: int) -> str:
    return "\n".join(f"- {text[slice(*one)]}" for one in split_sentences(text))


FORMS: Mapping[str, Form] = {
    "as it is": lambda text, _: text,
    "- at each sentence": bulleted,
    "1. text": lambda text, at: f"{at % 9 + 1}. {text}",
    "4.2 text": lambda text, at: f"{at % 9 + 1}.{at % 4 + 1} {text}",
    "<p>text</p>": lambda text, _: f"<h2>Help</h2><p>{text}</p>",
    "# Policy": lambda text, _: f"# Policy\n\n{text}",
    "A: text": lambda text, _: f"A: {text}",
    "Note: text": lambda text, _: f"Note: {text}",
    "[10:02] Agent: text": lambda text, _: f"[10:02] Agent: {text}",
    "JSON": lambda text, _: json.dumps({"content": text}),
}


def everyday() -> dict[str, list[Pair]]:
    """By form; FAQs have the question in other words above an answer, else another one."""
    held = [item for together in items(held_out=True) for item in together]
    drawn = random.Random(SEED).sample(held, QUESTIONS)
    found: dict[str, list[Pair]] = {name: [] for name in (*FORMS, "FAQ")}
    for at, item in enumerate(drawn):
        aspect, _, near = item.others
        beside = drawn[(at + 17) % len(drawn)].query
        for text, answers in ((item.answers[0], True), (aspect, False), (near, False)):
            for name, form in FORMS.items():
                found[name].append(Pair(name, item.query, form(text, at), answers))
            above = item.other_query if answers else beside
            found["FAQ"].append(Pair("FAQ", item.query, f"Q: {above}\nA: {text}", answers))
    return found


def mtrag(path: Path) -> list[Pair]:
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    held: dict[str, list[tuple[str, str]]] = {}
    asked: list[tuple[str, str, str, str]] = []
    for row in rows:
        query = [text for who, text in row["history"] if who == "user"][-1]
        talk, place = row["task_id"].partition("<")[0], row["collection"]
        for one in row["contexts"] if len(query.split()) > 3 else ():
            text = one if isinstance(one, str) else one.get("text", "")
            if without_marks(query, text) != text:
                held.setdefault(place, []).append((talk, text))
                if row["answerability"] == ["ANSWERABLE"]:
                    asked.append((talk, place, query, text))
    draw, found = random.Random(SEED), list[Pair]()
    for talk, place, query, text in asked:
        others = [other for of, other in held[place] if of != talk]
        found.append(Pair("mtrag", query, text, answers=True))
        drawn = draw.sample(others, min(OTHERS, len(others)))
        found += [Pair("mtrag", query, other, answers=False) for other in drawn]
    return list(dict.fromkeys(found))


def row(pairs: Sequence[Pair]) -> str:
    """Yes among the answers, Yes among the others, area."""
    judge = local.LocalValidator()
    said = [judge.validate(one.query, [Chunk(id="a", text=one.text)]) for one in pairs]
    answers = np.array([one.answers for one in pairs])
    yes = np.array([one.answer_present for one in said])
    area = _area(np.array([one.answer_probability for one in said]), answers)
    others = ~answers
    return (
        f"{yes[answers].sum()} of {answers.sum()} | {yes[others].sum()} of {others.sum()} | "
        f"{area:.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="?", help="folder with mtragun_reference.jsonl")
    data = parser.parse_args().data
    sets = everyday() | ({} if data is None else {"MTRAG": mtrag(data / "mtragun_reference.jsonl")})
    print(
        "| form | marks are words: answers Yes | others Yes | area | as shipped | others | area |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, pairs in sets.items():
        with patch.object(local, "without_marks", lambda _, text: text):
            before = row(pairs)
        print(f"| {name} | {before} | {row(pairs)} |", flush=True)


if __name__ == "__main__":
    main()
