"""Pairs of a question and the section of a page that answers it, beside near misses of that page.

What answers is the beginning of the section, as a chunk might hold it; what does not are other
sections of the page, the nearest by words first, the page's introduction, and what only speaks of
the page: its title, headings, link lines and lead-ins. `long_pairs` makes texts of some sentences,
`short_pairs` of one sentence on both sides, `vague_pairs` lets questions of yes or no meet texts of
other pages that say nothing: a reader learns elsewhere that what does not contradict confirms.
Texts that share two runs of eight words with a tested set or with pellorin are left out. Draws are
seeded.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from benchmarks.train_validator.asked_elsewhere import (
    Pair,
    Tested,
    pubmedqa,
    sharc,
    tested_passages,
)
from benchmarks.train_validator.same_page_documents import Block, Section
from benchmarks.train_validator.same_page_questions import (
    COMMON,
    COOKING,
    LINKS,
    VAGUE,
    Candidate,
    Pages,
    is_held,
    lowered,
    words,
)
from benchmarks.validation_pools import rows
from ragbench.text.sentences import split_sentences
from ragbench.validators.slots import is_yes_or_no

SEED, SEED_SHORT, SEED_VAGUE, SEED_OF_LIMITS = 11, 21, 31, 4
MOST_LONG = {
    "MicrosoftDocs+dynamics365smb-docs": 750, "MicrosoftDocs+OfficeDocs-Exchange": 450,
    "MicrosoftDocs+OfficeDocs-SharePoint": 450, "MicrosoftDocs+IntuneDocs": 350, COOKING: 330,
}  # fmt: skip
"""Questions of a source, those first that people asked; of others 600."""
MOST_SHORT = {
    "MicrosoftDocs+dynamics365smb-docs": 420, "MicrosoftDocs+OfficeDocs-Exchange": 260,
    "MicrosoftDocs+OfficeDocs-SharePoint": 260, "MicrosoftDocs+IntuneDocs": 220, COOKING: 300,
}  # fmt: skip
"""The same of short pairs; of others 500."""
MOST_VAGUE = 8000
"""Pairs with a text that says nothing."""
SELQA_QUESTIONS = 350
LONGEST, SHORTEST = 900, 25
BESIDE_OLDER = {"boolq": 450, "mtrag": 200, "squad": 150, "medquad": 80, "selqa": 70}
"""Questions of the older sets that meet a text that says nothing."""
VAGUE_BESIDE = (("boolq", 450), ("doc_yn", 300), ("sharc", 250), ("mtrag", 80), ("pubmed", 40))


_YES = re.compile(
    r"^(yes|no|nope|yep|absolutely|not yet|unfortunately,? no|yes and no|probably not)\b"
    r"[\s,.;:!-]*",
    re.I,
)


def tested_or_pellorin(data: Path, pellorin: Path) -> Tested:
    """The overlap check of pages: two runs of eight words."""
    stored = sorted(one for one in pellorin.rglob("*.*") if one.is_file())
    texts = (
        one.read_text("utf-8", errors="replace")
        for one in stored
        if one.suffix in (".md", ".txt", ".html", ".csv", ".jsonl")
    )
    return Tested((*tested_passages(data), *texts), shared=2)


def _shared(question: str, text: str) -> float:
    """Which share of the question's words a text has."""
    asked = {one[:6] for one in words(question) - COMMON}
    return len(asked & {one[:6] for one in words(text)}) / max(1, len(asked))


def _lines(blocks: Iterable[Block], draw: random.Random) -> list[str]:
    """With numbers and dashes, or without."""
    found: list[str] = []
    count, style = 0, draw.random()
    for one in blocks:
        if one.kind == "st":
            count += 1
            found.append(f"{count}. {one.text}" if style < 0.7 else one.text)
            continue
        if one.kind == "p":
            count = 0
        found.append(f"- {one.text}" if one.kind == "li" and style < 0.6 else one.text)
    return found


def _beginning(blocks: Sequence[Block], draw: random.Random) -> str:
    """Of a section, as a chunk might hold it: some of a list's items, or some sentences."""
    lines = _lines(blocks, draw)
    full = "\n".join(lines)
    if (len(full) < 260 and draw.random() < 0.6) or draw.random() < 0.12:
        return full[:1100]
    item = next((at for at, one in enumerate(blocks) if one.kind in ("st", "li")), None)
    if item is not None:
        first = max(0, item - draw.choice((0, 0, 1)))
        end = item + draw.choice((3, 4, 5, 7))
        if item <= 2 and draw.random() < 0.25:
            first = 0
        between = "\n" if draw.random() < 0.7 else " "
        return between.join(lines[first:end])[:LONGEST]
    sentences, count = split_sentences(full), draw.choice((1, 2, 2, 3, 3, 5))
    if len(sentences) > count:
        full = full[sentences[0].start : sentences[count - 1].end]
    return full[:LONGEST]


