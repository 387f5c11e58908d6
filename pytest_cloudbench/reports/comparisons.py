"""Comparisons of a test's runs: which runs, and the names that distinguish them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_cloudbench.reports.named_figures import name_of, value_of
from pytest_cloudbench.verdicts.wording import without_ids

if TYPE_CHECKING:
    from pytest_cloudbench.reports.plots.picture import Picture

_SHORTEN_FROM = 46
_ARROW = " -> "
_WORK = 2
"""Index of the workload among a run's parts."""


@dataclass(frozen=True)
class ComparedRuns:
    """Measurements, or curves, of one comparison, with the verdict's ``labels`` and ``title``, if it has any."""

    runs: tuple[Any, ...]
    labels: tuple[str, ...] = ()
    title: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each run: its label, else its differences from the others."""
        return self.labels or tuple(names_of(self.runs))

    @property
    def heading(self) -> str:
        """The title of its picture."""
        return self.title or " against ".join(self.names)

    def picture(self) -> Picture:
        """Draw all runs in one picture: curves over their load, others as bars or over time.

        Raises ValueError for runs of different kinds, PlotsMissing without matplotlib.
        """
        if all(is_curve(run) for run in self.runs):
            from pytest_cloudbench.reports.plots.curve import curves_picture

            return curves_picture(self.runs, labels=self.names, title=self.heading)
        from pytest_cloudbench.reports.plots.comparison import plot_comparison

        return plot_comparison(self.runs, self.names, self.heading)


def is_curve(run: Any) -> bool:
    """Return whether the run is a curve of latency over load."""
    return hasattr(run, "steps") and hasattr(run, "maximum")


def joined(comparisons: Sequence[ComparedRuns]) -> list[ComparedRuns]:
    """Join comparisons that share a run, so that "a like b" and "c like b" become one picture of three.

    A comparison with a title is not joined. A repeated one, such as an assertion and its negation, appears once.
    """
    found: list[ComparedRuns] = []
    for each in comparisons:
        if any(_is_same(each, other) for other in found):
            continue
        at = next(
            (
                place
                for place, other in enumerate(found)
                if not (each.title or other.title)
                and any(is_same_run(run, there) for run in each.runs for there in other.runs)
            ),
            None,
        )
        if at is None:
            found.append(each)
        else:
            there = found[at].runs
            more = [run for run in each.runs if not any(is_same_run(run, other) for other in there)]
            found[at] = ComparedRuns((*there, *more))
    return found


def names_of(runs: Sequence[Any]) -> list[str]:
    """Name each run by its differences from the others: instance types, target, workload; else the arguments.

    Names that are still the same are numbered.
    """
    parts = [_parts(run) for run in runs]
    differing = [place for place in range(len(parts[0])) if len({part[place] for part in parts}) > 1]
    names = [", ".join(filter(None, (part[place] for place in differing))) for part in parts]
    if max(map(len, names), default=0) > _SHORTEN_FROM:
        columns = [[part[place] for part in parts] for place in differing]
        columns[-1] = _without_common_words(columns[-1]) if differing[-1] == _WORK else columns[-1]
        names = [", ".join(filter(None, words)) for words in zip(*columns, strict=True)]
    if len(set(names)) < len(names):
        names = [", ".join(filter(None, pair)) for pair in zip(names, _differently_asked(runs), strict=True)]
    return [
        name if name and names.count(name) == 1 else f"{name or 'run'} ({names[: at + 1].count(name)})"
        for at, name in enumerate(names)
    ]


def _differently_asked(runs: Sequence[Any]) -> list[str]:
    """Return the arguments in which runs differ, as many as fit: "iodepth 16, numjobs 2"."""
    asked = [getattr(getattr(run, "maximum", run), "asked", None) or {} for run in runs]
    names = [
        name
        for name in dict.fromkeys(name for each in asked for name in each)
        if len({str(each.get(name)) for each in asked}) > 1
    ]
    texts = [
        ", ".join(
            f"{name_of(name)} {value_of(name, each[name])}" for name in names if each.get(name) is not None
        )
        for each in asked
    ]
    return [
        text if len(text) <= _SHORTEN_FROM else text[:_SHORTEN_FROM].rpartition(", ")[0] for text in texts
    ]


def _without_common_words(texts: Sequence[str]) -> list[str]:
    """Return texts without their common first words: "reverse" of "TCP 5 streams, reverse"."""
    words = [text.replace(",", " ,").split() for text in texts]
    common = next(
        (place for place, each in enumerate(zip(*words, strict=False)) if len(set(each)) > 1),
        min(len(each) for each in words),
    )
    return [" ".join(each[common:]).replace(" ,", ",").lstrip(", ") for each in words]


def _parts(run: Any) -> tuple[str, ...]:
    """Return a run's host, target and workload, without the ids that differ from run to run."""
    if is_curve(run):
        return without_ids(run.maximum.host), without_ids(run.target), str(run.mix.name)
    where = getattr(run, "path", None)
    if where is None:
        where, on = str(getattr(run, "host", "")), str(getattr(run, "target", ""))
    else:
        where, on = _ends(str(where)), ""
    return without_ids(where), without_ids(on), str(getattr(run, "workload", ""))


def _ends(path: str) -> str:
    """Return the instance types at both ends of a network; one if they are the same."""
    ends = [without_ids(end) for end in path.split(_ARROW)]
    return ends[0] if len(set(ends)) == 1 else _ARROW.join(ends)


def is_same_run(run: Any, other: Any) -> bool:
    """Return whether both are the same run; one may be a copy of the other with callbacks."""
    if run is other:
        return True
    begun = [getattr(getattr(each, "maximum", each), "started_at", None) for each in (run, other)]
    return type(run) is type(other) and begun[0] is not None and begun[0] == begun[1] and run == other


def _is_same(one: ComparedRuns, other: ComparedRuns) -> bool:
    alike = one.title == other.title and len(one.runs) == len(other.runs)
    return alike and all(map(is_same_run, one.runs, other.runs))
