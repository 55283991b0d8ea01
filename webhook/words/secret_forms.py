"""Secrets in texts of others, known by their form or by the word before them.

This is a second lock. What leaves a cluster or a machine is chosen field by field and word by word elsewhere; here the
texts that pass that choice lose what looks like a secret all the same. Every form is bounded, so the work is linear in
the text.
"""

import re

HIDDEN = "***"
"""The text in the place of a secret."""

_PRIVATE_KEY = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----(?:(?!-----END)[\s\S])*(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----)?"
)
_USER_OF_URL = r"(?<=://)[^\s/@\"'<>]{1,512}@"
_ISSUED = (
    r"gh[opusr]_[A-Za-z0-9]{16,255}",  # GitHub
    r"github_pat_\w{16,255}",
    r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent)-[\w.-]{16,255}",  # GitLab
    r"hf_[A-Za-z0-9]{16,255}",  # Hugging Face
    r"xox[a-z]-[\w-]{8,255}",  # Slack
    r"sk-[\w-]{16,255}",  # OpenAI, Anthropic
    r"[rs]k_(?:live|test)_\w{8,255}",  # Stripe
    r"nvapi-[\w-]{16,255}",  # NVIDIA
    r"AIza[\w-]{30,255}",  # Google
    r"ya29\.[\w-]{16,1024}",
    r"(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,124}",  # Amazon
    r"npm_[A-Za-z0-9]{30,255}",
    r"pypi-[\w-]{16,512}",
    r"dckr_pat_[\w-]{16,255}",  # Docker
    r"glsa_\w{16,255}",  # Grafana
    r"hv[bs]\.[\w-]{16,255}",  # Vault
    r"SG\.[\w.-]{16,255}",  # SendGrid
    r"eyJ[\w-]{8,8192}(?:\.[\w-]{1,8192}){0,4}",  # JSON Web Tokens
)
_TELLTALE = (
    r"(?:token|passw(?:or)?d|passphrase|secret|credential|authorization|(?<![a-z])(?:pass|pwd)(?![a-z])|"
    r"(?:api|access|private|signing|encryption|account|storage)[_-]?key)"
)
_QUOTED = r"\"(?:\\.|[^\"\\]){0,8192}\"?|'[^']{0,8192}'?"
_BARE = r"(?:(?:Bearer|Basic)\s{1,4})?(?:\\\S|[^\s\"',;])+"
_NAMED = rf"(?P<name>{_TELLTALE}[\w.-]{{0,64}}\\?[\"']?\s{{0,8}}[:=]\s{{0,8}})(?P<value>{_QUOTED}|{_BARE})"
_SPOKEN = r"(?P<spoken>(?<![\w-])(?:token|password|passphrase|bearer)\s{1,8})[^\s\"',;.:=(){}]{3,}"
_VARIABLE = (
    rf"(?P<variable>name[\"']?\s{{0,8}}:\s{{0,8}}[\"']?[\w.-]{{0,64}}{_TELLTALE}[\w.-]{{0,64}}[\"']?"
    rf"\s{{0,80}},?\s{{0,80}}[\"']?value[\"']?\s{{0,8}}:\s{{0,8}})(?P<of_variable>{_QUOTED}|[^\s\"',}}]+)"
)
"""A variable of a container, in JSON or YAML: its name stands in one member and its value in the next."""
_SECRET = re.compile(
    rf"{_PRIVATE_KEY}|(?P<user>{_USER_OF_URL})|(?<![A-Za-z0-9])(?:{'|'.join(_ISSUED)})|(?i:{_VARIABLE}|{_NAMED}|{_SPOKEN})"
)
_NO_SECRET = frozenset({"", "true", "false", "null", HIDDEN})
"""Of a value without its brackets: ``"serviceAccountToken": {`` stands in every pod."""


_KEYS = ("api", "access", "private", "signing", "encryption", "account", "storage")
_SIGNS = (
    *("token", "pass", "pwd", "secret", "credential", "authorization", "bearer", "private key", "://"),
    *(f"{kind}{joint}key" for kind in _KEYS for joint in ("", "_", "-")),
    *(
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
        "glpat",
        "gldt",
        "glrt",
        "glcbt",
        "glptt",
        "glft",
        "glsoat",
        "glagent",
        "hf_",
        "xox",
        "sk-",
        "k_live_",
        "k_test_",
        "nvapi-",
    ),
    *(
        "aiza",
        "ya29.",
        "akia",
        "asia",
        "aroa",
        "aida",
        "npm_",
        "pypi-",
        "dckr_pat_",
        "glsa_",
        "hvs.",
        "hvb.",
        "sg.",
        "eyj",
    ),
)
"""What a text with a secret contains, in small letters."""


def may_hold_secret(text: str) -> bool:
    """Returns whether it is worth to look for secrets in a text; twenty times as fast as to look for them."""
    small = text.lower()
    return any(sign in small for sign in _SIGNS)


def without_secrets(text: str) -> str:
    """Returns a text with :data:`HIDDEN` in the place of everything that has the form of a secret."""
    return _SECRET.sub(_hidden, text)


def _hidden(found: re.Match[str]) -> str:
    if found["user"]:
        return f"{HIDDEN}@"
    value = found["value"] or found["of_variable"]
    if value is None:
        return f"{found['spoken'] or ''}{HIDDEN}"
    if value.strip("{}[]") in _NO_SECRET:
        return found[0]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{found['name'] or found['variable']}{quote}{HIDDEN}{quote}"