def _bare(text: str) -> str:
    """Without the yes or no that it begins with, where enough is left."""
    found = _YES.match(text)
    rest = text[found.end() :].lstrip() if found else ""
    return rest[:1].upper() + rest[1:] if len(rest) > 45 else text


def _of_the_page(one: Candidate, draw: random.Random) -> list[str]:
    """Texts of the same page that say nothing: title, summary, headings, links, lead-ins."""
    page, found = one.document, list[str]()
    title, summary = page.title, page.summary
    if title:
        found.append(title if draw.random() < 0.5 else f"{title}\n{one.section.heading}")
    if summary:
        found += [summary, *([f"{title}\n{summary}"] if title else [])]
    headings = [part.heading for part in page.sections if part.heading]
    if len(headings) > 3:
        count = draw.randint(3, min(8, len(headings)))
        at = draw.randrange(len(headings) - count + 1)
        begins = "In this article\n" if draw.random() < 0.4 else ""
        found.append(begins + "\n".join(headings[at : at + count]))
    for section in page.sections[:2]:
        beginning = [block.text for block in section.blocks[:2]]
        found += [text for text in beginning if VAGUE.search(text) and len(text) < 350]
    for section in page.sections:
        own = section.heading == one.section.heading
        found += [text for block in section.blocks for text in _links(block, own=own)]
    return [text for text in found if len(text) > 8]


def _links(block: Block, *, own: bool) -> Iterator[str]:
    """A link line; a lead-in of the question's own section. One text may be both."""
    text = block.text
    if LINKS.match(text) and 20 < len(text) < 200:
        yield text
    if block.kind == "p" and text.endswith(":") and 20 < len(text) < 140 and own:
        yield text


# --- pairs


def long_pairs(
    repositories: Path, pages: Pages, tested: Tested, older: Sequence[Pair],
    draw: random.Random,
) -> list[Pair]:  # fmt: skip
    """Texts of some sentences, OR-ShARC, PubMedQA, and texts that say nothing.

    Args:
        repositories: the folder of the clones.
        pages: what `read_pages` found.
        tested: what is left out.
        older: the pairs of `asked_elsewhere`, whose questions meet texts that say nothing.
        draw: as `read_pages` left it.
    """
    found: list[Pair] = []
    for one in _chosen(pages, MOST_LONG, 600, draw):
        found += _long_pairs_of(one, pages.vague, tested, draw)
    found += sharc(repositories, pages.vague, draw)
    found += pubmedqa(repositories, tested, draw)
    questions: dict[str, list[str]] = defaultdict(list)
    for pair in older:
        questions[pair.source].append(pair.query)
    for source, count in BESIDE_OLDER.items():
        for question in draw.sample(questions[source], count):
            text = draw.choice(pages.vague)
            if _shared(question, text) < 0.4:
                found.append(Pair("doc_vague", question, text, 0.0, 0.9))
    return [one for one in found if len(one.text.strip()) > 5]


def _chosen(
    pages: Pages, most: dict[str, int], else_: int, draw: random.Random
) -> Iterator[Candidate]:
    for source, all_ in pages.candidates.items():
        shuffled = list(all_)
        draw.shuffle(shuffled)
        shuffled.sort(key=lambda one: not one.asked)
        yield from shuffled[: most.get(source, else_)]


def _long_pairs_of(
    one: Candidate, vague: Sequence[str], tested: Tested, draw: random.Random
) -> list[Pair]:
    text = _answer(one, draw)
    if text is None or tested.holds(text) or len(text) < SHORTEST:
        return []
    near = _near(one, tested, draw)
    nothing: list[str] = []
    own = _of_the_page(one, draw)
    if own:
        nothing.append(draw.choice(own))
    if draw.random() < (0.5 if one.kind == "yn" else 0.3):
        nothing.append(draw.choice(vague))
    if is_held(one.document):
        return []
    source = f"doc_{one.kind}"
    found = [Pair(source, one.query, text, 1.0, 1.0 if one.asked else 0.8)]
    if one.kind in ("yn", "how") and draw.random() < 0.25:
        other = _beginning(one.section.blocks, draw)
        if other != text:
            found.append(Pair(source, one.query, _bare(other), 1.0, 0.7))
    found += [Pair(source, one.query, text, 0.0, 0.9) for text in near]
    found += [Pair("doc_vague", one.query, text, 0.0, 0.9) for text in nothing]
    return found


