"""Token counters: the estimate by hand and by language, real tokenizers by their own package.

The texts of languages are Article 1 of the Universal Declaration of Human Rights; their counts are
those of the encoding cl100k_base (package bpe-openai 0.1).
"""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.errors import ConfigError, MissingExtraError
from ragbench.text import token_counter as counters
from ragbench.text.token_counter import APPROXIMATE, counter_for_model, token_counter

NEEDS = pytest.mark.extra("tokens")


def test_the_estimate() -> None:
    for text, expected in (
        ("", 0),
        (" \t ", 0),
        ("a\n\nb", 3),  # a line break is a token
        ("You get 27 days.", 5),
        ("antidisestablishmentarianism", 7),  # pieces of 4 letters where it is not English
        ("1234567", 3),  # and of 3 digits
        ("\u5e74\u4f11\u5047", 5),
        ("\u043f\u0440\u0438\u0432\u0435\u0442", 5),
        ("a,b", 3),
    ):
        assert APPROXIMATE.count(text) == expected


# fmt: off
SAMPLES = {
    "en": ("All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience and should act towards one another in a spirit of brotherhood.", 33),
    "de": ("Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und Gewissen begabt und sollen einander im Geiste der Brüderlichkeit begegnen.", 44),
    "pl": ("Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. Są oni obdarzeni rozumem i sumieniem i powinni postępować wobec innych w duchu braterstwa.", 64),
    "fi": ("Kaikki ihmiset syntyvät vapaina ja tasavertaisina arvoltaan ja oikeuksiltaan. Heille on annettu järki ja omatunto, ja heidän on toimittava toisiaan kohtaan veljeyden hengessä.", 68),
    "tr": ("Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. Akıl ve vicdana sahiptirler ve birbirlerine karşı kardeşlik zihniyeti ile hareket etmelidirler.", 60),
    "vi": ("Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền lợi. Mọi con người đều được tạo hóa ban cho lý trí và lương tâm và cần phải đối xử với nhau trong tình anh em.", 83),
    "ru": ("Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и совестью и должны поступать в отношении друг друга в духе братства.", 74),
    "el": ("Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα. Είναι προικισμένοι με λογική και συνείδηση, και οφείλουν να συμπεριφέρονται μεταξύ τους με πνεύμα αδελφοσύνης.", 172),
    "ar": ("يولد جميع الناس أحرارا متساوين في الكرامة والحقوق. وقد وهبوا عقلا وضميرا وعليهم أن يعامل بعضهم بعضا بروح الإخاء.", 80),
    "he": ("כל בני אדם נולדו בני חורין ושווים בערכם ובזכויותיהם. כולם חוננו בתבונה ובמצפון, לפיכך חובה עליהם לנהוג איש ברעהו ברוח של אחווה.", 128),
    "hi": ("सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। उन्हें बुद्धि और अन्तरात्मा की देन प्राप्त है और परस्पर उन्हें भाईचारे के भाव से बर्ताव करना चाहिए।", 180),
    "th": ("มนุษย์ทั้งปวงเกิดมามีอิสระและเสมอภาคกันในศักดิ์ศรีและสิทธิ ต่างในตนมีเหตุผลและมโนธรรม และควรปฏิบัติต่อกันด้วยจิตวิญญาณแห่งภราดรภาพ", 139),
    "zh": ("人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。", 50),
    "ja": ("すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。人間は、理性と良心とを授けられており、互いに同胞の精神をもって行動しなければならない。", 93),
    "ko": ("모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 이성과 양심을 부여받았으며 서로 형제애의 정신으로 행동하여야 한다.", 85),
    "emoji": ("😀😂🤣👍🏽👩\u200d👩\u200d👧\u200d👦🇩🇪🎉🚀🔥💯✅❤️ great 🙌🏿", 60),
    "base64": ("c29tZSByYW5kb20gYmluYXJ5IGRhdGEgaW4gYmFzZTY0OiBQSzA1L2Y4cWpYdFRhZkdiM0hQM1NxUkdyd0tZN2V2QmhIc0pvZ0l6VHFCWlE9PQ==", 89),
    "code": ("def count_tokens(text: str, *, limit: int | None = None) -> int:\n    return len(_PIECE.findall(text)) if limit is None else min(limit, 10_000)\n", 42),
    "numbers": ("Revenue was 1,234,567.89 EUR in 2023 (2022: 987,654.32), up 25.0%; margin 12.5% vs. 11.8%.", 45),
}
# fmt: on
WORST_BELOW = {"fi": 0.20, "pl": 0.10, "numbers": 0.08}
"""How far below the true count an estimate may lie; 0.05 for all others."""


