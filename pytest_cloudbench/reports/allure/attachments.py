"""The attachments of a test's result: verdicts first, then pictures, tables and the tools' own files."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pytest_cloudbench.reports.comparisons import joined
from pytest_cloudbench.reports.hooks import unharmed
from pytest_cloudbench.reports.measurement_tables import figures, html_table, markdown, series_csv
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

    def attach_drawn(prefix: str, draw: Callable[[], Sequence[Picture]], *, named: bool = True) -> None:
        """Attach pictures; none without matplotlib, which the session reports once."""
        found: Sequence[Picture] = ()
        with unharmed("a picture"), contextlib.suppress(PlotsMissing):
            found = draw()
        for each in found:
            name = f"{prefix}: {each.name}" if named else prefix
            attach(name, each.svg, "svg", clean=False)
            attach(f"{name} as PNG", each.png, "png", clean=False)

    _attach_verdicts(attach, measurements, attempt.verdicts)
    titles = _titles(measurements)
    for each in joined(attempt.comparisons):
        attach_drawn(f"comparison: {_short(each.heading)}", lambda each=each: [each.picture()], named=False)  # type: ignore[misc]
    for curve, pictures in attempt.curves:
        attach_drawn(f"sweep {curve.mix.name}: latency over load", pictures, named=False)
        attach(f"sweep {curve.mix.name}: every step", f"{curve}\n".encode(), "txt")
    for title, pictures in zip(titles, attempt.pictures, strict=True):
        attach_drawn(title, pictures)
    for title, measurement in zip(titles, measurements, strict=True):
        rows = figures(measurement)
        attach(f"{title}: figures", html_table(rows, title=title).encode(), "html")
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
