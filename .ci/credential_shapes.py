"""Writes ``ragbench/issuers.json``: how the credentials of each issuer begin, and what follows.

Run again where the list has new rules, or an issuer is added below:

    git clone https://github.com/gitleaks/gitleaks && python .ci/credential_shapes.py gitleaks

The rules are those of the secret scanner gitleaks (MIT). Of its 222 rules those are taken by which
a credential is known from its own text, wherever it stands. The others need a name beside it, as
in ``datadog_key = 0a1b...``, and `ragbench.masking` recognises such names by itself.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

TARGET = Path(__file__).resolve().parents[1] / "ragbench" / "issuers.json"

LEFT_OUT = {
    "atlassian-api-token": "two rules in one; see below",
    "generic-api-key": "any text behind a name",
    "beamer-api-token": "b_ and 44 letters may be an id",
    "okta-access-token": "00 and 40 letters may be an id",
    "curl-auth-header": "the header is recognised by its name",
    "curl-auth-user": "a command line",
    "facebook-access-token": "begins with any number",
    "freemius-secret-key": "a name in a file of PHP",
    "jwt-base64": "no issuer gives it out so",
    "kubernetes-secret-yaml": "a file as a whole",
    "nuget-config-password": "a line of a file",
    "pkcs12-file": "the name of a file",
    "private-key": "masking.py has its own, which needs no end of the key",
    "sidekiq-sensitive-url": "user and password of any URL are masked",
    "flutterwave-public-key": "public",
    "mailgun-pub-key": "public",
    "lob-api-key": "test_ and 35 digits may be an id",
    "lob-pub-api-key": "public",
    "gocardless-api-token": "live_ and 40 letters may be an id",
    "mailgun-private-api-token": "key- and 32 digits may be an id",
    "slack-webhook-url": "see below",
    "sourcegraph-access-token": "may be any SHA-1; see below",
    "sumologic-access-id": "an id",
    "square-access-token": "EAAA begins base64 of binary data; see below",
}
ELSEWHERE = {
    "azure-ad-client-secret": "Q~",
    "hashicorp-tf-api-token": ".atlasv1.",
    "maxmind-license-key": "_mmk",
    "microsoft-teams-webhook": "/IncomingWebhook/",
}
"""What is in the middle of a credential that begins with anything."""

# What issuers document, or their keys show, and the list does not have: pattern behind a name, and
# a word of the middle where the beginning is no fixed text.
MORE = {
    "anthropic": r"sk-ant-[a-z0-9]{2,12}-[\w-]{60,}",
    "anyscale": r"esecret_[A-Za-z0-9]{24,}",
    "apify": r"apify_api_[A-Za-z0-9]{30,}",
    "atlassian": r"ATATT3[\w=-]{60,}",
    "aws-bedrock": r"bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t[\w+/=%-]*",
    "azure-account": r"AccountKey=[A-Za-z0-9+/]{86}==",
    "azure-shared-access": r"SharedAccessKey=[A-Za-z0-9+/]{43}=",
    "bitbucket": r"ATBB[A-Za-z0-9]{28,}",
    "brave": r"BSA[A-Za-z0-9_-]{28}",
    "cerebras": r"csk-[a-z0-9]{40,}",
    "cloudflare": r"cf(?:ut|at|k)_[A-Za-z0-9_-]{40,}",
    "contentful": r"CFPAT-[\w-]{40,}",
    "crates": r"cio[A-Za-z0-9]{32}",
    "docker": r"dckr_(?:pat|oat)_[\w-]{20,}",
    "discord-webhook": r"discord(?:app)?\.com/api/webhooks/\d{17,20}/[\w-]{60,}",
    "doppler": r"dp\.(?:ct|pt|sa|scim|audit|said|st(?:\.[\w-]{2,35})?)\.[A-Za-z0-9]{40,44}",
    "e2b": r"e2b_[a-f0-9]{40}",
    "elevenlabs": r"sk_[a-f0-9]{48}",
    "figma": r"figd_[\w-]{36,}",
    "firecrawl": r"fc-[a-f0-9]{32}",
    "fireworks": r"fw_[A-Za-z0-9]{20,}",
    "github-app": r"gh[usr]_[A-Za-z0-9_.-]{36,}",
    "google-access": r"ya29\.[\w-]{50,}",
    "google-client": r"GOCSPX-[\w-]{28}",
    "google-gemini": r"AQ\.Ab[\w-]{40,}",
    "grafana": r"glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}",
    "groq": r"gsk_[A-Za-z0-9]{40,}",
    "honeycomb": r"hc[ab]ik_[A-Za-z0-9]{40,}",
    "huggingface": r"hf_[A-Za-z0-9]{34,}",
    "jina": r"jina_[A-Za-z0-9_-]{40,}",
    "langfuse": r"sk-lf-[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}",
    "langsmith": r"ls(?:v2_(?:pt|sk|st)_|__)[a-f0-9]{32}(?:_[a-f0-9]{10})?",
    "linear": r"lin_(?:api|oauth)_[A-Za-z0-9]{40,}",
    "llama-cloud": r"llx-[A-Za-z0-9]{40,}",
    "mailgun": r"key-[a-f0-9]{32}",
    "mailersend": r"mlsn\.[a-f0-9]{64}",
    "matrix": r"syt_[A-Za-z0-9]{4,}_[A-Za-z0-9]{20}_[A-Za-z0-9]{6}",
    "neon": r"napi_[a-z0-9]{50,}",
    "netlify": r"nf[pcoub]_[A-Za-z0-9]{36}",
    "new-relic": r"NRA[KA]-[A-Z0-9]{27}",
    "notion": r"(?:ntn|secret)_[A-Za-z0-9]{43,46}",
    "nuget": r"oy2[a-z0-9]{43}",
    "nvidia": r"nvapi-[\w-]{50,}",
    "openai": r"sk-(?:proj|svcacct|admin|None)-[\w-]{40,}",
    "openai-and-alike": r"sk-[A-Za-z0-9]{32,}",
    "openrouter": r"sk-or-v1-[a-f0-9]{64}",
    "perplexity": r"pplx-[A-Za-z0-9]{40,}",
    "pinecone": r"pcsk_[A-Za-z0-9_]{40,}",
    "posthog": r"ph[xsr]_[A-Za-z0-9]{40,}",
    "pypi": r"pypi-[\w-]{85,}",
    "render": r"rnd_[A-Za-z0-9]{28,}",
    "replicate": r"r8_[A-Za-z0-9]{37}",
    "resend": r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}",
    "runpod": r"rpa_[A-Z0-9]{40,}",
    "sendgrid": r"SG\.[\w-]{16,}\.[\w-]{16,}",
    "sendinblue": r"x(?:key|smtp)sib-[a-f0-9]{64}-[A-Za-z0-9]{16}",
    "sentry": r"sntry[su]_[\w+/=]{60,}",
    "slack-webhook": r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{43,56}",
    "sonar": r"sq[pau]_[a-f0-9]{40}",
    "sourcegraph": r"sgp_(?:(?:[a-fA-F0-9]{16}|local)_)?[a-fA-F0-9]{40}",
    "square": r"sq0(?:atp|csp|idp)-[\w-]{22,60}",
    "square-production": r"EAAA[lE][\w-]{59}",
    "stripe-webhook": r"whsec_[A-Za-z0-9+/=]{32,}",
    "supabase": r"sb(?:p_[a-f0-9]{40}|_secret_[\w-]{22,})",
    "tavily": r"tvly-(?:dev-|prod-)?[A-Za-z0-9-]{32,}",
    "telegram": (r"\d{8,10}:AA[\w-]{32,33}", ":AA"),
    "together": r"tgp_v1_[\w-]{40,}",
    "vault": r"hv[sbr]\.[\w-]{24,}",
    "vercel": r"vc[pik]_[A-Za-z0-9]{24,}",
    "voyage": r"pa-[\w-]{43}",
    "wandb": r"wandb_v1_[\w-]{60,}",
    "xai": r"xai-[A-Za-z0-9]{60,}",
}
ENTROPY = 3.0
"""Bits for each character that a credential of `MORE` has at least: "sk-xxxxxxxx" has none."""

NAMED = re.compile(r"\{0,50\}\?\(")
VALUE = r"""[\x60'"\s=]{0,5}"""
END = re.compile(
    r"(?:\(\?:\[\\x60'\"\\s;\]\|\\\\\[nr\]\|\$(?:\|\\b)?\)|\(\?:\[\^[^]]+\]\|\\z\)|"
    r"\(\?:\$\|\[[^]]+\]\)|\\b)$"
)
"""What gitleaks wants behind a credential: a quotation mark, a space, the end of a line."""
START = re.compile(r"^(?:\(\?i\))?(?:\\b|\(\?:\^\|\[[^]]+\]\))")


def main(repository: Path) -> None:
    """Reads the list of a clone, and writes the table."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(repository), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    commit, date = git("log", "-1", "--format=%H %cs").split()
    rules = tomllib.loads(git("show", f"{commit}:config/gitleaks.toml"))["rules"]
    shapes: dict[str, dict[str, Any]] = {}
    for rule in rules:
        if rule["id"] not in LEFT_OUT:
            for number, shape in enumerate(shapes_of(rule), 1):
                name = rule["id"] if number == 1 else f"{rule['id']}-{number}"
                shapes[name] = shape
    more: dict[str, dict[str, Any]] = {}
    for name, entry in MORE.items():
        pattern, middle = entry if isinstance(entry, tuple) else (entry, None)
        where = {"begins": beginnings(pattern)} if middle is None else {"holds": middle}
        more[name] = {**where, "pattern": ended(pattern), "entropy": ENTROPY}
    table = {
        "source": f"https://github.com/gitleaks/gitleaks/blob/{commit}/config/gitleaks.toml",
        "licence": "MIT, Copyright (c) 2019 Zachary Rice",
        "date": date,
        "made_by": ".ci/credential_shapes.py",
        "listed": shapes,
        "more": more,
    }
    TARGET.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(shapes)} shapes of the list, {len(more)} more\n")


def shapes_of(rule: dict[str, Any]) -> list[dict[str, Any]]:
    """A rule's shapes: one for each way in which its credential begins; none of a named one."""
    regex = rule["regex"].replace("[[:alnum:]]", "[A-Za-z0-9]")
    is_named = NAMED.search(regex) is not None
    if is_named:
        regex = "(?i)" + regex.rpartition(VALUE)[2]
    has_end = END.search(regex) is not None
    is_case_free = regex.startswith("(?i)")
    regex = END.sub("", START.sub("", regex)).removeprefix("(?i)")
    if is_case_free:
        regex = f"(?i:{regex})"
    regex = scoped(regex)
    facts: dict[str, Any] = {}
    if "entropy" in rule:
        facts["entropy"] = rule["entropy"]
    for allowed in rule.get("allowlists", []):
        # Keys that a public page shows are in the list as they are: not here.
        if len(allowed.get("regexes", [])) == 1:
            facts["unless"] = allowed["regexes"][0]
    if rule["id"] in ELSEWHERE:
        return [{"holds": ELSEWHERE[rule["id"]], "pattern": ended(regex, has_end), **facts}]
    shapes: list[dict[str, Any]] = []
    for pattern in alternatives(regex):
        try:
            begins = beginnings(pattern)
        except ValueError:
            if not is_named:
                sys.stdout.write(f"{rule['id']} begins with anything: {pattern}\n")
            continue
        shapes.append({"begins": begins, "pattern": ended(pattern, has_end), **facts})
    return shapes


def ended(pattern: str, has_end: bool = True) -> str:
    """A pattern that ends with its credential: not within a word, or with all of the word."""
    re.compile(pattern)
    behind = "(?![A-Za-z0-9])" if has_end else "[A-Za-z0-9]*"
    return f"{pattern}{behind}"


def scoped(regex: str) -> str:
    """A pattern in which ``(?i)`` has a group, as Python wants it, up to the end of its own."""
    while "(?i)" in regex:
        before, _, after = regex.partition("(?i)")
        depth = 0
        position = 0
        is_set = False
        while position < len(after):
            character = after[position]
            if character == "\\":
                position += 1
            elif character == "[":
                is_set = True
            elif character == "]":
                is_set = False
            elif character == "(" and not is_set:
                depth += 1
            elif character == ")" and not is_set:
                depth -= 1
                if depth < 0:
                    break
            elif character == "|" and depth == 0 and not is_set:
                raise ValueError(f"an alternative in {regex}")
            position += 1
        regex = f"{before}(?i:{after[:position]}){after[position:]}"
    return regex


def alternatives(regex: str) -> list[str]:
    """The alternatives of a pattern that is one group of them, however deep; else the pattern."""
    match = re.fullmatch(r"\((\?i:|\?:|)(.*)\)", regex, re.DOTALL)
    inner = regex if match is None else match[2]
    parts = [""]
    depth = 0
    for token in re.findall(r"\\.|\[(?:\\.|[^]\\])*\]|.", inner, re.DOTALL):
        if token == "(":
            depth += 1
        elif token == ")":
            depth -= 1
            if depth < 0:  # the first and the last parenthesis are no pair
                return [regex]
        if token == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    if len(parts) == 1 and (match is None or "(" not in inner[:1]):
        return [regex]
    flag = "?i:" if match is not None and match[1] == "?i:" else "?:"
    found: list[str] = []
    for part in parts:
        found += [f"({flag}{piece})" for piece in alternatives(part)]
    return found


LONGEST = 12


def beginnings(pattern: str) -> list[str]:
    """The fixed texts with which a pattern begins, at least two characters and at most twelve."""
    texts = _texts(list(parser.parse(pattern)))
    begins = sorted({text[:LONGEST] for text, _ in texts})
    for text in begins:
        if len(text) < 2 or (not text[0].isalnum() and text[0] != "_"):
            raise ValueError(f"{pattern} begins with {text!r}")
    return begins


def _texts(items: list[Any]) -> list[tuple[str, bool]]:
    """The texts with which a sequence begins, and whether each of them is the whole sequence."""
    texts = [("", True)]
    for operation, value in items:
        nexts = _texts_of(operation, value)
        extended: list[tuple[str, bool]] = []
        for text, is_whole in texts:
            if is_whole:
                extended += [(text + more, whole) for more, whole in nexts]
            else:
                extended.append((text, False))
        texts = extended
        if len(texts) > 40 or not any(is_whole for _, is_whole in texts):
            break
    return texts


def _texts_of(operation: Any, value: Any) -> list[tuple[str, bool]]:
    """The texts of one part of a pattern; an empty one that is not whole where it may be any."""
    if operation is codes.LITERAL:
        return [(chr(value), True)]
    if operation is codes.SUBPATTERN:
        return _texts(list(value[3]))
    if operation is codes.BRANCH:
        return [text for branch in value[1] for text in _texts(list(branch))]
    if operation is codes.IN:
        members = [chr(item) for code, item in value if code is codes.LITERAL]
        if len(members) == len(value) <= 6:
            return [(member, True) for member in members]
    return [("", False)]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