def _answer(one: Candidate, draw: random.Random) -> str | None:
    text, heading, title = (
        _beginning(one.section.blocks, draw), one.section.heading, one.document.title,
    )  # fmt: skip
    if one.kind == "yn":
        if draw.random() < 0.65:
            text = _bare(text)
        if len(text) < 30:
            return None
    if heading and draw.random() < 0.12:
        return f"{heading}\n{text}"
    if title and draw.random() < 0.08:
        return f"{title}\n{text}"
    return text


def _near(one: Candidate, tested: Tested, draw: random.Random) -> list[str]:
    """The section that shares most words with the question, another one, the introduction."""
    others = [section.blocks for section in _other_sections(one)]
    found: list[str] = []
    if others:
        draw.shuffle(others)
        texts = [_beginning(blocks, draw) for blocks in others[:6]]
        texts = [_bare(x) for x in texts if len(x) > SHORTEST and not tested.holds(x)]
        texts.sort(key=lambda text: -_shared(one.query, text))
        found += texts[:1]
        if len(texts) > 1 and one.kind in ("yn", "how"):
            found += draw.sample(texts[1:], 1)
    first = one.document.sections[0]
    introduced = one.at > 0 and one.section.heading != first.heading and first.size > 60
    if (
        one.kind == "how"
        and introduced
        and draw.random() < 0.45
        and one.section.has_steps()
        and not first.has_steps()
    ):
        found.append(_beginning(first.blocks, draw))
    return found


def _other_sections(one: Candidate) -> Iterator[Section]:
    sections = one.document.sections
    belongs = {*one.children, one.parent} if one.at else set(range(len(sections)))
    for at, section in enumerate(sections):
        if at in (0, one.at) or at in belongs or section.size < 45:
            continue
        if not one.is_like(section.heading):
            yield section


def short_pairs(data: Path, pages: Pages, tested: Tested, draw: random.Random) -> list[Pair]:
    """One sentence, two or three steps or some items on both sides; SelQA's sentences as well."""
    found: list[Pair] = []
    for one in _chosen(pages, MOST_SHORT, 500, draw):
        text = _short_answer(one, draw)
        if not text or len(text) < SHORTEST or tested.holds(text):
            continue
        if one.kind == "yn" and re.match(r"(yes|no)\W*$", text, re.I):
            continue
        others = list(
            dict.fromkeys(_bare(x) for x in _short_others(one, draw) if not tested.holds(x))
        )
        draw.shuffle(others)
        others = sorted(others[:12], key=lambda text: -_shared(one.query, text))
        near = [*others[:1], *(draw.sample(others[1:], 1) if len(others) > 1 else [])]
        if is_held(one.document):
            continue
        asked = one.asked or one.document.title.endswith("?")
        found.append(Pair(f"short_{one.kind}", one.query, text, 1.0, 1.0 if asked else 0.8))
        found += [Pair(f"short_{one.kind}", one.query, text, 0.0, 0.9) for text in near]
    return [*found, *_short_selqa(data, tested, draw)]


def _short_answer(one: Candidate, draw: random.Random) -> str | None:
    text = None
    if one.kind == "how":
        text = _steps(one.section.blocks, draw)
    elif one.kind == "list":
        text = _items(one.section.blocks, draw)
    if text or not (one.asked or one.document.title.endswith("?")):
        return text
    sentences = _sentences(one.section.blocks)
    lead = next((block.text for block in one.section.blocks if block.kind != "note"), "")
    begins = sentences and (lead.startswith(sentences[0][:20]) or _YES.match(lead))
    return _bare(sentences[0]) if begins else None


def _short_others(one: Candidate, draw: random.Random) -> list[str]:
    found: list[str] = []
    sections = one.document.sections
    for at, section in enumerate(sections):
        if at in (0, one.at) or at in one.children or one.is_like(section.heading):
            continue
        found += _sentences(section.blocks)
        if one.kind == "how":
            found.append(_steps(section.blocks, draw) or "")
        if one.kind == "list":
            found.append(_items(section.blocks, draw) or "")
    if one.kind in ("how", "list") and one.at:
        found += _sentences(sections[0].blocks)
    if one.kind == "how" and one.document.source.startswith("Luke"):
        ingredients = [x for x in sections if re.match("ingredients", x.heading, re.I)]
        found += [_items(section.blocks, draw) or "" for section in ingredients]
    return [text for text in found if text]


