"""Questions of yes or no, of medicine and of talks, from public sets, as pairs for the reader.

All are read from git clones in EXTRA/repositories, named OWNER+NAME, at the commit of their row:
BoolQ (development and test parts: every passage there speaks of what is asked), MedQuAD (its own
kinds of question, worded anew), OR-ShARC and PubMedQA; and from DATA: MTRAG-UN
(``mtragun_reference.jsonl``; what ``mtrag_human_eval.json`` has and MTRAG's judges found to answer
is left out), SelQA's development part (``selqa_ass_dev.jsonl``) and squad2_dev_half. Draws are
seeded, so that the same files give the same pairs.
"""

from __future__ import annotations

import json
import random
import re
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.train_validator.reader_sources import TESTED, all_sources
from benchmarks.train_validator.same_page_documents import Repository, files_of
from benchmarks.validation_pools import HELD_OUT, rows
from ragbench import Chunk
from ragbench.search.pipeline.baseline import Bm25Index
from ragbench.text.sentences import Span, split_sentences
from ragbench.validators.slots import is_yes_or_no

BOOLQ = Repository("vinayak93+BoolQ", "d31ff65cffabea4c24f8e15b30ba8e95d7b44a4b", "CC BY-SA 3.0")
"""A copy of BoolQ's files (Clark et al. 2019), whose licence it is."""
MEDQUAD = Repository("abachaa+MedQuAD", "577bd37b96c02d1833b2c9eed2de9f96964e96cb", "CC BY 4.0")
MTRAG = Repository("IBM+mt-rag-benchmark", "cc5b1d481b391181b89f7ced860308482e785463", "Apache-2.0")
SHARC = Repository(
    "Yifan-Gao+open_retrieval_conversational_machine_reading",
    "309c4ea3a7cc4c7a815d7f46292d91fc9a0de581",
    "CC BY-SA 3.0",
)
PUBMEDQA = Repository("pubmedqa+pubmedqa", "1cbae8e92f72f20c8d3747cbb3bf5bc53554d997", "MIT")
DOMAINS = ("cloud", "fiqa", "govt")
"""Of MTRAG; the fourth one is CLAPNQ's, which validators are measured on."""
SEED, SEED_OF_LIMITS = 7, 4
MOST = {
    ("squad", 0.0): 2900, ("squad", 1.0): 1500, ("boolq", 1.0): 2600, ("boolq", 0.0): 2600,
    ("medquad", 1.0): 1500, ("medquad", 0.0): 1500, ("selqa", 1.0): 770, ("selqa", 0.0): 770,
}  # fmt: skip
"""Pairs of each kind that are learned from."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A question and a text, and whether it answers."""

    source: str
    query: str
    text: str
    label: float
    weight: float = 1.0
    answer: Span | None = None
    """Where people marked it, in the text."""


class Tested:
    """Tells texts that share runs of eight words with what validators are measured on."""

    def __init__(self, texts: Iterable[str], *, shared: int) -> None:
        self._runs = {run for text in texts for run in _runs(text)}
        self._shared = shared

    def holds(self, text: str) -> bool:
        return len(_runs(text) & self._runs) >= self._shared


def tested_passages(data: Path) -> Iterator[str]:
    """Of the sets that are measured on."""
    for name in (*TESTED, "covidqa"):
        for row in rows(data / f"{name}.passages.jsonl"):
            yield row["text"]


def _runs(text: str) -> set[str]:
    words = re.findall(r"\w+", text.lower())
    return {" ".join(words[at : at + 8]) for at in range(len(words) - 7)}


def asked_elsewhere(data: Path, repositories: Path) -> list[Pair]:
    """All pairs, in the order of the sets; `limited` takes those that are learned from."""
    draw = random.Random(SEED)
    tested = Tested(tested_passages(data), shared=3)
    found = [
        *_boolq(data, repositories, tested, draw),
        *_medquad(repositories, draw),
        *_Talks(data, repositories, tested).pairs(draw),
        *_selqa(data, tested, draw),
        *_squad(data, draw),
    ]
    return [one for one in found if one.text.strip()]