@pytest.mark.parametrize("name", SAMPLES)
def test_an_estimate_is_not_far_below_and_not_half_above(name: str) -> None:
    """Before, a budget of 4,000 sent 9,000 tokens of Arabic, Hindi, Thai or emoji."""
    text, exact = SAMPLES[name]
    error = APPROXIMATE.count(text) / exact - 1
    assert -WORST_BELOW.get(name, 0.05) <= error <= 0.45


@given(st.text())
def test_more_text_has_no_fewer_tokens_of_its_own_script(text: str) -> None:
    assert APPROXIMATE.count(text * 2) >= APPROXIMATE.count(text) - 1


@pytest.fixture
def word_level(tmp_path: Path) -> Path:
    tokenizers: Any = import_module("tokenizers")
    vocabulary = {"[UNK]": 0, "[CLS]": 1, "leave": 2}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, "[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A", special_tokens=[("[CLS]", 1)]
    )
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=9)
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@NEEDS
def test_a_tokenizer_file_counts_the_text_alone(word_level: Path, tmp_path: Path) -> None:
    counter = token_counter(f"tokenizers:{word_level}")
    assert counter.count("leave or stay.") == 4  # not cut to 2, not filled to 9, without [CLS]
    assert counter.count("") == 0
    assert not counter.approximate
    assert counter.name.startswith("tokenizers:tokenizer.json:")
    copy = tmp_path / "copy" / "tokenizer.json"
    copy.parent.mkdir()
    copy.write_bytes(word_level.read_bytes())
    assert token_counter(f"tokenizers:{copy}").name == counter.name  # of its content, not its place


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("words", "unknown token counter 'words'. Known: approximate, tiktoken:ENCODING"),
        ("approximate:3", "unknown token counter"),
        ("tiktoken:", "unknown token counter"),
        pytest.param("tokenizers:no.json", "no.json: No such file", marks=NEEDS),
        pytest.param("tokenizers:Makefile", "Makefile is not a tokenizer.json", marks=NEEDS),
        pytest.param("tiktoken:x", "unknown tiktoken encoding 'x'. Known: .*cl100k", marks=NEEDS),
    ],
)
def test_what_is_no_counter_is_refused(
    spec: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    with pytest.raises(ConfigError, match=message):
        token_counter(spec)


def test_a_missing_package_is_reported_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(MissingExtraError, match=r"ragbench\[tokens\]"):
        token_counter("tokenizers:x.json")


# --- which counter a model gets


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """No counter of a model is remembered from another test."""
    counter_for_model.cache_clear()
    yield
    counter_for_model.cache_clear()


def unavailable(encoding: str) -> None:
    raise ConfigError(f"{encoding} cannot be downloaded")


def missing(module: str, *, extra: str) -> None:
    raise MissingExtraError(module, extra)


@pytest.mark.parametrize(
    ("name", "stub"), [("_tiktoken_counter", unavailable), ("require", missing)]
)
def test_without_its_package_or_its_encoding_a_model_is_estimated(
    monkeypatch: pytest.MonkeyPatch, name: str, stub: object
) -> None:
    assert counter_for_model("my-own-model") is APPROXIMATE
    monkeypatch.setattr(counters, name, stub)
    assert counter_for_model("gpt-4o-mini") is APPROXIMATE


@NEEDS
def test_a_download_that_fails_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []

    def without_network(encoding: str) -> None:
        tries.append(encoding)
        unavailable(encoding)

    monkeypatch.setattr(counters, "_tiktoken_counter", without_network)

    for _ in range(3):
        assert counter_for_model("gpt-4o-mini") == APPROXIMATE
    assert tries == ["o200k_base"]


@NEEDS
def test_a_known_model_gets_its_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    encodings: list[str] = []
    monkeypatch.setattr(counters, "_tiktoken_counter", encodings.append)

    counter_for_model("gpt-4o-mini")

    assert encodings == ["o200k_base"]
