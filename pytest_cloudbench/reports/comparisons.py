"""What a test sets side by side: which of its runs, and by what words they are told apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_cloudbench.reports.plots.picture import Picture

_ID = re.compile(r"\s*\b(?:i|vol|snap)-[0-9a-f]+\b")
_SHORTEN_FROM = 46
_ARROW = " -> "
_WORK = 2
"""Place of what a run did among its parts."""


@dataclass(frozen=True)
class ComparedRuns:
    """Measurements, or curves, of one comparison; ``labels`` and ``title`` where the verdict has words for them."""

    runs: tuple[Any, ...]
    labels: tuple[str, ...] = ()
    title: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """What each run is called: the labels, else by what it differs from the others."""
        return self.labels or tuple(names_of(self.runs))

    @property
    def heading(self) -> str:
        """What the picture of it is called."""
        return self.title or " against ".join(self.names)

    def picture(self) -> Picture:
        """All runs in one picture: curves over their load, others as bars or over time.

        Raises ValueError for runs of different kinds, PlotsMissing without matplotlib.
        """
        if all(is_curve(run) for run in self.runs):
            from pytest_cloudbench.reports.plots.curve import curves_picture

            return curves_picture(self.runs, labels=self.names, title=self.heading)
        from pytest_cloudbench.reports.plots.comparison import plot_comparison

        return plot_comparison(self.runs, self.names, self.heading)


def is_curve(run: Any) -> bool:
    """Whether it is a curve of latency over load."""
    return hasattr(run, "steps") and hasattr(run, "maximum")


def joined(comparisons: Sequence[ComparedRuns]) -> list[ComparedRuns]:
    """Comparisons that share a run as one, so that "a like b" and "c like b" are one picture of three.

    One with words of its own stands alone, and one that was drawn several times, such as by an assertion and its
    negation, comes once.
    """
    found: list[ComparedRuns] = []
    for each in comparisons:
        if any(_same(each.runs, other.runs) and each.title == other.title for other in found):
            continue
        at = next(
            (
                place
                for place, other in enumerate(found)
                if not (each.title or other.title) and _share(each.runs, other.runs)
            ),
            None,
        )
        if at is None:
            found.append(each)
        else:
            there = found[at].runs
            more = [run for run in each.runs if not any(_is(run, other) for other in there)]
            found[at] = ComparedRuns((*there, *more))
    return found


def names_of(runs: Sequence[Any]) -> list[str]:
    """Each run by what it differs in from the others: instance types, target, workload; numbered if in nothing."""
    parts = [_parts(run) for run in runs]
    differing = [place for place in range(len(parts[0])) if len({part[place] for part in parts}) > 1]
    names = [", ".join(filter(None, (part[place] for place in differing))) for part in parts]
    if max(map(len, names), default=0) > _SHORTEN_FROM:
        columns = [[part[place] for part in parts] for place in differing]
        columns[-1] = _without_common_words(columns[-1]) if differing[-1] == _WORK else columns[-1]
        names = [", ".join(filter(None, words)) for words in zip(*columns, strict=True)]
    return [
        name if name and names.count(name) == 1 else f"{name or 'run'} ({names[: at + 1].count(name)})"
        for at, name in enumerate(names)
    ]


def _without_common_words(texts: Sequence[str]) -> list[str]:
    """Texts without the words with which all of them begin: "reverse" of "TCP 5 streams, reverse"."""
    words = [text.replace(",", " ,").split() for text in texts]
    common = next(
        (place for place, each in enumerate(zip(*words, strict=False)) if len(set(each)) > 1),
        min(len(each) for each in words),
    )
    return [" ".join(each[common:]).replace(" ,", ",").lstrip(", ") for each in words]


def _parts(run: Any) -> tuple[str, ...]:
    """Where it ran, on what, and what it did, without the ids that differ from run to run."""
    if is_curve(run):
        return _without_ids(run.maximum.host), _without_ids(run.target), str(run.mix.name)
    where = getattr(run, "path", None)
    if where is None:
        where, on = str(getattr(run, "host", "")), str(getattr(run, "target", ""))
    else:
        where, on = _ends(str(where)), ""
    return _without_ids(where), _without_ids(on), str(getattr(run, "workload", ""))


def _ends(path: str) -> str:
    """The instance types at both ends of a network, one where they are the same."""
    ends = [_without_ids(end) for end in path.split(_ARROW)]
    return ends[0] if len(set(ends)) == 1 else _ARROW.join(ends)


def _without_ids(text: str) -> str:
    return _ID.sub("", text).strip()


def _is(run: Any, other: Any) -> bool:
    """Whether both are the same run; a run that was given its callbacks is a copy of it."""
    if run is other:
        return True
    begun = [getattr(getattr(each, "maximum", each), "started_at", None) for each in (run, other)]
    return type(run) is type(other) and begun[0] is not None and begun[0] == begun[1] and run == other


def _same(runs: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(runs) == len(others) and all(_is(*pair) for pair in zip(runs, others, strict=True))


def _share(runs: Sequence[Any], others: Sequence[Any]) -> bool:
    return any(_is(run, other) for run in runs for other in others)
