"""How far proof, numbers and citations tell true from false, on claims that people labelled.

No model is asked: a simulated judge takes its verdicts from people's labels and its quotes from the
sentences that they marked (WiCE), or from the sentence that shares most (ExpertQA, MTRAG). It says
what the checks cost a judge that is right, and what they stop of one that is not.

    python benchmarks/judge_truth.py DATA     # a folder with the published files
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ragbench.core.case import Case as Asked
from ragbench.core.metric import Skip
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.metrics.citations import citation_attribution, cited, numbers_supported
from ragbench.metrics.grounds import Passage, around, lacks, sentences_of, shared
from ragbench.metrics.support import answer_sentences

Rows = list[dict[str, Any]]
Case = tuple[str, str, list[Passage]]
"""A sentence, the question, and the passages that a judge quotes for it."""
_NUMBER = re.compile(r"(?<![\w.,-])\d{1,4}(?![\w,.-]*\d)")
_NAME = re.compile(r"(?<=[a-z] )[A-Z][a-z]{3,}")
_VERB = re.compile(r"\b(is|was|were|are|has|had|will)\b")


def rows_of(path: Path) -> Rows:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def cut(text: str, start: int, end: int) -> Passage:
    return Passage(text[start:end], around(text, start, end), text)


def told(name: str, cases: Iterable[Case]) -> None:
    """Prints how many are proved, and before: of a quote only its existence was looked at."""
    found = [lacks(*one[:2], one[2], whole=True) if one[2] else "no quote" for one in cases]
    proved = sum(one is None for one in found)
    why = Counter(
        "number or name" if (one or "").startswith("no quote has") else one for one in found
    )
    why.pop(None, None)
    shown = ", ".join(f"{count} {what}" for what, count in why.most_common(4))
    print(f"{name:44} {len(found):5} proved {proved / len(found):6.1%} (before 100%): {shown}")


# --- WiCE: the sentences that people marked


def wice(claims: Rows, draw: random.Random) -> None:
    right = [one for one in claims if one["label"] == "supported"]
    cases = [(one["claim"], "", marked(one, one["supporting_sentences"][0])) for one in right]
    told("WiCE, marked sentences", cases)
    told("WiCE, a sentence of another article", foreign(claims, draw))
    told("WiCE, another sentence of the article", unmarked(claims, draw))
    told("WiCE, any three words of the article", three_words(claims, draw))
    told("WiCE, marked, a number replaced", replaced(cases, _NUMBER, draw, same_length=True))
    told("WiCE, marked, a name replaced", replaced(cases, _NAME, draw))
    negated = ((_VERB.sub(r"\1 not", text, count=1), "", got) for text, _, got in cases)
    told("WiCE, marked, denied", [one for one in negated if " not" in one[0]])


def careless(claims: Rows) -> None:
    """A judge that calls everything supported, and quotes the sentences that share most."""
    said: Counter[tuple[str, bool]] = Counter()
    for one in claims:
        quotes = best(one["claim"], [" ".join(one["evidence"])])
        said[one["label"], lacks(one["claim"], "", quotes, whole=True) is None] += 1
    right, all_right = said["supported", True], said["supported", True] + said["supported", False]
    kept = sum(count for (_, is_proved), count in said.items() if is_proved)
    print(
        f"WiCE, always supported: agreement {all_right / len(claims):.1%} before, "
        f"{right / kept:.1%} of the {kept} that are proved; unproved {1 - kept / len(claims):.1%}"
    )


def marked(one: dict[str, Any], places: Iterable[int]) -> list[Passage]:
    text, starts = " ".join(one["evidence"]), [0]
    for sentence in one["evidence"]:
        starts.append(starts[-1] + len(sentence) + 1)
    return [cut(text, starts[at], starts[at + 1] - 1) for at in places]


def foreign(claims: Rows, draw: random.Random) -> Iterator[Case]:
    for one in claims:
        other = draw.choice([each for each in claims if each["evidence"] != one["evidence"]])
        long = [at for at, text in enumerate(other["evidence"]) if len(text.split()) > 5] or [0]
        yield one["claim"], "", marked(other, [draw.choice(long)])


def unmarked(claims: Rows, draw: random.Random) -> Iterator[Case]:
    for one in claims:
        known = {at for group in one["supporting_sentences"] for at in group}
        texts = enumerate(one["evidence"])
        rest = [at for at, text in texts if at not in known and len(text.split()) > 5]
        if rest:
            yield one["claim"], "", marked(one, [draw.choice(rest)])


def three_words(claims: Rows, draw: random.Random) -> Iterator[Case]:
    for one in claims:
        text = " ".join(one["evidence"])
        words = list(re.finditer(r"\S+", text))
        at = draw.randrange(len(words) - 2)
        yield one["claim"], "", [cut(text, words[at].start(), words[at + 2].end())]


def replaced(
    cases: list[Case], form: re.Pattern[str], draw: random.Random, *, same_length: bool = False
) -> Iterator[Case]:
    """One of a claim's numbers or names becomes another: numbers of the same article."""
    every = [found for text, _, _ in cases for found in form.findall(text)]
    for text, _, got in cases:
        if not (places := list(form.finditer(text))):
            continue
        place, whole = draw.choice(places), got[0].text
        pool = form.findall(whole) if same_length else [w for w in every if w not in whole]
        others = [one for one in pool if one != place[0] and len(one) == len(place[0])]
        other = draw.choice(others or [one for one in every if one not in whole])
        yield f"{text[: place.start()]}{other}{text[place.end() :]}", "", got


