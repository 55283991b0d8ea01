"""Secrets in texts of others, known by their form, by the name before them, or because they look random.

This is a second lock. What leaves a cluster or a machine is chosen field by field and word by word elsewhere; here the
texts that pass that choice lose what looks like a secret all the same. What is matched is never looked at again, and
what is looked at in vain is bounded, so the work is linear in the text.
"""

import re
from collections.abc import Iterator

HIDDEN = "***"
"""The text in the place of a secret."""

_ISSUED = (
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),  # GitHub
    *("npm_", "hf_", "dapi", "r8_", "ntn_", "secret_"),  # npm, Hugging Face, Databricks, Replicate, Notion
    *("AKIA", "ASIA", "AROA", "AIDA", "ABIA", "ACCA"),  # Amazon
    *("EAA", "AKCp", "cmVmd", "vcp_", "nfp_", "gsk_"),  # Facebook and Square, Artifactory, Vercel, Netlify, Groq
)
"""What issuers put before letters and digits, at least :data:`_SHORTEST` of them."""
_ISSUED_WITH_MARKS = (
    *("github_pat_", "glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glsoat-", "glagent-"),  # GitHub, GitLab
    *("xoxa-", "xoxb-", "xoxc-", "xoxd-", "xoxe-", "xoxe.", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"),  # Slack
    *("sk-", "sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"),  # OpenAI, Anthropic, Stripe
    *("nvapi-", "AIza", "ya29.", "GOCSPX-", "pypi-", "dckr_pat_", "dckr_oat_"),  # NVIDIA, Google, PyPI, Docker
    *("glsa_", "glc_", "hvs.", "hvb.", "hvr.", "SG.", "NRAK-", "PMAK-", "SSWS "),  # Grafana, Vault, SendGrid and others
    *("dop_v1_", "doo_v1_", "dor_v1_", "shpat_", "shpss_", "shpca_", "shppa_"),  # DigitalOcean, Shopify
    *("lin_api_", "lin_oauth_", "dp.pt.", "dp.st.", "dp.ct.", "ATATT", "ATCTT", "sl."),  # Linear, Doppler, Atlassian
    *("sq0atp-", "sq0csp-", "sbp_", "pscale_", "tskey-", "sk.ey", "pk.ey", "fm1_", "fm2_"),
    *("AGE-SECRET-KEY-", "rubygems_", "eyJ", "ewog", "eyAi"),  # the last three: JSON in base64, such as JSON Web Tokens
)
"""What they put before letters, digits and marks."""
_KEYS = (
    *("api", "access", "app", "application", "account", "admin", "auth", "client", "consumer", "deploy", "encryption"),
    *("ingest", "integration", "license", "master", "private", "secret", "service", "shared", "signing", "ssh"),
    *("storage", "subscription", "write"),
)
"""What says before ``key``, with or without one of :data:`_JOINTS` between them, that a secret follows."""
_PARTS = (
    *("token", "passw", "passphrase", "passcode", "passkey", "secret", "credential", "authorization", "cookie"),
    *("signature", "requirepass", "masterauth", "userpass", "dbpass", "mnemonic"),
    *(
        f"{word}{joint}{other}"
        for word, other in (("session", "id"), ("connection", "string"))
        for joint in ("", "_", "-")
    ),
)
"""What says so in any name."""
_WHOLE = ("pass", "pwd", "pw", "pat", "sig", "auth", "dsn", "jwt", "otp", "psk", "sas")
"""What says so as a word of a name."""
_NO_SECRET = frozenset({"", "true", "false", "null", "none", "redacted", HIDDEN})
"""Of a value without its brackets and quotes: ``"serviceAccountToken": {`` stands in every pod."""
_JOINTS = ("_", "-", " ")
_LONG, _LONGER = 20, 32
"""Characters from which on a text may be random; from which on chance varies less."""

_QUOTE = r"(?:\\{0,16}[\"']|\\{1,16}u002[27]|%2[27]|&quot;|&#3[49];)?"
_BARE = r"(?:(?:Bearer|Basic)\s{1,4})?(?:[^\s\"',;\\]|\\(?![\"'])|[,;](?![\w.-]{0,64}+[:=]|[\s\"'\\}\])]|\Z))+"
_VALUE = re.compile(
    r"\"(?:\\.|[^\"\\])*+\"?|'[^']*+'?"
    r"|(?P<escapes>\\{1,16})\"(?:[^\"\\]++|\\++(?!\")|(?P=escapes)\\++\")*+(?:(?P=escapes)\")?"
    rf"|[|>][+-]?[ \t]{{0,8}}\n[^\n]+|{_BARE}",
    re.IGNORECASE | re.DOTALL,
)
"""A value: in quotes, in quotes of JSON in JSON, the first line of a block of YAML, or a word."""
_AFTER = re.compile(
    r"[\w.-]{0,64}+(?<!error)(?<!exception)(?<!warning)(?:"
    rf"(?P<variable>{_QUOTE}\s{{0,80}}+,?\s{{0,80}}+{_QUOTE}value{_QUOTE}\s{{0,8}}:\s{{0,8}})"
    rf"|(?P<pair>{_QUOTE}\s{{0,8}}(?:=>|:=|[:=]|%3[ad])\s{{0,8}}(?:\[\s{{0,8}}(?=\\{{0,16}}[\"']))?)"
    r"|(?P<flag>(?:\\{0,16}[\"']\s{0,8},\s{0,8}|\s{1,8})(?!-))"
    r"|(?P<element>>\s{0,8}(?=[^<>]{1,512}+</)))",
    re.IGNORECASE,
)
"""What stands between a name, after the part of it that tells, and its value."""
_BEFORE_VARIABLE = re.compile(rf"name{_QUOTE}\s{{0,8}}:\s{{0,8}}{_QUOTE}\Z", re.IGNORECASE)
_BEFORE_LINE = re.compile(r"[ \t]{0,64}(?:-[ \t])?\Z")
_OF_LINE = re.compile(r"[^\s\"'|>\[{&*!\\][^\r\n\"'\\]*+")
_OF_HEADER = re.compile(r"(?:[^\r\n\"'\\]++|(?<==)\\{0,16}\"[^\"\r\n]*+\")+")
_OF_ELEMENT = re.compile(r"[^<>]+")
_NAMED_SO = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
_SPOKEN_WORDS = ("token", "password", "passphrase", "bearer", "ssws", "flyv1")
"""What says so without a mark before the next word."""
_SPOKEN = re.compile(rf"((?<![\w-])(?:{'|'.join(_SPOKEN_WORDS)})\s{{1,8}})[^\s\"',;.:=(){{}}\\]{{3,}}", re.IGNORECASE)
_SHORT_FLAG = re.compile(
    r"(-(?<![\w-]-)(?:"
    r"p(?:[\s=]{1,8}|\\{0,16}[\"']\s{0,8},\s{0,8}\\{0,16}[\"'])(?!\d[\d.:]*+(?!\S)|[./~$-])"
    r"|(?:u|-user|-proxy-user)[\s=]{1,8}(?=[^\s:]{1,64}+:)))" + _BARE
)
"""``-p PASSWORD``, but no port or path; ``-u USER:PASSWORD``."""
_USER = re.compile(r"://((?:(?!://|\\[\"'])[^\s\"'<>])++)")
_PASSWORD = re.compile(r":[^\s:@/\"'<>,]{3,128}+@(?!sha\d)(?=[\w(\[])")
"""Of a user, in a text that is no URL: ``user:password@tcp(host)``."""
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?!-----END)[\s\S])*+"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?"
)
_TOKEN = re.compile(
    rf"(?<![A-Za-z0-9])(?:(?:{'|'.join(_ISSUED)})[A-Za-z0-9]{{16,}}"
    rf"|(?:{'|'.join(map(re.escape, _ISSUED_WITH_MARKS))})[\w.~+/=-]{{16,}})"
)
_HEADS = frozenset(each[:2] for each in (*_ISSUED, *_ISSUED_WITH_MARKS))
_RUN = re.compile(r"[A-Za-z0-9_+/=.~-]{19,}+")
_PIECE = re.compile(r"[A-Za-z0-9]+")
_GROUP = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_BOOTSTRAP = re.compile(r"(?<![\w.-])[a-z0-9]{6}\.(?=[a-z]*[0-9])[a-z0-9]{16}(?![\w.-])")
_WORTH = re.compile(r"[A-Z]|[a-z0-9]{16}")
"""What every secret in a run has: names of objects have neither capitals nor that many characters without a mark."""
_OF_BOOTSTRAP = 16
_DIGEST = re.compile(r"[0-9a-f]{64}")


