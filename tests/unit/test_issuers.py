"""The keys of 45 issuers are masked wherever they are, and nothing that is no key.

The keys are made at run time of parts, so that no scanner takes this file for a leak.
"""

from __future__ import annotations

import json
import random
import string

import pytest

from ragbench import Case, RetrievalResult, issuers, masking
from ragbench.core.outcome import Outcome, Status
from ragbench.issuers import may_hold_key, spans_of_keys
from ragbench.ledger.codec import decode_case, encode_case, encode_outcome
from ragbench.masking import MASK, hidden, hidden_bytes, hidden_in_document, hidden_in_id, mask_text

LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + "234567"

# The parts of a key: a text that each key has, or so many letters of an alphabet.
ISSUERS: dict[str, tuple[str | tuple[str, int], ...]] = {
    "Adobe": ("p8", "e-", (LOWER, 32)),
    "Alibaba": ("LT", "AI", (LOWER, 20)),
    "Anthropic": ("sk-", "ant-api03-", (LETTERS, 93), "AA"),
    "Atlassian": ("ATA", "TT3", (LETTERS, 186)),
    "AWS": ("AK", "IA", (UPPER, 16)),
    "Azure": (("a", 3), "8", "Q~", (LETTERS, 34)),
    "Azure, storage": ("Account", "Key=", (LETTERS, 86), "=="),
    "Azure, shared access": ("SharedAccess", "Key=", (LETTERS, 43), "="),
    "Bitbucket": ("AT", "BB", (LETTERS, 32)),
    "Brevo": ("xkey", "sib-", (HEX, 64), "-", (LETTERS, 16)),
    "Databricks": ("da", "pi", (HEX, 32)),
    "DigitalOcean": ("dop", "_v1_", (HEX, 64)),
    "Discord": ("discord", ".com/api/webhooks/", ("123456789", 18), "/", (LETTERS, 68)),
    "Docker": ("dckr", "_pat_", (LETTERS, 27)),
    "Doppler": ("dp.", "pt.", (LETTERS, 43)),
    "Doppler, service": ("dp.", "st.prd.", (LETTERS, 43)),
    "Dynatrace": ("dt0", "c01.", (UPPER, 24), ".", (UPPER, 64)),
    "ElevenLabs": ("s", "k_", (HEX, 48)),
    "Figma": ("fi", "gd_", (LETTERS, 40)),
    "GitHub": ("gh", "p_", (LETTERS, 36)),
    "GitHub, fine-grained": ("github", "_pat_", (LETTERS, 22), "_", (LETTERS, 59)),
    "GitLab": ("gl", "pat-", (LETTERS, 20)),
    "Google": ("AI", "za", (LETTERS, 35)),
    "Google, client": ("GOC", "SPX-", (LETTERS, 28)),
    "Grafana": ("gl", "sa_", (LETTERS, 32), "_", (HEX, 8)),
    "Groq": ("gs", "k_", (LETTERS, 52)),
    "Heroku": ("HR", "KU-AA", (LETTERS, 58)),
    "Hugging Face": ("h", "f_", (string.ascii_letters, 34)),
    "LangSmith": ("lsv2", "_pt_", (HEX, 32), "_", (HEX, 10)),
    "Linear": ("lin", "_api_", (LETTERS, 40)),
    "Mailgun": ("ke", "y-", (HEX, 32)),
    "New Relic": ("NR", "AK-", (UPPER, 27)),
    "Notion": ("nt", "n_", ("123456789", 11), (LETTERS, 35)),
    "npm": ("np", "m_", (LETTERS, 36)),
    "OpenAI": ("sk-", "proj-", (LETTERS, 74), "T3Blbk", "FJ", (LETTERS, 74)),
    "OpenRouter": ("sk-", "or-v1-", (HEX, 64)),
    "Perplexity": ("pp", "lx-", (LETTERS, 48)),
    "Pinecone": ("pc", "sk_", (LETTERS, 60)),
    "Postman": ("PM", "AK-", (HEX, 24), "-", (HEX, 34)),
    "PyPI": ("py", "pi-AgEIcHlwaS5vcmc", (LETTERS, 100)),
    "Replicate": ("r", "8_", (LETTERS, 37)),
    "RubyGems": ("ruby", "gems_", (HEX, 48)),
    "SendGrid": ("S", "G.", (LETTERS, 22), ".", (LETTERS, 43)),
    "Sentry": ("sntry", "u_", (HEX, 64)),
    "Shopify": ("sh", "pat_", (HEX, 32)),
    "Slack": ("xo", "xb-", ("123456789", 12), "-", ("123456789", 12), "-", (LETTERS, 24)),
    "Stripe": ("sk_", "live_", (LETTERS, 24)),
    "Supabase": ("sb", "p_", (HEX, 40)),
    "Telegram": (("123456789", 10), ":A", "A", (LETTERS, 33)),
    "Terraform": ((LETTERS, 14), ".atlas", "v1.", (LETTERS, 64)),
    "Twilio": ("S", "K", (HEX, 32)),
    "Vault": ("hv", "s.", (LETTERS, 95)),
    "Voyage": ("p", "a-", (LETTERS, 43)),
    "Weights & Biases": ("wandb", "_v1_", (LETTERS, 77)),
    "xAI": ("xa", "i-", (LETTERS, 80)),
}


