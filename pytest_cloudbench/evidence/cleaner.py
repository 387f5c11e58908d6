"""Remove secrets before anything is written: by their names, by their form, and by their known values.

If a run is redacted, account ids, ARNs and public addresses are replaced here too.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
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
    SecretPattern,
    removed,
)
from pytest_cloudbench.evidence.text_views import Span, View, replaced, views

_SHORTEST_KNOWN = 8
"""Shorter values are not searched for, because they occur in ordinary words."""
_SHORTEST_BASE64 = 48
_SHORTEST_TOKEN = 8
_SECRET_ACCESS_KEY = 40
_OF_RUNS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-.%:=")
_RUNS = {code: " " for code in range(128) if chr(code) not in _OF_RUNS}
"""For `str.translate`: a space for each ASCII character that occurs in no token."""
_TOKENS, _OTHERS = (
    tuple((literal, pattern) for pattern in patterns for literal in pattern.starts or pattern.hints)
    for patterns in (TOKEN_PATTERNS, PATTERNS)
)
"""Pairs of a literal and its pattern. A text is searched for a pattern only if it has one of the pattern's literals."""
_LONGEST_REMEMBERED = 200
_MOST_REMEMBERED = 20_000
_LINE_END = re.compile(r"(?:\r?\n|(?:\\r)?\\n)[ \t>|]*")
_IN_BASE64 = re.compile(
    rf"(?:(?<![A-Za-z0-9+/\\])|(?<=\\[nrt]))[A-Za-z0-9+/]{{{_SHORTEST_BASE64},}}"
    rf"(?:{_LINE_END.pattern}[A-Za-z0-9+/]{{4,}})*={{0,2}}"
)
_CUT = "..."
_WORD = re.compile(r"[^\s\"'\\,;&|<>()]{8,}")
_LONGEST_WORD = 4_000
_MOST_PARTS = 500_000
_FIGURES = b"0123456789,.:;-+ \t\r\n"
_IN_CLEAR = (bool, float, type(None))
_NUMBER_IS_SECRET = re.compile(r"(?i)pass|pin|pwd")
"""A number with one of these names is a secret. With any other name of a secret it is a figure: {"token": 5}."""
_OPTION = re.compile(r"--?[A-Za-z0-9_-]+\Z")


Finder = Callable[[View], list[Span]]
"""Finds secrets in a view, and says what replaces them."""


class Cleaner:
    """Removes secrets from texts, bytes and values.

    A value with the name of a secret is removed and remembered. From then on it is removed everywhere, also in base64
    and in URLs.
    """

    def __init__(
        self, environment: Mapping[str, str] | None = None, pseudonyms: Pseudonyms | None = None
    ) -> None:
        self._pseudonyms = pseudonyms
        self._known: dict[str, None] = {}
        self._parts = _Parts()
        self._bytes: tuple[bytes, ...] = ()
        # A cache: names and words repeat.
        self._seen: dict[str, str] = {}
        for name, value in (os.environ if environment is None else environment).items():
            if SECRET_NAME.search(name) and not os.path.exists(value):
                self.learn(value)

    def learn(self, *secrets: str | None) -> None:
        """Remember these values as secrets; ignore those that are too short to differ from words."""
        for secret in secrets:
            text = secret.strip() if secret else ""
            if len(text) < _SHORTEST_KNOWN or text.startswith("(removed: ") or text in self._known:
                continue
            self._parts.add(text)
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
        if len(text) > _LONGEST_REMEMBERED or _CUT in text:
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
        made: set[str] = set()
        for make in views(text):
            view = make(text)
            if view.text in made:
                continue
            made.add(view.text)
            runs = set(view.text.translate(_RUNS).split())
            text, view = _without(self._named_or_formed(view.lower, runs), text, view, make)
            if make is View and self._pseudonyms is not None:
                text = self._pseudonyms.text(text)
                view = make(text)
            text, view = _without(self._by_their_length(runs), text, view, make)
        return text

    def _named_or_formed(self, lower: str, runs: set[str]) -> Iterator[Finder]:
        """Yield the finders of known secrets, and of secrets recognised by a name or a form.

        ``runs`` are the runs of characters in the text. Replacements add no secrets to it, so ``lower`` is searched
        once for the literals of all patterns.
        """
        yield self._known_in
        words = "\n".join(sorted(word for word in runs if len(word) >= _SHORTEST_TOKEN)).lower()
        for pattern in (*_possible(_TOKENS, words), *_possible(_OTHERS, lower)):
            yield partial(self._recognised, pattern)

    def _by_their_length(self, runs: set[str]) -> Iterator[Finder]:
        """Yield the finders of long random texts, and of parts of secrets that pytest cut off.

        An ARN may look like a random text, so replace ARNs by their pseudonyms first.
        """
        longest = max(map(len, runs), default=0)
        if longest >= _SECRET_ACCESS_KEY:
            yield partial(self._recognised, SECRET_ACCESS_KEY)
        if longest >= _SHORTEST_BASE64:
            yield self._in_base64
        yield lambda view: self._parts.cut_off_in(view.text)

    def _known_in(self, view: View) -> list[Span]:
        # A pattern of all known secrets would change with each new one, and re caches hundreds of patterns.
        present = [re.escape(secret) for secret in self._known if secret in view.text]
        matches = re.finditer("|".join(present), view.text) if present else ()
        return [(match.start(), match.end(), removed("secret")) for match in matches]

    def _recognised(self, pattern: SecretPattern, view: View) -> list[Span]:
        spans = pattern.spans(view.text, view.lower)
        for start, stop, _ in spans:
            self._parts.add(view.text[start:stop])
        return spans

    def _in_base64(self, view: View) -> list[Span]:
        """Find base64 of a secret, as a whole; it may go over several lines."""
        spans: list[Span] = []
        for match in _IN_BASE64.finditer(view.text):
            lines = _LINE_END.split(match[0])
            if len(lines) > 1 and self._hides_secret("".join(lines)):
                spans.append((*match.span(), removed("base64 of a secret")))
                continue
            at = match.start()
            for line in lines:
                at = view.text.index(line, at)
                if len(line) >= _SHORTEST_BASE64 and self._hides_secret(line):
                    spans.append((at, at + len(line), removed("base64 of a secret")))
                at += len(line)
        return spans

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
        """Return a named value without secrets; if the name is that of a secret, the whole value is removed.

        With any other name, a value that is neither text nor bytes is returned unchanged.
        """
        if name and not isinstance(value, _IN_CLEAR) and SECRET_NAME.search(name):
            if not value or (isinstance(value, int) and not _NUMBER_IS_SECRET.search(name)):
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
        """Return a command line, or any list, without secrets and without the values of options named like secrets."""
        kept: list[Any] = []
        name = ""
        for word in _without_passwords(words):
            kept.append(self.value(word, name) if name else self.value(word))
            is_option = isinstance(word, str) and _OPTION.match(word) is not None
            name = word.lstrip("-") if is_option and SECRET_NAME.search(word) else ""
        return kept

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


