"""Remove secrets before anything is written: by their names, by their form, and by their known values.

If a run is redacted, account ids, ARNs and public addresses are replaced here too.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, quote_plus

from pytest_cloudbench.evidence.pseudonyms import Pseudonyms
from pytest_cloudbench.evidence.secret_patterns import (
    ATTACHED,
    PASSWORD_OPTIONS,
    PATTERNS,
    SECRET_ACCESS_KEY,
    SECRET_NAME,
    TOKEN_PATTERNS,
    removed,
)

_SHORTEST_KNOWN = 8
"""Shorter values are not searched for, because they occur in ordinary words."""
_LEADS_ELSEWHERE = re.compile(r"(?i)_(?:file|path|dir|uri|url|arn|name|header)$")
_SHORTEST_BASE64 = 48
_SHORTEST_TOKEN = 8
_SECRET_ACCESS_KEY = 40
_OF_RUNS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-.%:=")
_RUNS = {code: " " for code in range(128) if chr(code) not in _OF_RUNS}
"""Leaves the runs of characters that tokens consist of."""
_TOKENS = frozenset(TOKEN_PATTERNS)
_LONGEST_REMEMBERED = 200
_MOST_REMEMBERED = 20_000
_LINE_END = re.compile(r"(?:\r?\n|(?:\\r)?\\n)[ \t>|]*")
_IN_BASE64 = re.compile(
    rf"(?:(?<![A-Za-z0-9+/\\])|(?<=\\[nrt]))[A-Za-z0-9+/]{{{_SHORTEST_BASE64},}}"
    rf"(?:{_LINE_END.pattern}[A-Za-z0-9+/]{{4,}})*={{0,2}}"
)
_FIGURES = b"0123456789,.:;-+ \t\r\n"
_IN_CLEAR = (bool, float, type(None))
_OPTION = re.compile(r"--?[A-Za-z0-9_-]+\Z")


class Cleaner:
    """Removes secrets from texts, bytes and values.

    A value with the name of a secret is removed and remembered. Later it is removed anywhere, also in base64 and in
    URLs.
    """

    def __init__(
        self, environment: Mapping[str, str] | None = None, pseudonyms: Pseudonyms | None = None
    ) -> None:
        self._pseudonyms = pseudonyms
        self._known: dict[str, None] = {}
        self._bytes: tuple[bytes, ...] = ()
        # A cache: names and words repeat.
        self._seen: dict[str, str] = {}
        for name, value in (os.environ if environment is None else environment).items():
            leads_elsewhere = _LEADS_ELSEWHERE.search(name) or os.path.exists(value)
            if SECRET_NAME.search(name) and not leads_elsewhere:
                self.learn(value)

    def learn(self, *secrets: str | None) -> None:
        """Remember these values as secrets; ignore those that are too short to differ from words."""
        for secret in secrets:
            text = secret.strip() if secret else ""
            if len(text) < _SHORTEST_KNOWN or text.startswith("(removed: ") or text in self._known:
                continue
            # The longest first, so that a key that contains another one is removed as a whole.
            forms = {
                text,
                quote(text, safe=""),
                quote_plus(text),
                text.replace("\n", "\\n"),
                *_base64_of(text),
            }
            known = {**self._known, **dict.fromkeys(forms)}
            self._known = dict.fromkeys(sorted(known, key=len, reverse=True))
            self._seen.clear()
            self._bytes = tuple(each.encode("utf-8", "surrogateescape") for each in self._known)

    @property
    def redacts(self) -> bool:
        """True if account ids, ARNs and public addresses are replaced by pseudonyms."""
        return self._pseudonyms is not None

    def learn_account(self, account: str) -> None:
        """Replace this account id, if the run is redacted."""
        if self._pseudonyms is not None and self._pseudonyms.learn(account):
            self._seen.clear()

    def text(self, text: str) -> str:
        """Return the text without secrets, in characters that can be written."""
        if len(text) > _LONGEST_REMEMBERED:
            return self._cleaned(text)
        found = self._seen.get(text)
        if found is None:
            if len(self._seen) >= _MOST_REMEMBERED:
                self._seen.clear()
            found = self._seen[text] = self._cleaned(text)
        return found

    def _cleaned(self, text: str) -> str:
        if not text.isascii():
            text = text.encode("utf-8", "backslashreplace").decode("utf-8")
        for secret in self._known:
            if secret in text:
                text = text.replace(secret, removed("secret"))
        lower = _lower(text)
        runs = set(text.translate(_RUNS).split())
        words = "\n".join(sorted(word for word in runs if len(word) >= _SHORTEST_TOKEN)).lower()
        for pattern in (*TOKEN_PATTERNS, *PATTERNS):
            if pattern in _TOKENS and not any(start in words for start in pattern.starts):
                continue
            cleaned = pattern.remove(text, lower)
            if cleaned is not text:
                text, lower = cleaned, _lower(cleaned)
        if self._pseudonyms is not None:
            text = self._pseudonyms.text(text)
        longest = max(map(len, runs), default=0)
        if longest >= _SECRET_ACCESS_KEY:
            text = SECRET_ACCESS_KEY.remove(text, lower)
        return _IN_BASE64.sub(self._decoded_clean, text) if longest >= _SHORTEST_BASE64 else text

    def data(self, data: bytes) -> bytes:
        """Return the content of a file without secrets; binary data with a known secret is removed as a whole."""
        if not self.redacts and not data.translate(None, _FIGURES):
            return data
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            if b"\0" in data:
                known = any(secret in data for secret in self._bytes)
                return removed("binary data with a secret in it").encode() if known else data
            return self.text(data.decode("latin-1")).encode("latin-1", "replace")
        return self.text(text).encode("utf-8")

    def named(self, name: str, value: Any) -> Any:
        """Return a named value without secrets; if the name is that of a secret, all of it is removed.

        Other values than texts and bytes are returned unchanged under any other name.
        """
        if name and not isinstance(value, _IN_CLEAR) and SECRET_NAME.search(name):
            if not value:
                return value
            for text in _texts(value):
                self.learn(text)
            return removed(_what(name))
        if isinstance(value, str):
            if self._pseudonyms is not None and self._pseudonyms.is_account(name):
                self.learn_account(value)
            return self.text(value)
        return self.data(value) if isinstance(value, bytes) else value

    def value(self, value: Any, name: str = "") -> Any:
        """Return nested plain values without secrets; the keys of dicts are names."""
        value = self.named(name, value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(item, str(key)) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return self.words(value)
        return value

    def words(self, words: Sequence[Any]) -> list[Any]:
        """Return a command line, or any list, without secrets; the value of an option with a secret's name too."""
        kept: list[Any] = []
        name = ""
        for word in _without_passwords(words):
            kept.append(self.value(word, name) if name else self.value(word))
            is_option = isinstance(word, str) and _OPTION.match(word) is not None
            name = word.lstrip("-") if is_option and SECRET_NAME.search(word) else ""
        return kept

    def _decoded_clean(self, match: re.Match[str]) -> str:
        """Remove base64 as a whole if its content has a secret; it may go over several lines."""
        whole = match[0]
        lines = _LINE_END.split(whole)
        if len(lines) > 1 and self._hides_secret("".join(lines)):
            return removed("base64 of a secret")
        for line in lines:
            if len(line) >= _SHORTEST_BASE64 and self._hides_secret(line):
                whole = whole.replace(line, removed("base64 of a secret"))
        return whole

    def _hides_secret(self, text: str) -> bool:
        for end in range(
            len(text), max(len(text) - 4, 0), -1
        ):  # a word of the text may follow on the next line
            try:
                decoded = base64.b64decode(text[:end] + "=" * (-end % 4)).decode("utf-8")
            except (binascii.Error, ValueError):
                continue
            return self.text(decoded) != decoded
        return False