def limited(pairs: Sequence[Pair]) -> list[Pair]:
    """Not more of a kind than `MOST`; answers of MedQuAD without a question at their beginning."""
    shuffled = list(pairs)
    random.Random(SEED_OF_LIMITS).shuffle(shuffled)
    count: dict[tuple[str, float], int] = defaultdict(int)
    found: list[Pair] = []
    for one in shuffled:
        kind = one.source, one.label
        count[kind] += 1
        if count[kind] > MOST.get(kind, len(shuffled)):
            continue
        if one.source == "medquad":
            one = replace(one, text=re.sub(r"^[^.?!]{5,120}\?\s*", "", one.text))
            if len(one.text) < 25:
                continue
        found.append(one)
    return found


def _first_sentences(text: str, count: int) -> str:
    found = split_sentences(text)
    return text[found[0].start : found[min(count, len(found)) - 1].end] if found else text


def tested_titles(data: Path) -> frozenset[str]:
    titles = {row["title"] for name in TESTED for row in rows(data / f"{name}.passages.jsonl")}
    return frozenset(lowered(title) for title in (*titles, *HELD_OUT))


def lowered(title: str) -> str:
    return title.replace("_", " ").lower()


# --- BoolQ

BOOLQ_QUESTIONS, BOOLQ_TITLES_HELD = 2600, 170


def _boolq(data: Path, repositories: Path, tested: Tested, draw: random.Random) -> list[Pair]:
    """A question with its passage, and with another that a search finds for it."""
    asked = list(_boolq_rows(repositories, tested_titles(data), tested))
    chunks: dict[str, Chunk] = {}
    for at, (_, title, text) in enumerate(asked):
        chunks.setdefault(text, Chunk(id=str(at), text=text, document_id=title))
    index = Bm25Index(list(chunks.values()), title_weight=0)
    titles = sorted({title for _, title, _ in asked})
    draw.shuffle(titles)
    held = set(titles[:BOOLQ_TITLES_HELD])  # to look at
    found: list[Pair] = []
    learned = [one for one in asked if one[1] not in held]
    for question, title, text in draw.sample(learned, BOOLQ_QUESTIONS):
        typed = question if draw.random() < 0.4 else f"{question[0].upper()}{question[1:]}?"
        near = [
            one.text
            for one in index.batch_search([question], 8)[0]
            if one.text != text and one.document_id not in held
        ]
        shown = text if draw.random() < 0.75 else f"{title}\n{text}"
        found.append(Pair("boolq", typed, shown, 1.0))
        for one in draw.sample(near[:5], min(1, len(near))):
            found.append(Pair("boolq", typed, one, 0.0, 0.9))
    return found


def _boolq_rows(
    repositories: Path, titles: Collection[str], tested: Tested
) -> Iterator[tuple[str, str, str]]:
    files = dict(
        files_of(repositories, BOOLQ, ("Dataset/val.jsonl", "Dataset/test.jsonl").__contains__)
    )
    for part in ("val", "test"):
        for line in files[f"Dataset/{part}.jsonl"].splitlines():
            row = json.loads(line)
            title, _, text = row["passage"].partition(" -- ")
            text = text or row["passage"]
            if lowered(title.split(" (")[0]) not in titles and not tested.holds(text):
                yield row["question"], title, text


# --- MedQuAD

