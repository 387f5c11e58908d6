"""The attachments of a test's result: verdicts first, then pictures, tables and the tools' own files."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pytest_cloudbench.reports.comparisons import joined
from pytest_cloudbench.reports.hooks import unharmed
from pytest_cloudbench.reports.measurement_tables import figures, html_page, markdown, series_csv
from pytest_cloudbench.reports.plots.picture import Picture, PlotsMissing

if TYPE_CHECKING:
    from pytest_cloudbench.evidence.cleaner import Cleaner
    from pytest_cloudbench.reports.allure.result import Attempt
    from pytest_cloudbench.verdicts.verdict import Verdict

_BY_ENDING = {
    "json": "application/json",
    "csv": "text/csv",
    "html": "text/html",
    "svg": "image/svg+xml",
    "png": "image/png",
    "md": "text/markdown",
}
_NAME_LENGTH = 150
_VERDICTS_APART = 12
"""More verdicts, as in a sweep, become one attachment, because nobody reads a page of a hundred titles."""


def attach_all(reporter: Any, attempt: Attempt, cleaner: Cleaner) -> None:
    """Attach everything of one attempt, before the attachments of the test itself."""
    result, measurements = attempt.result, attempt.measurements
    theirs = list(result.attachments)
    result.attachments.clear()

    def attach(name: str, data: bytes, ending: str, *, clean: bool = True) -> None:
        reporter.attach_data(
            str(uuid.uuid4()),
            cleaner.data(data) if clean else data,
            name=cleaner.text(name),
            attachment_type=_BY_ENDING.get(ending, "text/plain"),
            extension=ending,
            parent_uuid=result.uuid,
        )

    _attach_verdicts(attach, measurements, attempt.verdicts)
    titles = _titles(measurements)
    for each in joined(attempt.comparisons):
        for _, data, ending in drawn(lambda each=each: [each.picture()]):  # type: ignore[misc]
            attach(_with_ending(f"comparison: {_short(each.heading)}", ending), data, ending, clean=False)
    for curve, pictures in attempt.curves:
        for _, data, ending in drawn(pictures):
            attach(
                _with_ending(f"sweep {curve.mix.name}: latency over load", ending), data, ending, clean=False
            )
        attach(f"sweep {curve.mix.name}: every step", f"{curve}\n".encode(), "txt")
    for title, pictures in zip(titles, attempt.pictures, strict=True):
        for name, data, ending in drawn(pictures):
            attach(_with_ending(f"{title}: {name}", ending), data, ending, clean=False)
    for title, measurement in zip(titles, measurements, strict=True):
        rows = figures(measurement)
        attach(f"{title}: figures", html_page(rows, title=title).encode(), "html")
        attach(f"{title}: figures as Markdown", markdown(rows, title=title).encode(), "md")
        if table := series_csv(measurement):
            attach(f"{title}: second by second", table.encode(), "csv", clean=False)
    for title, measurement in zip(titles, measurements, strict=True):
        if command := getattr(measurement, "command", ""):
            attach(f"{title}: command", command.encode(), "txt")
        for name, data in getattr(measurement, "raw", {}).items():
            if not data:
                continue
            _, dot, ending = name.rpartition(".")
            attach(f"{title}: {name}", data, ending if dot and ending.isalnum() else "txt")
    result.attachments.extend(theirs)


def drawn(draw: Callable[[], Sequence[Picture]]) -> list[tuple[str, bytes, str]]:
    """Return pictures as (name, data, "svg" or "png"); none without matplotlib, which the session reports once."""
    found: Sequence[Picture] = ()
    with unharmed("a picture"), contextlib.suppress(PlotsMissing):
        found = draw()
    return [file for each in found for file in ((each.name, each.svg, "svg"), (each.name, each.png, "png"))]


def _with_ending(name: str, ending: str) -> str:
    return f"{name} as PNG" if ending == "png" else name


def _attach_verdicts(
    attach: Callable[[str, bytes, str], None], measurements: Sequence[Any], verdicts: Sequence[Verdict]
) -> None:
    if len(verdicts) > _VERDICTS_APART:
        counts = [verdict.outcome.value for verdict in verdicts]
        summary = ", ".join(f"{counts.count(word)} {word}" for word in dict.fromkeys(counts))
        attach(f"Verdicts: {summary}", "\n".join(v.sentence for v in verdicts).encode(), "txt")
    else:
        for verdict in verdicts:
            attach(_short(verdict.sentence), _explained(verdict).encode(), "txt")
    conditions = list(
        dict.fromkeys(line for each in measurements for line in getattr(each, "conditions", ()))
    )
    if conditions:
        attach("Conditions of the measurements", "\n".join(conditions).encode(), "txt")


def _short(sentence: str) -> str:
    if len(sentence) <= _NAME_LENGTH:
        return sentence
    return f"{sentence[: _NAME_LENGTH - 2].rpartition(' ')[0] or sentence[: _NAME_LENGTH - 2]} …"


def _explained(verdict: Verdict) -> str:
    lines = [verdict.sentence, "", f"promise: {verdict.promise}"]
    lines += [f"asked: {verdict.asked}"] if verdict.asked is not None else []
    lines += [f"measured: {verdict.figure}"] if verdict.figure else []
    lines += [f"limited by: {ceiling}" for ceiling in verdict.bound_by]
    for name, value in verdict.details.items():
        if name == "envelope":
            lines += [f"ceiling: {line}" for line in value]
        elif value not in (None, [], {}, ()):
            lines.append(f"{name}: {value}")
    return "\n".join(lines) + "\n"


def _titles(measurements: Sequence[Any]) -> list[str]:
    """Return the title of each measurement: its workload, numbered if it ran more than once."""
    names = [_short(str(getattr(each, "workload", "create_files"))) for each in measurements]
    return [
        f"{name} ({names[: at + 1].count(name)})" if names.count(name) > 1 else name
        for at, name in enumerate(names)
    ]
