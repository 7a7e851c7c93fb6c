"""Credentials are masked in every form, and nothing else is."""

from __future__ import annotations

import csv
import gzip
import io
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import masking
from ragbench.io.atomic import written_whole
from ragbench.masking import MASK, hidden, hidden_bytes, hide, hide_arguments, mask_text
from ragbench.safe_text import markdown_text, shown_text


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_SECRETS", masking._Secrets())


def as_csv(text: str) -> str:
    out = io.StringIO()
    csv.writer(out).writerow([text])
    return out.getvalue()


WRITERS = (
    str,
    json.dumps,
    repr,
    quote_plus,
    as_csv,
    markdown_text,
    shlex.quote,
    lambda text: json.dumps(text, ensure_ascii=False),
    lambda text: json.dumps(json.dumps({"a": [text]})),
    lambda text: quote(text, safe=""),
    lambda text: text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"),
)


@settings(max_examples=150)
@given(
    st.text(st.characters(min_codepoint=33, max_codepoint=383), min_size=14, max_size=40),
    st.sampled_from(WRITERS),
)
def test_a_secret_is_found_in_every_form(secret: str, write: Callable[[str], str]) -> None:
    if not any(map(str.isalpha, secret)):
        return
    masking._SECRETS = masking._Secrets()
    hide(secret)
    text: str = write(f"before\n{secret} after")
    plain: str = write(secret).strip().strip("\"'")

    assert MASK in hidden(text).replace("\\*", "*")
    if MASK in plain.replace("\\*", "*"):  # this writer masks by itself
        return
    assert plain not in hidden(text)
    assert plain.encode() not in hidden_bytes(text.encode())


def test_the_environment_is_known_by_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = {
        "SOME_API_KEY": "abc-123-def",
        "PGPASSWORD": "hunter2!x",
        "X_TOKEN": "tok.en.va.lue9",
        "SERVICE_SECRET": "s3cr3t-value",
        "NETRC": "https://bob:p4ss%2Fw0rd@host/x?token=q1w2e3r4t5",
    }
    for name, value in planted.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SORT_ORDER", "not-a-secret-1")

    text = " | ".join([*planted.values(), "p4ss/w0rd", "not-a-secret-1"])
    url = "https://bob:***@host/x?token=***"
    assert hidden(text) == f"*** | *** | *** | *** | {url} | *** | not-a-secret-1"

    # A file of variables that is loaded later counts, too.
    monkeypatch.setenv("LATER_KEY", "later-0123456789")
    assert hidden("later-0123456789") == MASK