_TREATED = (
    "What are the treatments for {}?", "How is {} treated?", "how to treat {}",
    "How can {} be treated?",
)  # fmt: skip
_WORDED: dict[str, tuple[str, ...]] = {
    "treatment": _TREATED,
    "treatments": _TREATED,
    "symptoms": (
        "What are the symptoms of {}?", "Which symptoms does {} cause?", "{} symptoms",
        "How do I recognise {}?",
    ),
    "causes": ("What causes {}?", "Why do people get {}?", "What are the causes of {}?"),
    "exams and tests": (
        "How is {} diagnosed?", "How do doctors diagnose {}?", "How to diagnose {}",
        "Which tests are done for {}?",
    ),
    "prevention": (
        "How can {} be prevented?", "How do I prevent {}?", "What can I do to prevent {}?",
    ),
    "susceptibility": ("Who is at risk for {}?", "Who gets {}?"),
    "inheritance": ("Is {} inherited?", "Can {} be inherited?", "How is {} inherited?"),
    "outlook": ("What is the outlook for {}?", "What happens to people with {}?"),
    "complications": (
        "What are the complications of {}?", "Which problems can {} lead to?",
    ),
    "considerations": ("What should I do about {}?", "What should people with {} do?"),
    "genetic changes": (
        "Which genes are related to {}?", "What are the genetic changes related to {}?",
    ),
    "frequency": ("How many people are affected by {}?", "How common is {}?"),
    "research": ("What research is being done for {}?",),
    "stages": ("What are the stages of {}?",),
}  # fmt: skip
_ALIKE = (
    {"treatment", "considerations", "treatments"},
    {"inheritance", "genetic changes", "causes"},
    {"symptoms", "information", "complications"},
)
"""Kinds whose answers may answer each other's questions."""
_GENES = "3_GHR_QA"
PAGES_OF_A_SITE = {_GENES: 110, "2_GARD_QA": 110}
PAGES_OF_ANOTHER, PAGES_HELD, SENTENCES_OF_MEDICINE = 170, 12, (1, 2, 2, 3, 5)


@dataclass(frozen=True, slots=True)
class _Disease:
    site: str
    name: str
    answers: tuple[tuple[str, str], ...]
    """Kinds of question with their answers."""

    def asked(self, draw: random.Random) -> list[tuple[str, str, list[str]]]:
        """Questions with an answer, and answers to others."""
        found: list[tuple[str, str, list[str]]] = []
        for kind, answer in self.answers:
            if kind not in _WORDED:
                continue
            wording = draw.choice(_WORDED[kind])
            kept = draw.random() < 0.5 or not self.name[1:2].islower() or self.site == _GENES
            name = self.name if kept else self.name[0].lower() + self.name[1:]
            others = [
                text
                for other, text in self.answers
                if other not in (kind, "information")
                and all({other, kind} - alike for alike in _ALIKE)
            ]
            found.append((wording.format(name), answer, others))
        return found


def _medquad(repositories: Path, draw: random.Random) -> list[Pair]:
    """The first sentences of an answer, and of another about the same."""
    by_site: dict[str, list[_Disease]] = defaultdict(list)
    for one in _diseases(repositories):
        by_site[one.site].append(one)
    found: list[Pair] = []

    def taken(text: str) -> str:
        return _first_sentences(text, draw.choice(SENTENCES_OF_MEDICINE))[:900]

    for site, diseases in sorted(by_site.items()):
        draw.shuffle(diseases)
        most = PAGES_OF_A_SITE.get(site, PAGES_OF_ANOTHER)
        for at, disease in enumerate(diseases[: most + PAGES_HELD]):
            asked = disease.asked(draw)
            for question, answer, others in draw.sample(asked, min(2, len(asked))):
                if at < PAGES_HELD:  # to look at
                    continue
                found.append(Pair("medquad", question, taken(answer), 1.0, 0.8))
                for other in draw.sample(others, min(1, len(others))):
                    found.append(Pair("medquad", question, taken(other), 0.0, 0.8))
    return found