class _Parts:
    """The parts of secrets that this session saw in full, to find them in texts that pytest shortens with "..."."""

    def __init__(self) -> None:
        self._places: dict[str, list[tuple[str, int]]] = {}
        self._seen: set[str] = set()

    def add(self, secret: str) -> None:
        """Remember the words of a secret, if they are neither short nor ordinary."""
        for word in _WORD.findall(secret):
            if word in self._seen or word.isalpha() or len(self._places) >= _MOST_PARTS:
                continue
            self._seen.add(word)
            for at in range(min(len(word), _LONGEST_WORD) - _SHORTEST_KNOWN + 1):
                self._places.setdefault(word[at : at + _SHORTEST_KNOWN], []).append((word, at))

    def cut_off_in(self, text: str) -> list[Span]:
        """Return the parts of secrets before and after "..."."""
        spans: list[Span] = []
        at = text.find(_CUT) if self._places else -1
        while at >= 0:
            after = at + len(_CUT)
            before = self._longest(text, at - _SHORTEST_KNOWN, -1)
            if before and (not spans or spans[-1][1] <= at - before):
                spans.append((at - before, at, removed("secret")))
            if behind := self._longest(text, after, 1):
                spans.append((after, after + behind, removed("secret")))
            at = text.find(_CUT, after)
        return spans

    def _longest(self, text: str, at: int, step: int) -> int:
        longest = 0
        for word, place in (
            self._places.get(text[max(at, 0) : max(at, 0) + _SHORTEST_KNOWN], ()) if at >= 0 else ()
        ):
            # The next characters to compare, in the text and in the word.
            here, there = (at - 1, place - 1) if step < 0 else (at + _SHORTEST_KNOWN, place + _SHORTEST_KNOWN)
            length = _SHORTEST_KNOWN
            while 0 <= there < len(word) and 0 <= here < len(text) and text[here] == word[there]:
                here, there, length = here + step, there + step, length + 1
            longest = max(longest, length)
        return longest


def _possible(known: Iterable[tuple[str, SecretPattern]], lower: str) -> Iterable[SecretPattern]:
    """Return, in order, the patterns that have a literal in ``lower``, a text in lower case."""
    return dict.fromkeys(pattern for literal, pattern in known if literal in lower)


def _without(
    finders: Iterable[Finder], text: str, view: View, make: Callable[[str], View]
) -> tuple[str, View]:
    """Return the text without what the finders find, and its view; ``make`` creates a new view after each change."""
    for find in finders:
        if spans := find(view):
            text = replaced(text, view.original(spans))
            view = make(text)
    return text, view


def _without_passwords(words: Sequence[Any]) -> Sequence[Any]:
    """Return the words of a command without passwords, the values of the `PASSWORD_OPTIONS`."""
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
    """Yield the base64 of this text as it occurs within that of a longer text, for each of the three alignments."""
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