def may_hold_secret(text: str) -> bool:
    """Returns whether it is worth to look for secrets in a text, of which the text may be a part."""
    small = _small(text)
    return (
        "@" in text
        or any(word in small for word in _SPOKEN_WORDS)
        or any(True for _ in _telltales(small))
        or _SHORT_FLAG.search(text) is not None
        or any(_is_secret(found, guess=True) for found in _RUN.finditer(text))
    )


def without_secrets(text: str, *, guess: bool = True) -> str:
    """Returns a text with :data:`HIDDEN` in the place of everything that has the form of a secret.

    Args:
        text: A text of any length.
        guess: Whether what only looks random is hidden too. Not for names that are compared with others.
    """
    if "PRIVATE KEY" in text:
        text = _PRIVATE_KEY.sub(HIDDEN, text)
    if "@" in text:
        text = _PASSWORD.sub(f":{HIDDEN}@", _USER.sub(_without_user, text))
    small = _small(text)
    places = sorted(_telltales(small))
    if places:
        text = _without_named(text, places)
    if any(word in small for word in _SPOKEN_WORDS):
        text = _SPOKEN.sub(rf"\1{HIDDEN}", text)
    text = _SHORT_FLAG.sub(rf"\1{HIDDEN}", text)
    return _RUN.sub(lambda found: _without_run(found, guess=guess), text)