def _diseases(repositories: Path) -> Iterator[_Disease]:
    stored = re.compile(r"[^/]*_QA[^/]*/[^/]+\.xml")
    for path, text in sorted(
        files_of(repositories, MEDQUAD, lambda one: bool(stored.fullmatch(one)))
    ):
        try:
            root = ElementTree.fromstring(text)
        except ElementTree.ParseError:
            continue
        answers: list[tuple[str, str]] = []
        for one in root.iter("QAPair"):
            asked = one.find("Question")
            answer = " ".join((one.findtext("Answer") or "").split())
            if asked is not None and len(answer) > 60:
                answers.append((asked.get("qtype") or "", answer))
        name = " ".join((root.findtext("Focus") or "").split())
        if name and len({kind for kind, _ in answers}) >= 3:
            yield _Disease(path.split("/")[0], name, tuple(answers))


# --- MTRAG

_LEANS = re.compile(
    r"\b(it|its|they|them|their|this|that|these|those|there|he|she|him|his|her|one|ones|such|same"
    r"|above|else|more|other|another|again|also|you|your|i mean|too|instead|so|then)\b",
    re.I,
)
_GOES_ON = ("and", "but", "ok", "okay", "yes", "no", "what?", "or")
_DECLINED = re.compile(r"\s*(sorry|i do not|i don't|i am sorry|unfortunately)", re.I)


@dataclass(frozen=True, slots=True)
class _Turn:
    """A question of MTRAG-UN that stands alone."""

    question: str
    passages: tuple[str, ...]
    reference: str
    talk: str
    domain: str


class _Talks:
    """MTRAG-UN's answerable questions; passages that MTRAG's judged questions have are not read."""

    def __init__(self, data: Path, repositories: Path, tested: Tested) -> None:
        self._rows = list(rows(data / "mtragun_reference.jsonl"))
        texts = self._texts(data)
        held = set(_judged(repositories)) & set(texts)
        self._turns = [one for row in self._rows for one in _turns(row, held)]
        self._indexes = {
            domain: Bm25Index(
                [
                    Chunk(id=id_, text=text.strip(), document_id=id_)
                    for id_, (of, text) in texts.items()
                    if of == domain and id_ not in held and not tested.holds(text)
                ],
                title_weight=0,
            )
            for domain in DOMAINS
        }
        self._of_talk: dict[str, set[str]] = defaultdict(set)
        self._references: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
        for row in self._rows:
            talk = _talk(row)
            self._of_talk[talk] |= {one["text"].strip() for one in row["contexts"]}
            self._references[_domain(row["collection"])].append(
                (talk, row["targets"][0].strip(), row["answerability"][0])
            )

    def pairs(self, draw: random.Random) -> list[Pair]:
        """Passages and references that answer; what a search finds, and answers of other talks."""
        found: list[Pair] = []
        for turn in self._turns:
            found += self._answering(turn)
            of_talk = self._of_talk[turn.talk]
            index = self._indexes[turn.domain]
            near = [one.text for one in index.batch_search([turn.question], 15)[0]]
            near = [one for one in near if one not in of_talk][:6]
            for one in draw.sample(near, min(3, len(near))):
                found.append(Pair("mtrag", turn.question, one, 0.0))
            # In the order of the file: a set's own order is another one in each process.
            same = [one for one in sorted(of_talk) if one not in turn.passages]
            for one in draw.sample(same, min(2, len(same))):
                found.append(Pair("mtrag", turn.question, one, 0.0, 0.7))
            others = [
                text
                for talk, text, told in self._references[turn.domain]
                if talk != turn.talk and told == "ANSWERABLE"
            ]
            for one in draw.sample(others, 2):
                cut = _first_sentences(one, draw.choice((2, 9)))
                found.append(Pair("mtrag", turn.question, cut, 0.0, 0.7))
        return found

    def _answering(self, turn: _Turn) -> list[Pair]:
        found = [Pair("mtrag", turn.question, one, 1.0, 1.2) for one in turn.passages[:4]]
        if not _DECLINED.match(turn.reference) and len(turn.reference) > 40:
            found.append(Pair("mtrag", turn.question, turn.reference, 1.0, 1.2))
            short = _first_sentences(turn.reference, 2)
            found.append(Pair("mtrag", turn.question, short, 1.0, 0.8))
        return found

    def _texts(self, data: Path) -> dict[str, tuple[str, str]]:
        found = {
            one["pid"]: (_domain(row["collection"]), one["text"])
            for row in self._rows
            for one in row["contexts"]
        }
        judged = json.loads((data / "mtrag_human_eval.json").read_text("utf-8"))
        texts = {one["document_id"]: one["text"] for one in judged["documents"]}
        for task in judged["tasks"]:
            for one in task["contexts"]:
                if one["document_id"] in texts:
                    id_ = one["document_id"]
                    found[id_] = (_domain(task["Collection"]), texts[id_])
        return found