@pytest.mark.parametrize(
    "value", ["postgres", "admin", "12345678", "true", "8080", "abc", "2024-05-01"]
)
def test_what_says_too_little_takes_nothing_out_of_a_text(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", value)
    assert hidden(f"x {value} y") == f"x {value} y"


def test_a_short_secret_is_masked_only_where_it_stands_alone() -> None:
    hide("pa55word")
    assert hidden("pa55word, xpa55word, pa55words") == "***, xpa55word, pa55words"
    body = json.dumps({"a": "x\npa55word\n"})
    assert hidden_bytes(body.encode()) == b'{"a": "x\\n***\\n"}'

    hide("a-long-secret-of-many-letters-1")
    assert hidden("xa-long-secret-of-many-letters-1y") == "x***y"


def test_of_arguments_those_are_known_whose_names_say_so() -> None:
    nested = [{"api_key": "nested-value-1"}]
    hide_arguments({"a": nested, "top_k": "plain-value-2", "url": "ftp://u:pw-in-url-3@h"})

    assert hidden("nested-value-1 plain-value-2 pw-in-url-3") == "*** plain-value-2 ***"


def test_keys_are_known_by_the_form_that_their_issuers_give_them() -> None:
    text = "sk-proj-abcdefgh12 ghp_abcdefghijklmnopqrstu desk-job risk-free"
    assert mask_text(text) == "*** *** desk-job risk-free"
    assert hidden(text) == text  # too short for a key: in data, it may be an example of one


@pytest.mark.parametrize(
    "text",
    [
        "--header 'X-Team-Token=${TEAM_TOKEN}'",
        "--header X-Team-Token=${TEAM_TOKEN}",
        'headers: {"x-api-key": "${API_KEY}"}',
        "api_key: ${API_KEY}",
        "Authorization: Bearer ${API_KEY}",
    ],
)
def test_the_name_of_a_variable_is_no_credential(text: str) -> None:
    assert mask_text(text) == text


PEM = "-----BEGIN {}PRIVATE KEY-----\nMIIEvQIBADAN{}\n-----END {}PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AZURE_STORAGE_CONNECTION_STRING", "Protocol=https;AccountKey={};EndpointSuffix=core"),
        ("NOTIFY_URL", "https://hooks.slack.com/services/{}"),
        ("SIGNED_URL", "https://acc.blob.core.windows.net/c/f?sp=r&sig={}"),
        ("PRESIGNED", "https://b.s3.amazonaws.com/k?X-Amz-Signature={}&X-Amz-Date=2026"),
        ("FUNCTION", "https://f.azurewebsites.net/api/x?code={}"),
        ("PG_CONNECTION", "host=db user=bob password={}"),
        ("JWT_PRIVATE", "{}"),
        ("DOC_SIGNING", "{}"),
        ("DEPLOY_CRED", "{}"),
        ("BOT", "https://api.telegram.org/bot{}/send"),
        ("REDIS", "redis://:{}@cache.example/0"),
        ("CERTIFICATE", PEM.format("", "\n{}", "")),
    ],
)
def test_a_value_is_known_by_its_form_or_a_rarer_name(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value.format("q7Zx8Kj3Vb6Nm1"))
    assert hidden("27 q7Zx8Kj3Vb6Nm1") == "27 ***"


@pytest.mark.parametrize(
    "text",
    [
        "403 for url: https://acc.blob.core.windows.net/c/f?sv=2022&sig={}%3D",
        "GET https://b.s3.amazonaws.com/k?X-Amz-Signature={}&X-Amz-Expires=60",
        "500 for url: https://f.azurewebsites.net/api/x?code={}==",
        "bad key: DefaultEndpointsProtocol=https;AccountKey={}/+==;EndpointSuffix=core",
        'connection to "host=db password={}" failed',
        PEM.format("EC ", "\n{}", "EC "),
        "headers: x-api-key: {}",
        "{{'Authorization': 'Bearer {}', 'Accept': '*/*'}}",
        "POST https://hooks.slack.com/services/T00/B00/{}",
        "Set-Cookie: session={}; HttpOnly",
        '{{"body": "{{\\"client_secret\\": \\"{}\\"}}"}}',
        "Endpoint=sb://x/;SharedAccessKey={};EntityPath=q",
    ],
)
def test_an_error_s_text_shows_no_credential(text: str) -> None:
    masked = mask_text(text.format("q7Zx8Kj3Vb6Nm1"))

    assert "q7Zx8Kj3Vb6Nm1" not in masked
    assert "MIIE" not in masked
    assert MASK in masked


def test_a_secret_in_two_writes_does_not_reach_the_file(tmp_path: Path) -> None:
    hide("in-two-halves-0123456789")
    plain = tmp_path / "a.txt"
    compressed = tmp_path / "a.txt.gz"

    for path in (plain, compressed):
        with written_whole(path) as file:
            file.write(b"x in-two-hal")
            file.write(b"ves-0123456789 y\nlast in-two-halves-0123")
            file.write(b"456789")

    assert plain.read_bytes() == b"x *** y\nlast ***"
    assert gzip.decompress(compressed.read_bytes()) == b"x *** y\nlast ***"


def test_texts_of_several_lines_keep_their_lines() -> None:
    assert shown_text("a\x1b[2J\r\nb\tc\rd\u202e") == "a\\u001b[2J\nb\tc\\u000dd\\u202e"


@given(st.text())
def test_nothing_acts_and_what_is_plain_stays(text: str) -> None:
    shown = shown_text(text)

    for letter in shown:
        assert letter in "\n\t" or ord(letter) >= 32
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert "\u202e" not in shown
    if text.isascii() and text.isprintable():
        assert shown == text