def _lower(text: str) -> str:
    """Return the text in lower case, with every character at its place."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(char.lower()[:1] for char in text)


def _without_passwords(words: Sequence[Any]) -> Sequence[Any]:
    """Return the words of a command without the passwords that `PASSWORD_OPTIONS` tells."""
    texts = [word if isinstance(word, str) else "" for word in words]
    kept = list(words)
    for command, options in PASSWORD_OPTIONS.items():
        first, _, second = command.partition(" ")
        starts = [at for at, text in enumerate(texts) if text.rpartition("/")[2] == first]
        for at in range(starts[0] + 1, len(texts)) if starts and (not second or second in texts) else ():
            option = next(
                (
                    each
                    for each in options
                    if texts[at] == each or (len(each) == 2 and texts[at].startswith(each))
                ),
                "",
            )
            if option and texts[at] == option and command not in ATTACHED and at + 1 < len(texts):
                kept[at + 1] = removed("secret")
            elif len(option) == 2 and len(texts[at]) > 2:
                kept[at] = option + removed("secret")
    return kept


def _base64_of(text: str) -> Iterable[str]:
    """Yield what the base64 of a longer text contains if this text is in it, for each of the three alignments."""
    data = text.encode("utf-8", "surrogateescape")
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + data).decode("ascii").rstrip("=")
        # The characters at both ends also depend on the neighbouring text.
        core = encoded[-(-offset * 8 // 6) : len(encoded) - 1]
        if len(core) >= _SHORTEST_KNOWN:
            yield core


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _what(name: str) -> str:
    lower = name.lower().replace("-", "").replace("_", "")
    for word, what in (
        ("private", "private key"),
        ("material", "private key"),
        ("sshkeys", "private key"),
        ("user", "user data"),
        ("token", "token"),
        ("passw", "password"),
        ("accesskey", "access key"),
    ):
        if word in lower:
            return what
    return "secret"