def _domain(collection: str) -> str:
    return next((one for one in ("clapnq", *DOMAINS) if one in collection), collection)


def _talk(row: dict[str, Any]) -> str:
    return str(row["task_id"]).split("<")[0]


def _judged(repositories: Path) -> Iterator[str]:
    """Ids of the passages that people judged to answer a question of MTRAG."""
    for domain in DOMAINS:
        folder = f"mtrag-human/retrieval_tasks/{domain}"
        asked, judged = f"{folder}/{domain}_rewrite.jsonl", f"{folder}/qrels/dev.tsv"
        files = dict(files_of(repositories, MTRAG, (asked, judged).__contains__))
        known = {json.loads(line)["_id"] for line in files[asked].splitlines()}
        for line in files[judged].splitlines()[1:]:
            question, passage, score = line.split("\t")
            if int(score) > 0 and question in known:
                yield passage


def _turns(row: dict[str, Any], held: Collection[str]) -> Iterator[_Turn]:
    domain = _domain(row["collection"])
    if domain == "clapnq" or row["answerability"][0] != "ANSWERABLE":
        return
    question = row["history"][-1][1].strip()
    if row["turn"] != "1" and (
        _LEANS.search(question)
        or len(question.split()) < 4
        or question.split()[0].lower() in _GOES_ON
    ):
        return
    passages = tuple(one["text"].strip() for one in row["contexts"] if one["pid"] not in held)
    yield _Turn(question, passages, row["targets"][0].strip(), _talk(row), domain)


# --- SelQA and SQuAD: what the reader knows already, so that it goes on knowing it

SQUAD_ANSWERED, SQUAD_WITHOUT = 1500, 900


def _selqa(data: Path, tested: Tested, draw: random.Random) -> list[Pair]:
    titles = tested_titles(data)
    found: list[Pair] = []
    for row in rows(data / "selqa_ass_dev.jsonl"):
        sentences, answers = row["sentences"], row["answer_sentences"]
        if lowered(row["article"]) in titles or not answers or tested.holds(" ".join(sentences)):
            continue
        first = max(0, answers[0] - draw.randint(0, 3))
        end = min(len(sentences), answers[0] + draw.randint(1, 4))
        found.append(Pair("selqa", row["question"], " ".join(sentences[first:end]), 1.0))
        rest = [one for at, one in enumerate(sentences) if at not in answers]
        if len(rest) >= 2:
            at = draw.randrange(len(rest))
            text = " ".join(rest[at : at + 4])
            found.append(Pair("selqa", row["question"], text, 0.0, 0.8))
    return found


def _squad(data: Path, draw: random.Random) -> list[Pair]:
    sources, unanswerable = all_sources(data, None)
    found: list[Pair] = []
    for source in draw.sample(sources, SQUAD_ANSWERED):
        one = draw.choice(source.positives)
        found.append(Pair("squad", one.query.strip(), one.text, one.label))
        if source.near:
            at = min(draw.randrange(len(source.near)), draw.randrange(len(source.near)))
            found.append(Pair("squad", source.question.text.strip(), source.near[at], 0.0))
        if source.without_answer and draw.random() < 0.4:
            one = source.without_answer[0]
            found.append(Pair("squad", one.query.strip(), one.text, one.label))
    for one in draw.sample(unanswerable, SQUAD_WITHOUT):
        found.append(Pair("squad", one.query.strip(), one.text, one.label))
    return found