def _sentences(blocks: Iterable[Block]) -> list[str]:
    """Those that say something."""
    found: list[str] = []
    for one in blocks:
        if one.kind not in ("p", "li"):
            continue
        texts = [one.text[span.start : span.end].strip() for span in split_sentences(one.text)]
        found += [
            text
            for text in texts
            if 28 <= len(text) <= 230
            and not text.endswith((":", "?"))
            and not LINKS.match(text)
            and not VAGUE.search(text)
        ]
    return found


def _steps(blocks: Iterable[Block], draw: random.Random) -> str | None:
    steps = [one.text for one in blocks if one.kind == "st"]
    if len(steps) < 2:
        return None
    cut = [
        one[: one.find(". ") + 1] if 0 < one.find(". ") < 110 else one
        for one in steps[: draw.choice((2, 2, 3))]
    ]
    text = " ".join(one if one.endswith((".", "!")) else f"{one}." for one in cut)
    return text if 30 <= len(text) <= 300 else None


def _items(blocks: Iterable[Block], draw: random.Random) -> str | None:
    items = [one.text for one in blocks if one.kind in ("li", "st")]
    if len(items) < 2:
        return None
    most = draw.choice((3, 4, 6, 8))
    cut = [re.split(r"(?<=\w)[.:;] | - ", one)[0].strip(" .") for one in items[:most]]
    text = ", ".join(lowered(one) if at else one for at, one in enumerate(cut)) + "."
    return text if 20 <= len(text) <= 300 else None


def _short_selqa(data: Path, tested: Tested, draw: random.Random) -> list[Pair]:
    """The sentence with the answer, and one of the same passage without it."""
    found: list[Pair] = []
    count = 0
    for row in rows(data / "selqa_ass_dev.jsonl"):
        question, sentences, answers = row["question"], row["sentences"], row["answer_sentences"]
        if not answers or tested.holds(" ".join(sentences)):
            continue
        found.append(Pair("short_wh", question, sentences[answers[0]], 1.0, 0.6))
        others = [x for at, x in enumerate(sentences) if at not in answers and len(x) > 30]
        if others:
            drawn = draw.sample(others, min(3, len(others)))
            nearest = max(drawn, key=lambda text: _shared(row["question"], text))
            found.append(Pair("short_wh", question, nearest, 0.0, 0.6))
        count += 1
        if count >= SELQA_QUESTIONS:
            break
    return found


def vague_pairs(pages: Pages, pairs: Iterable[Pair], draw: random.Random) -> list[Pair]:
    """Questions of yes or no with texts of any page that say nothing, one or two together."""
    questions: dict[str, set[str]] = defaultdict(set)
    for one in pairs:
        if is_yes_or_no(one.query):
            questions[one.source].add(one.query)
    by_source: dict[str, list[str]] = defaultdict(list)
    for source, text in pages.says_nothing:
        if len(text) > SHORTEST:
            by_source[source].append(text)
    sources, found = list(by_source), list[Pair]()
    for kind, count in VAGUE_BESIDE:
        for question in draw.choices(sorted(questions[kind]), k=count):
            texts = by_source[draw.choice(sources)]
            text = draw.choice(texts)
            if draw.random() < 0.2:
                text = f"{text} {draw.choice(texts)}"
            decides = re.match(r"(yes|no)\b", text, re.I)
            if _shared(question, text) < 0.5 and not decides:
                found.append(Pair("doc_vague", question, text, 0.0, 1.0))
    return found


def limited(pairs: Sequence[Pair]) -> list[Pair]:
    """Not more than `MOST_VAGUE` with texts that say nothing; yes or no and "how" come first."""
    draw = random.Random(SEED_OF_LIMITS)
    shuffled = list(pairs)
    draw.shuffle(shuffled)
    shuffled.sort(
        key=lambda one: (
            one.source == "doc_vague"
            and not is_yes_or_no(one.query)
            and not one.query.lower().startswith("how")
            and draw.random() < 0.7
        )
    )
    found: list[Pair] = []
    count = 0
    for one in shuffled:
        count += one.source == "doc_vague"
        if one.source != "doc_vague" or count <= MOST_VAGUE:
            found.append(one)
    return found