def says_secret(name: str) -> bool:
    """Returns whether a name, such as the key of an annotation, says that its value is a secret."""
    return any(True for _ in _telltales(_small(name)))


def _small(text: str) -> str:
    """Return a text in small letters, of the same length: some capitals, such as of Turkish, are two small ones."""
    small = text.lower()
    if len(small) == len(text):
        return small
    return "".join([letter.lower() if letter.isascii() else letter for letter in text])


def _telltales(small: str) -> Iterator[tuple[int, int]]:
    """Yield where a text in small letters has what says that a secret follows: begin and end."""
    for sign in _PARTS:
        yield from _places(small, sign)
    for sign in _WHOLE:
        yield from (
            (begin, end)
            for begin, end in _places(small, sign)
            if not small[begin - 1 : begin].isalpha() and not small[end : end + 1].isalpha()
        )
    for begin, end in _places(small, "key"):
        before = small[max(0, begin - 16) : begin]
        if (before[:-1] if before[-1:] in _JOINTS else before).endswith(_KEYS) or (
            before[-1:] in "_-" and small[end : end + 1] == "="
        ):
            yield begin, end


def _places(small: str, sign: str) -> Iterator[tuple[int, int]]:
    begin = small.find(sign)
    while begin >= 0:
        end = begin + len(sign)
        yield begin, end
        begin = small.find(sign, end)


def _without_named(text: str, places: list[tuple[int, int]]) -> str:
    kept, done = [], 0
    for begin, end in places:
        value = _value_after(text, begin, end) if begin >= done else None
        if value and value[0].strip("{}[]()\"'\\ \t").lower() not in _NO_SECRET:
            opening = re.match(r"\\{0,16}[\"']", value[0])
            quote = opening[0] if opening else ""
            kept += [text[done : value.start()], f"{quote}{HIDDEN}{quote}"]
            done = value.end()
    return "".join([*kept, text[done:]])


