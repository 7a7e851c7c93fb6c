import pytest

from ragbench.masking import is_secret, mask_text, mask_url

SECRET = (
    "api_key apiKey OPENAI_API_KEY X-Api-Key token hf_token Authorization password db.password "
    "Cookie Set-Cookie client_secret accessKey pwd"
)
OTHER = "max_tokens tokenizer top_k key sort_key keyword author secretary index monkey"


def test_names_of_secrets() -> None:
    assert [name for name in SECRET.split() if not is_secret(name)] == []
    assert [name for name in OTHER.split() if is_secret(name)] == []


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("http://host/path?q=1#x", "http://host/path?q=1#x"),
        ("http://user@host", "http://***@host"),
        ("http://user:p%40ss@host:80/x", "http://***@host:80/x"),
        ("http://h/x?access_token=a&b=c", "http://h/x?access_token=***&b=c"),
        ("http://[bad", "***"),
    ],
)
def test_urls(url: str, masked: str) -> None:
    assert mask_url(url) == masked


def test_texts() -> None:
    text = "GET http://bob:pw@host/x failed (Authorization: Bearer abcd.efgh), key xyzxyz"
    assert mask_text(text, ["xyz", "xyzxyz"]) == (
        "GET http://***@host/x failed (Authorization: Bearer ***), key ***"
    )