def key_of(issuer: str) -> str:
    """A key of an issuer's form; the same at each run."""
    draws = random.Random(issuer)
    parts: list[str] = []
    for part in ISSUERS[issuer]:
        if isinstance(part, str):
            parts.append(part)
        else:
            letters, length = part
            parts.append("".join(draws.choices(letters, k=length)))
    return "".join(parts)


KEYS = {issuer: key_of(issuer) for issuer in ISSUERS}
each_issuer = pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)


@pytest.fixture(autouse=True)
def _no_secrets_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_SECRETS", masking._Secrets())


def test_there_are_keys_of_45_issuers() -> None:
    assert len(KEYS) >= 45


@each_issuer
@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "401: {} is not valid",
        "401 for https://api.example/v1?k={}&page=2",
        "Incorrect key provided: '{}'.",
        "(key={})",
        "two lines\n{}\nand more",
    ],
)
def test_a_text_shows_no_key(key: str, text: str) -> None:
    masked = hidden(text.format(key))

    assert masked == text.format(MASK)


@each_issuer
def test_a_message_shows_no_key(key: str) -> None:
    masked = mask_text(f"ValueError: {key}, was refused")

    # A message may show with which letters a key begins.
    assert key[6:] not in masked


@each_issuer
def test_json_shows_no_key(key: str) -> None:
    def body(secret: str) -> dict[str, object]:
        json_in_json = json.dumps({"a": secret})
        return {"answer": f"Use\n{secret}\tnow", "nested": [json_in_json]}

    masked = hidden_bytes(json.dumps(body(key)).encode())

    assert json.loads(masked) == body(MASK)


@each_issuer
def test_an_id_keeps_its_form(key: str) -> None:
    body = json.dumps({"id": key, "context_ids": [key], "grades": {key: 1}}).encode()

    assert hidden_in_id(key) == key
    assert hidden_bytes(body) == body


def test_a_line_of_json_is_read_by_itself() -> None:
    key = KEYS["GitHub"]
    key_in_text = json.dumps({"id": "a", "text": key})
    key_as_id = json.dumps({"id": key, "text": "b"})
    body = f"{key_in_text}\n{key_as_id}\n"

    masked = hidden_bytes(body.encode())

    masked_text, masked_id = masked.decode().splitlines()
    assert json.loads(masked_text) == {"id": "a", "text": MASK}
    assert json.loads(masked_id) == {"id": key, "text": "b"}


def test_json_that_is_written_entry_by_entry_keeps_its_ids() -> None:
    key = KEYS["GitHub"]
    entry = json.dumps({"id": key, "text": KEYS["Stripe"]}, indent=2)
    expected = json.dumps({"id": key, "text": MASK}, indent=2)

    assert hidden_in_document(f"[\n    {entry}") == f"[\n    {expected}"
    assert hidden_in_document(f",\n    {entry}") == f",\n    {expected}"


def test_a_key_between_escapes_is_masked() -> None:
    key = KEYS["GitHub"]

    assert hidden(f"x%3D{key}&y=1") == f"x%3D{MASK}&y=1"
    assert hidden(f"a\\n{key}\\n") == f"a\\n{MASK}\\n"
    assert hidden(f"a\\u0026{key}") == f"a\\u0026{MASK}"


