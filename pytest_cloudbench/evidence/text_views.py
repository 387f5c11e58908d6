"""Views of a text without its layout: marks of a diff, strings over several lines and escapes are undone.

A secret is searched for in these views too, and removed from the original text, which keeps its layout.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from re import Match, Pattern

Span = tuple[int, int, str]
"""A part of a text, by its start and end, and what replaces it."""

_LINE_MARK = r"[ \t]*(?:E[ \t]+|>[ \t]+)?"
_MARKED = re.compile(r"(?m)^[ \t]*(?:E[ \t]|[-+?>][ \t])|[\"'][ \t]*\n[ \t]*[bru]{0,2}[\"']")
_LEFT, _RIGHT = (
    re.compile(
        rf"(?m)^{_LINE_MARK}[?{other}](?:[ \t][^\n]*)?(?:\n|\Z)|^(?=[ \tE>{side}]){_LINE_MARK}(?:{side}[ \t])?[ \t]*"
    )
    for side, other in (("-", "+"), (r"\+", r"\-"))
)
"""What a view of one side of a diff leaves out: the other side, hints, and the marks and indents of pytest's lines."""
_JOINED = re.compile(r"([\"'])[ \t]*\n[bru]{0,2}\1")
"""The break between two strings that Python joins; pprint breaks long strings like this."""
_ESCAPED = re.compile(r"\\+(?:u00([0-9a-fA-F]{2})|x([0-9a-fA-F]{2})|([^\n]))")
_HTML = re.compile(r"<wbr>|&(?:#[xX]([0-9a-fA-F]{1,6})|#([0-9]{1,7})|([a-z]{2,4}));")
_MEANS = {"n": "\n", "r": "\r", "t": "\t"}
_ENTITIES = {"quot": '"', "apos": "'", "amp": "&", "lt": "<", "gt": ">"}


def replaced(text: str, spans: Sequence[Span]) -> str:
    """Return the text with these parts replaced; they are in order and do not overlap."""
    kept, end = [], 0
    for start, stop, new in spans:
        kept += [text[end:start], new]
        end = stop
    return "".join([*kept, text[end:]])


class View:
    """A text derived from another by leaving parts out; ``original`` returns where its parts came from."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._layers: list[_Layer] = []

    @cached_property
    def lower(self) -> str:
        """The text in lower case, with every character at the same offset."""
        lower = self.text.lower()
        return lower if len(lower) == len(self.text) else "".join(char.lower()[:1] for char in self.text)

    def without(self, noise: Pattern[str], meaning: Callable[[Match[str]], str] = lambda match: "") -> View:
        """Return a view with each match replaced by ``meaning(match)``, by default removed."""
        layer = _Layer(self.text, noise, meaning)
        view = View(layer.text)
        view._layers = [*self._layers, layer]
        return view

    def original(self, spans: Sequence[Span]) -> list[Span]:
        """Return where spans of this view are in the original; what the view leaves out stays there."""
        found = list(spans)
        for layer in reversed(self._layers):
            found = [piece for span in found for piece in layer.before(span)]
        return found


class _Layer:
    """One step of a view: for each kept or replaced part, where it starts now and where it was."""

    def __init__(self, text: str, noise: Pattern[str], meaning: Callable[[Match[str]], str]) -> None:
        parts: list[str] = []
        self._starts: list[int] = []
        self._was: list[tuple[int, int]] = []  # the end is 0 for a part that was kept as it is
        end = now = 0
        for match in noise.finditer(text):
            for part, start, stop in (
                (text[end : match.start()], end, 0),
                (meaning(match), match.start(), match.end()),
            ):
                if part:
                    self._starts.append(now)
                    self._was.append((start, stop))
                    parts.append(part)
                    now += len(part)
            end = match.end()
        self._starts.append(now)
        self._was.append((end, 0))
        self.text = "".join([*parts, text[end:]])

    def before(self, span: Span) -> Iterator[Span]:
        start, stop, new = span
        number = bisect_right(self._starts, start) - 1
        while start < stop:
            last = number + 1 == len(self._starts)
            end = stop if last else min(stop, self._starts[number + 1])
            was, was_end = self._was[number]
            if was_end:
                yield was, was_end, new
            else:
                was += start - self._starts[number]
                yield was, was + end - start, new
            start, new, number = end, "", number + 1


def views(text: str) -> Iterator[Callable[[str], View]]:
    """Yield a function for each view of a text; for most texts, only for the text itself.

    Outer layers come first: in the text itself a mark of a line may look like the value after a name. Escapes come
    last, because the patterns read single escapes better than a text in which quotes end too early.
    """
    layers: list[Callable[[str], View]] = []
    if ("&" in text or "<wbr>" in text) and _HTML.search(text):
        layers.append(lambda text: View(text).without(_HTML, _entity))
    if _MARKED.search(text):
        layers += [partial(_of_side, _LEFT), partial(_of_side, _RIGHT), View]
        layers += [partial(_of_side, _LEFT, joined=True), partial(_of_side, _RIGHT, joined=True)]
    else:
        layers.append(View)
    yield from layers
    if len(layers) > 1 or any(sign in text for sign in ("\\\\", "\\x", "\\u00")):
        for layer in layers:
            yield lambda text, layer=layer: layer(text).without(_ESCAPED, _escape)  # type: ignore[misc]


def _of_side(side: Pattern[str], text: str, *, joined: bool = False) -> View:
    view = View(text).without(side)
    return view.without(_JOINED) if joined else view


def _escape(match: Match[str]) -> str:
    if code := match[1] or match[2]:
        return chr(int(code, 16))
    return _MEANS.get(match[3], match[3])


def _entity(match: Match[str]) -> str:
    if match[3]:
        return _ENTITIES.get(match[3], match[0])
    number = int(match[1], 16) if match[1] else int(match[2] or 0)
    return chr(number) if 0 < number < 0x110000 else ""
