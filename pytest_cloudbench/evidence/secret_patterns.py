"""Patterns of secrets in a text: keys, tokens, signed URLs, credentials in command lines.

A pattern is searched for only if the text has one of its hints, so that long logs of figures cost next to nothing. No
pattern matches a replacement: removing twice gives the same text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from re import Match, Pattern


def removed(what: str) -> str:
    """Return the replacement of a secret. It has no quotes or backslashes, so that JSON around it stays valid."""
    return f"(removed: {what})"


REMOVED = r"(?!\(removed: )"
START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
"""The start of a word, also after a line break as JSON writes it, which ends in a letter."""

SECRET_NAME = re.compile(
    r"""(?ix)
    secret | passw | passphrase | [_-]pwd$ | private[_-]?key(?!_file$) | ed25519_private | token$ |
    credential | ^authorization$ | proxy-authorization | api[_-]?key | access[_-]?key(?:[_-]?id)?$ |
    key[_-]?material | user[_-]?data$ | x-amz-signature | ^signature$ | ^ssh_keys$
    """
)
"""Names of fields, variables and options whose values are always removed."""

_NAMED = (
    r"[A-Za-z0-9_.-]{0,40}(?:secret|passw(?:or)?d|passphrase|token(?!s)|(?:private|api|access)[_-]?key)"
    r"[A-Za-z0-9_-]{0,40}"
)


@dataclass(frozen=True)
class SecretPattern:
    """One kind of secret. ``hints`` are in lower case; without hints it is always searched for.

    ``replacement`` is that of `re.sub`; without it the whole match is removed.
    """

    what: str
    expression: str
    hints: tuple[str, ...] = ()
    replacement: str | Callable[[Match[str]], str] = ""

    @cached_property
    def _compiled(self) -> Pattern[str]:
        return re.compile(self.expression)

    def remove(self, text: str) -> str:
        """Return the text without secrets of this kind."""
        return self._compiled.sub(self.replacement or removed(self.what), text)


def _behind(what: str) -> str:
    """Return a replacement that keeps the first group of the match: the name before the value."""
    return rf"\1{removed(what)}"


def _looks_random(match: Match[str]) -> str:
    """Remove 40 characters that look like a key: neither a hexadecimal hash nor a path of words."""
    text = match[0]
    kinds = (str.islower, str.isupper, str.isdigit)
    random = all(any(kind(char) for char in text) for kind in kinds) and not re.search("[a-z]{10}", text)
    return removed("secret access key") if random else text


_URL = r"""(?:[^\s"'<>\\?]|\\/)+"""
_QUERY = r"""(?:[^\s"'<>\\]|\\u00[0-9a-fA-F]{2}|\\/)*"""
_SIGNS = (
    "X-Amz-Signature|X-Amz-Credential|X-Amz-Security-Token|X-Goog-Signature|"
    "AWSAccessKeyId|Signature|Key-Pair-Id|sig"
)
_SIGN_HINTS = ("x-amz-", "x-goog-", "awsaccesskeyid", "signature", "key-pair-id", "sig=")
_KEY_LINES = (
    r"(?:(?:\s|\\[nr])*[A-Za-z0-9+/=]{16,})*"
    r"""(?:(?:\s|\\[nr])+[A-Za-z0-9+/=]{1,15}(?=["']|(?:\s|\\[nr])*(?:\Z|-----)))?"""
)
"""Lines of a key without its end. Anything may follow, so short lines count only at the very end."""

PATTERNS = (
    SecretPattern(
        "token", rf"{START}eyJ[A-Za-z0-9_-]{{8,}}\.eyJ[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]*", ("eyj",)
    ),
    SecretPattern(
        "private key",
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----"
        r"(?:(?:[A-Za-z0-9+/=\s:,.-]|\\[nrt])*?-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----"
        rf"|{_KEY_LINES})",
        ("private key",),
    ),
    SecretPattern("private key", rf"b3BlbnNzaC1rZXktdjE[A-Za-z0-9+/=]*{_KEY_LINES}", ("b3blbnnzac1rzxktdj",)),
    SecretPattern(
        "private key",
        rf"(Private-Lines: [0-9]+)(?=(?:\s|\\[nr])+[A-Za-z0-9+/=]{{16}}){_KEY_LINES}",
        ("private-lines",),
        _behind("private key"),
    ),
    SecretPattern(
        "signature",
        rf"(https?:(?:/|\\/){{2}}{_URL}\?){_QUERY}{START}(?:{_SIGNS})={_QUERY}",
        _SIGN_HINTS,
        _behind("signed query"),
    ),
    SecretPattern(
        "signature",
        rf"(?i)({START}(?:X-Amz-(?:Signature|Credential|Security-Token))[\"']?\s*[=:]\s*[\"']?){REMOVED}"
        r"[^\s\"'\\&,;]+",
        ("x-amz-",),
        _behind("signature"),
    ),
    SecretPattern(
        "login",
        rf"((?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{{0,20}}://){REMOVED}[^\s/@\"'\\]*:[^\s/@\"'\\]+(?=@)",
        ("://",),
        _behind("login"),
    ),
    SecretPattern(
        "authorization",
        rf"(?i)({START}authorization[\"']?\s*[=:](?!\s*[\"']?\(removed: )\s*[\"']?)"
        r"(?:[A-Za-z0-9-]+[ ]+)?(?:[A-Za-z]+=[^\s,;\"'\\]+(?:,[ ]*[A-Za-z]+=[^\s,;\"'\\]+)*|[^\s,;\"'\\]+)",
        ("authorization",),
        _behind("authorization"),
    ),
    SecretPattern(
        "authorization",
        rf"(?i)({START}bearer\s+){REMOVED}[A-Za-z0-9._~+/=-]{{8,}}",
        ("bearer",),
        _behind("authorization"),
    ),
    SecretPattern(
        "session token",
        rf"{START}(?:FwoG|IQoJ|FQoG|AQoD|AQoE)(?:[A-Za-z0-9+/=%_-]|\\/){{40,}}",
        ("fwog", "iqoj", "fqog", "aqod", "aqoe"),
    ),
    SecretPattern(
        "access key",
        rf"{START}(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{12,}}(?![a-z0-9])",
        ("akia", "asia", "abia", "acca"),
    ),
    SecretPattern(
        "token",
        rf"{START}(?:gh[pousr]_[A-Za-z0-9]{{20,}}|github_pat_[A-Za-z0-9_]{{20,}}|glpat-[A-Za-z0-9_-]{{16,}}|"
        r"xox[abprs]-[A-Za-z0-9-]{10,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}|AIza[A-Za-z0-9_-]{30,}|"
        r"[sr]k_live_[A-Za-z0-9]{16,}|hv[sb]\.[A-Za-z0-9_-]{20,}|dop_v1_[a-f0-9]{40,})",
        ("gh", "glpat-", "xox", "npm_", "pypi-", "aiza", "k_live_", "hvs.", "hvb.", "dop_v1_"),
    ),
    SecretPattern(
        "secret",
        rf"(?i)({START}{_NAMED}(?:\\?[\"'])?\s*[=:]\s*)(\\?[\"']){REMOVED}[^\"'\\]+(?=\\?[\"'])",
        ("secret", "passw", "passphrase", "token", "key"),
        rf"\1\2{removed('secret')}",
    ),
    SecretPattern(
        "secret",
        rf"(?i)({START}{_NAMED}(?:\s?=\s?|:\s)){REMOVED}(?!(?:null|true|false|None|[0-9.]+)\b)"
        r"[^\s\"'\\,;&()<>\[\]{}]{3,}",
        ("secret", "passw", "passphrase", "token", "key"),
        _behind("secret"),
    ),
    SecretPattern(
        "secret",
        rf"(?i)((?:(?<!\S)|(?<=\\[nrt]))--?[a-z-]*(?:secret|passw(?:or)?d|passphrase|token|private-key|api-key)[a-z-]*\s+){REMOVED}"
        r"(?!-)[^\s\"'\\,;&|<>]+",
        ("secret", "passw", "passphrase", "token", "key"),
        _behind("secret"),
    ),
    SecretPattern(
        "secret",
        r"(?i)(\\?[\"']--?[a-z-]*(?:secret|passw(?:or)?d|passphrase|token|private-key|api-key)[a-z-]*\\?[\"']"
        rf"\s*,\s*\\?[\"']){REMOVED}[^\"'\\]+(?=\\?[\"'])",
        ("secret", "passw", "passphrase", "token", "key"),
        _behind("secret"),
    ),
    SecretPattern(
        "login",
        rf"({START}curl\b[^\n|;&]*?\s(?:-u|--user)[ =]){REMOVED}[^\s\"'\\:]+:[^\s\"'\\]+",
        ("curl",),
        _behind("login"),
    ),
    SecretPattern(
        "secret access key",
        r"(?:(?<![A-Za-z0-9/+=])|(?<=\\[nrt]))[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])",
        (),
        _looks_random,
    ),
)