def test_a_stored_case_keeps_its_ids_and_shows_no_key() -> None:
    key = KEYS["Stripe"]
    case = Case(
        id=key,
        query=f"Is {KEYS['GitHub']} mine?",
        reference_context_ids=(key,),
        cluster=key,
        tags=(key,),
    )

    stored = decode_case(case.id, encode_case(case))

    assert stored.query == f"Is {MASK} mine?"
    assert stored.reference_context_ids == (key,)
    assert stored.cluster == key
    assert stored.tags == (key,)


def test_a_stored_retrieval_keeps_its_ids_and_shows_no_key() -> None:
    key = KEYS["Stripe"]
    result: RetrievalResult[dict[str, str]] = RetrievalResult(
        ["text"], context_ids=[key], context_metadata=[{"note": KEYS["GitHub"]}]
    )
    outcome = Outcome(status=Status.MEASURED, value=result)

    stored = encode_outcome("retrieve", outcome)

    body = json.loads(stored.body)
    assert body["context_ids"] == [key]
    assert body["context_metadata"] == [{"note": MASK}]


ORDINARY = (
    "da39a3ee5e6b4b0d3255bfef95601890afd80709",  # SHA-1 of nothing
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "123e4567-e89b-12d3-a456-426614174000",
    "sk-learn-documentation-of-the-nearest-neighbours",
    "sk-" + "x" * 48,
    "gh" + "p_" + "x" * 36,
    "AKIA" + "IOSFODNN7" + "EXAMPLE",  # of AWS' own documents
    "hf_internal_testing_tiny_random_model_for_sequences",
    "re_read_the_long_document_of_the_second_chapter",
    "secret_santa_2026_with_everyone_of_the_office_in_it",
    "https://example.org/docs/how-to-store-a-secret/index.html?page=12&lang=en",
    "Donaudampfschifffahrtselektrizitaetenhauptbetriebswerk",
    "token_type_ids_of_the_second_sequence",
)


@pytest.mark.parametrize("text", ORDINARY, ids=range(len(ORDINARY)))
def test_ordinary_text_is_as_it_is(text: str) -> None:
    assert hidden(f"see {text} there") == f"see {text} there"


def test_most_texts_are_not_looked_at() -> None:
    assert not may_hold_key(b"A text of words, none of which has more than sixteen letters.")
    assert may_hold_key(KEYS["AWS"].encode())


def test_the_longest_name_of_a_stored_field_is_no_run() -> None:
    stored = b'{"context_ids":["d1"],"context_metadata":null,"scores":[0.5]}'

    assert not may_hold_key(stored)
    assert may_hold_key(stored.replace(b"d1", KEYS["AWS"].encode()))


def test_a_private_key_in_a_document_is_masked_if_it_is_one() -> None:
    body = "MIIEvQIBADAN" + "Bgkqhki" * 12
    begin = "-----BEGIN PRIVATE" + " KEY-----"
    end = "-----END PRIVATE" + " KEY-----"
    document = f"{begin}\n{body}\n{end}"
    example = f"{begin}\nMIIE...\n{end}"

    assert body not in hidden(document)
    assert hidden(example) == example


def test_what_begins_like_a_key_is_masked_in_a_message_whatever_its_length() -> None:
    longer = "gh" + "p_" + key_of("AWS") + "aB3" + "x" * 9

    assert mask_text(f"401: {longer}") == f"401: {MASK}"


def test_spans_are_those_of_the_keys() -> None:
    # A key of 40 letters after two.
    text = f"a {KEYS['GitHub']} b"

    spans = set(spans_of_keys(text))

    assert spans == {(2, 42)}


def test_no_pattern_is_compiled_before_a_text_has_its_beginning() -> None:
    shapes = issuers._Shapes()
    (shape,) = shapes.by_word["xai"]

    assert not shapes.may_begin(["AxaiB", "0a1b2c3d4e5f", "documentation"])

    assert "pattern" not in vars(shape)


def test_a_text_that_begins_like_a_key_at_each_word_is_looked_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts_looked_at: list[str] = []

    def is_no_key(shape: object, text: str) -> bool:
        texts_looked_at.append(text)
        return False

    monkeypatch.setattr(issuers._Shape, "is_key", is_no_key)
    text = ("py" + "pi-") * 1000

    spans = list(spans_of_keys(text))

    assert spans == []
    assert texts_looked_at == [text]