def _value_after(text: str, begin: int, end: int) -> re.Match[str] | None:
    """Return the value whose name has the part that tells at this place; None if no value follows."""
    after = _AFTER.match(text, end)
    if after is None:
        return None
    before = text[max(0, begin - 120) : begin]
    lead = before.rstrip(_NAMED_SO)
    if after["element"]:
        return _OF_ELEMENT.match(text, after.end())
    if after["flag"]:
        name = before[len(lead) :] + text[begin:end]
        is_name = name.startswith("-") or ("_" in name and name.isupper() and after["flag"].isspace())
        return _VALUE.match(text, after.end()) if is_name else None
    if after["variable"]:
        return _VALUE.match(text, after.end()) if _BEFORE_VARIABLE.search(lead) else None
    if text[begin:end].lower() in ("authorization", "cookie") and (found := _OF_HEADER.match(text, after.end())):
        return found
    is_yaml = after["pair"].startswith(":") and after["pair"][-1].isspace()
    is_line = is_yaml and _BEFORE_LINE.fullmatch(lead.rpartition("\n")[2])
    return (is_line and _OF_LINE.match(text, after.end())) or _VALUE.match(text, after.end())


def _without_user(found: re.Match[str]) -> str:
    """Hide the user of a URL. A password may contain an @ or a slash, so the last @ counts after a colon."""
    word = found[1]
    host = re.split("[/?#]", word, maxsplit=1)[0]
    has_password = ":" in host and not re.fullmatch(r"[^@:]*:\d{0,5}|\[[^@]*", host)
    user, at, rest = (word if has_password else host).rpartition("@")
    return f"://{HIDDEN}@{rest}{'' if has_password else word[len(host) :]}" if at and user else found[0]


def _without_run(found: re.Match[str], *, guess: bool) -> str:
    if not _is_secret(found, guess=guess):
        return found[0]
    name, equals, _ = found[0].rstrip("=").rpartition("=")
    return f"{name}{equals}{HIDDEN}"


def _is_secret(found: re.Match[str], *, guess: bool) -> bool:
    """Whether a run of letters, digits and marks was issued by one of those above, or looks drawn by chance."""
    run = found[0].rstrip("=")
    if not _WORTH.search(run):
        return False
    pieces = _PIECE.findall(run)
    if not _HEADS.isdisjoint([each[:2] for each in pieces]) and _TOKEN.search(run):
        return True
    return guess and _is_random(run, pieces) and not _is_digest(found)


def _is_digest(found: re.Match[str]) -> bool:
    before = found.string[max(0, found.start() - 7) : found.start()]
    return before == "sha256:" and _DIGEST.fullmatch(found[0]) is not None


def _is_random(run: str, pieces: list[str]) -> bool:
    if "=" in run:
        run = run.rpartition("=")[2]
        pieces = _PIECE.findall(run)
    longest = max(map(len, pieces), default=0)
    if longest >= _LONG:
        return any(len(each) >= _LONG and _is_mixed(each) for each in pieces) or _is_dense(run, pieces)
    if longest == _OF_BOOTSTRAP and _BOOTSTRAP.search(run):
        return True
    return not run.islower() and _is_dense(run, pieces)


def _is_dense(run: str, pieces: list[str]) -> bool:
    """Whether small letters, capitals and digits are mixed across a few marks."""
    text = "".join(pieces)
    if len(text) < _LONG or 8 * (len(run) - len(text)) > len(text) or text.islower() or text.isupper():
        return False
    return any(map(str.isdigit, text)) and _is_mixed(text)


def _is_mixed(text: str) -> bool:
    """Whether small letters, capitals and digits change too often for words: in base64 after two characters."""
    if text.isdigit() or (text.isalpha() and (text.islower() or text.isupper())):
        return False
    if text.islower() or text.isupper():
        return len(text) <= 6 * len(_GROUP.findall(text))
    return len(text) <= (3.5 if len(text) >= _LONGER else 3.1) * len(_GROUP.findall(text))