# --- OR-ShARC and PubMedQA: questions of yes or no with the rule or the finding that decides them

SHARC_HELD, PUBMED_QUESTIONS, PUBMED_HELD = 60, 430, 50
_BEFORE_RESULTS = frozenset(
    [
        "BACKGROUND", "OBJECTIVE", "METHODS", "AIMS", "AIM", "PURPOSE", "MATERIALS AND METHODS",
        "PATIENTS AND METHODS", "INTRODUCTION", "STUDY DESIGN", "DESIGN",
    ]
)  # fmt: skip


def sharc(repositories: Path, vague: Sequence[str], draw: random.Random) -> list[Pair]:
    """The rule, two that a search finds, and of half of the questions a text that says nothing."""
    rules, asked = _rules(repositories)
    chunks = [Chunk(id=id_, text=text, document_id=id_) for id_, text in rules.items()]
    index = Bm25Index(chunks, title_weight=0)
    draw.shuffle(asked)
    found: list[Pair] = []
    count = 0
    for question, rule in asked:
        near = [
            one.text
            for one in index.batch_search([question], 6)[0]
            if one.id != rule and len(one.text) > 60
        ]
        if not is_yes_or_no(question) or len(rules[rule]) < 50:
            continue
        count += 1
        if count <= SHARC_HELD:  # to look at
            draw.choice(vague)
            continue
        found.append(Pair("sharc", question, rules[rule][:900], 1.0, 0.8))
        found += [Pair("sharc", question, one[:900], 0.0, 0.7) for one in near[1:3]]
        if draw.random() < 0.5:
            found.append(Pair("doc_vague", question, draw.choice(vague), 0.0, 0.9))
    return found


def _rules(repositories: Path) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Rules by their names, and questions with their rule's name."""
    names = [f"data/open_retrieval_sharc_{part}.json" for part in ("dev", "test")]
    stored = "data/id2snippet.json"
    files = dict(files_of(repositories, SHARC, (stored, *names).__contains__))
    rules = {
        id_: re.sub(r"^#+\s*", "", re.sub(r"\n\s*\n", "\n", text), flags=re.M).strip()
        for id_, text in json.loads(files[stored]).items()
    }
    given = [json.loads(line) for name in names for line in files[name].splitlines()]
    asked = {(one["question"], one["gold_snippet_id"]) for one in given}
    return rules, sorted(asked)


def pubmedqa(repositories: Path, tested: Tested, draw: random.Random) -> list[Pair]:
    """The conclusion decides; what was known or planned before does not."""
    (stored,) = files_of(repositories, PUBMEDQA, "data/ori_pqal.json".__eq__)
    given = [
        one for one in json.loads(stored[1]).values() if one["final_decision"] in ("yes", "no")
    ]
    draw.shuffle(given)
    found: list[Pair] = []
    for at, one in enumerate(given[:PUBMED_QUESTIONS]):
        question, answer, texts = one["QUESTION"].strip(), one["LONG_ANSWER"], one["CONTEXTS"]
        if any(map(tested.holds, (answer, *texts))) or not is_yes_or_no(question):
            continue
        labels = [label.upper() for label in one["LABELS"]]
        before = [
            text for text, label in zip(texts, labels, strict=False) if label in _BEFORE_RESULTS
        ]
        chosen = draw.sample(before, min(2, len(before)))
        if at < PUBMED_HELD:  # to look at
            continue
        found.append(Pair("pubmed", question, answer[:700], 1.0, 0.8))
        found += [Pair("pubmed", question, text[:700], 0.0, 0.6) for text in chosen if text]
    return found