# --- ExpertQA and MTRAG: the sentence that shares most


def best(sentence: str, texts: Iterable[str]) -> list[Passage]:
    places = [(text, span) for text in texts for span in sentences_of(text)]
    found = max(places, key=lambda p: shared(sentence, p[0][p[1].start : p[1].end]), default=None)
    return [] if found is None else [cut(found[0], *found[1])]


def expertqa(claims: Rows, draw: random.Random) -> None:
    full = [one for one in claims if any(len(text.split()) >= 40 for text in one["evidence"] or ())]
    for label in ("Complete", "Partial", "Incomplete"):
        some = [one for one in full if one["support"] == label]
        some = draw.sample(some, min(100, len(some)))
        cases = [
            (one["claim"], one["question"], best(one["claim"], one["evidence"])) for one in some
        ]
        told(f"ExpertQA {label}, the nearest sentence", cases)
    cited = [(one["support"], attribution(one)) for one in full]
    for label in ("Complete", "Partial", "Incomplete"):
        shares = [value for each, value in cited if each == label and value is not None]
        mean = sum(shares) / len(shares)
        print(f"citation_attribution, ExpertQA {label}: {mean:.3f} of {len(shares)}")


def attribution(one: dict[str, Any]) -> float | None:
    long = [text for text in one["evidence"] if len(text.split()) >= 40]
    value = attributed(one["claim"], long)
    return None if isinstance(value, Skip) else value


def attributed(text: str, chunks: list[str]) -> float | Skip:
    found = cited(GenerationResult(text), RetrievalResult(chunks))
    return found if isinstance(found, Skip) else citation_attribution(found, chunks)


def swapped(claims: Rows, draw: random.Random) -> None:
    """A supported claim, its article and four others: cited rightly, and wrongly."""
    right = wrong = count = 0
    for one in (each for each in claims if each["label"] == "supported"):
        others = draw.sample([each for each in claims if each["evidence"] != one["evidence"]], 4)
        chunks = [" ".join(each["evidence"])[:4000] for each in others]
        chunks.insert(
            0, " ".join(passage.quote for passage in marked(one, one["supporting_sentences"][0]))
        )
        said = [f"{one['claim'].rstrip(' .')} [{at}]." for at in (1, draw.randrange(2, 6))]
        good, bad = (attributed(text, chunks) for text in said)
        count, right, wrong = count + 1, right + (good == 1.0), wrong + (bad == 0.0)
    print(
        f"citation_attribution, WiCE: {right} of {count} right ones pass, {wrong} wrong ones do not"
    )


def numbers(claims: Rows) -> None:
    found: Counter[tuple[str, str]] = Counter()
    for one in claims:
        asked, evidence = Asked(id="claim", query=""), [" ".join(one["evidence"])]
        value = numbers_supported(asked, one["claim"], evidence)
        known = "none" if isinstance(value, Skip) else "all there" if value == 1 else "absent"
        found[known, one["label"]] += 1
    for known in ("absent", "all there", "none"):
        labels = {label: count for (each, label), count in sorted(found.items()) if each == known}
        print(f"numbers_supported, WiCE, {known}: {labels}")


def mtrag(path: Path) -> None:
    """Sentences of answers by the people's mean faithfulness, with the nearest sentence."""
    data = json.loads(path.read_text("utf-8"))
    texts = {one["document_id"]: one["text"] for one in data["documents"]}
    tasks = {one["task_id"]: one for one in data["tasks"]}
    groups: dict[str, list[Case]] = {"below 3": [], "3 to 3.9": [], "4": []}
    for one in data["evaluations"]:
        rated = one["annotations"].get("faithfulness") or {}
        values = [float(each["value"]) for each in rated.values()]
        task = tasks[one["task_id"]]
        shown = [texts[each["document_id"]] for each in task["contexts"]]
        if not values or not shown:
            continue
        mean = sum(values) / len(values)
        group = groups["4" if mean == 4 else "below 3" if mean < 3 else "3 to 3.9"]
        query = task["input"][-1]["text"]
        group += [(s, query, best(s, shown)) for s in answer_sentences(one["model_response"])]
    for name, cases in groups.items():
        told(f"MTRAG, faithfulness {name}", cases[:400])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path)
    data = parser.parse_args().data
    draw = random.Random(0)
    claims = rows_of(data / "wice_claim_dev.jsonl")
    wice(claims, draw)
    careless(claims)
    numbers(claims)
    swapped(claims, draw)
    expertqa(rows_of(data / "expertqa_claims_rand_test.jsonl"), draw)
    mtrag(data / "mtrag_human_eval.json")


if __name__ == "__main__":
    main()
