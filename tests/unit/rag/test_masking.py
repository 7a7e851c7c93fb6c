import pytest

from ragbench.masking import is_secret, mask_text, mask_url

SECRET = (
    "api_key apiKey OPENAI_API_KEY X-Api-Key token hf_token Authorization password db.password "
    "Cookie Set-Cookie client_secret accessKey pwd pw sig X-Amz-Signature AccountKey DOC_SIGNING"
)
OTHER = (
    "max_tokens tokenizer top_k key sort_key keyword author secretary index monkey api_key_file "
    "TOKEN_PATH pass_rate private_notes"
)


def test_names_of_secrets() -> None:
    assert [name for name in SECRET.split() if not is_secret(name)] == []
    assert [name for name in OTHER.split() if is_secret(name)] == []


@pytest.mark.parametrize(("url", "masked"), [
    ("http://host/path?q=1#x", "http://host/path?q=1#x"),
    ("http://user@host", "http://***@host"),
    ("http://user:p%40ss@host:80/x", "http://***@host:80/x"),
    ("http://h/x?access_token=a&b=c", "http://h/x?access_token=***&b=c"),
    ("http://[bad", "***"),
])  # fmt: skip
def test_urls(url: str, masked: str) -> None:
    assert mask_url(url) == masked


def test_texts() -> None:
    text = "GET http://bob:pw@host/x failed (Authorization: Bearer abcd.efgh), key xyzxyz"
    masked = "GET http://***@host/x failed (Authorization: Bearer ***), key ***"
    assert mask_text(text, ["xyz", "xyzxyz"]) == masked


@pytest.mark.parametrize("prose", [
    "Invalid token: unexpected end", "eos_token=50256, max_tokens=4096", "token_f1: 0.53211",
    "got an unexpected token=None", "the secret: never give up", "?code=404", "sort_key=name",
    "-----BEGIN CERTIFICATE-----\nMIIE", "api_key_env=MY_KEY",
])  # fmt: skip
def test_what_is_no_credential_stays(prose: str) -> None:
    assert mask_text(prose) == prose


def test_a_long_text_of_half_shapes_takes_no_time() -> None:
    for piece in ("cookie=", "token:", "password='", "-----BEGIN PRIVATE KEY-----", 'secret="\\'):
        assert mask_text(piece * 30_000)  # were it quadratic, this would take minutes
