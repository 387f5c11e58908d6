"""The attachments of a test's result: pictures, tables, and one archive of raw data."""

from __future__ import annotations

import contextlib
import csv
import io
import uuid
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from pytest_cloudbench.reports.comparisons import is_curve, joined
from pytest_cloudbench.reports.hooks import unharmed
from pytest_cloudbench.reports.named_figures import name_of, rows_of, value_of
from pytest_cloudbench.reports.pages import Section, page
from pytest_cloudbench.reports.plots.picture import Picture, PlotsMissing
from pytest_cloudbench.reports.verdict_tables import explained
from pytest_cloudbench.verdicts.wording import without_ids

if TYPE_CHECKING:
    from pytest_cloudbench.evidence.cleaner import Cleaner
    from pytest_cloudbench.reports.allure.result import Attempt

_BY_ENDING = {
    "txt": "text/plain",
    "html": "text/html",
    "svg": "image/svg+xml",
    "zip": "application/zip",
}
_NAME_LENGTH = 150
_RAW = "second by second, and the tools' own files"
_ELSEWHERE = frozenset({"series", "streams", "directions", "parts", "raw_files", "asked"})
"""What a table of figures leaves out, or lists at its end."""
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)
"""The time of all files in an archive, so that equal data give equal archives."""


def attach_all(reporter: Any, attempt: Attempt, cleaner: Cleaner) -> None:
    """Attach everything of one attempt, before the attachments of the test itself.

    Attachments are cleaned when they are written, except the archive, whose files the ``cleaner`` cleans here.
    """
    result, measurements = attempt.result, attempt.measurements
    theirs = list(result.attachments)
    result.attachments.clear()

    def attach(name: str, data: bytes, ending: str) -> None:
        reporter.attach_data(
            str(uuid.uuid4()),
            data,
            name=name,
            attachment_type=_BY_ENDING[ending],
            extension=ending,
            parent_uuid=result.uuid,
        )

    def attach_drawn(prefix: str, draw: Callable[[], Sequence[Picture]], *, named: bool = True) -> None:
        """Attach pictures; none without matplotlib, which the session reports once."""
        found: Sequence[Picture] = ()
        with unharmed("a picture"), contextlib.suppress(PlotsMissing):
            found = draw()
        for each in found:
            attach(f"{prefix}: {each.name}" if named else prefix, each.svg, "svg")

    titles = _titles(measurements)
    for each in joined(attempt.comparisons):
        of_curves = ", latency over load" if all(map(is_curve, each.runs)) else ""
        name = f"comparison: {_short(each.heading)}{of_curves}"
        attach_drawn(name, lambda each=each: [each.picture()], named=False)  # type: ignore[misc]
    compared = [run for each in attempt.comparisons for run in each.runs]
    for curve, pictures in attempt.curves:
        if any(curve is run for run in compared):
            continue  # the comparison shows it
        attach_drawn(
            f"sweep {curve.mix.name} on {without_ids(curve.target)}: latency over load", pictures, named=False
        )
    for title, pictures in zip(titles, attempt.pictures, strict=True):
        attach_drawn(title, pictures)
    if attempt.verdicts:
        name = "figures behind the verdicts"
        sections = [section for verdict in attempt.verdicts for section in explained(verdict)]
        attach(name, page(name.capitalize(), sections, "html").encode(), "html")
    if measurements:
        sections = [_figures(title, each) for title, each in zip(titles, measurements, strict=True)]
        name = f"{titles[0]}: figures" if len(titles) == 1 else f"figures of {len(titles)} measurements"
        attach(name, page(name[:1].upper() + name[1:], sections, "html").encode(), "html")
    files = {
        f"sweep-{curve.mix.name}-{number}.txt": f"{curve}\n".encode()
        for number, (curve, _) in enumerate(attempt.curves, 1)
    }
    for number, measurement in enumerate(measurements, 1):
        files |= {f"{number}-{name}": data for name, data in _raw_files(measurement).items()}
    if files:
        attach(_RAW, _archive({name: cleaner.data(data) for name, data in files.items()}), "zip")
    result.attachments.extend(theirs)


def _figures(title: str, measurement: Any) -> Section:
    """Return every known figure of a measurement, in words and with its unit; arguments, ceilings, conditions last."""
    values = measurement.to_dict()
    rows = rows_of(values, but=_ELSEWHERE)
    rows += [
        (f"asked: {name_of(name)}", value_of(name, value))
        for name, value in (values.get("asked") or {}).items()
        if value not in (None, "", [], {}, ())
    ]
    rows += [("ceiling", str(line)) for line in values.get("envelope") or ()]
    rows += [("condition", str(line)) for line in values.get("conditions") or ()]
    return Section(title, ("figure", "value"), tuple(rows))


def _raw_files(measurement: Any) -> dict[str, bytes]:
    """Return the series, the command and the tool's own files of a measurement, by name."""
    table, command = _series_csv(measurement), getattr(measurement, "command", "")
    return {
        **({"second-by-second.csv": table.encode()} if table else {}),
        **({"command.txt": command.encode()} if command else {}),
        **{name.replace("/", "-"): data for name, data in getattr(measurement, "raw", {}).items() if data},
    }


def _series_csv(measurement: Any) -> str | None:
    """Return the series with a row for each sample and units in the column heads; None without a series."""
    series = measurement.to_dict().get("series") or {}
    columns = dict(_columns(series, ""))
    if not columns:
        return None
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in zip_longest(*columns.values()):
        writer.writerow(f"{value:.7g}" if isinstance(value, float) else value for value in row)
    return out.getvalue()


def _columns(series: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Sequence[Any]]]:
    for name, value in series.items():
        if isinstance(value, Mapping):
            yield from _columns(value, f"{prefix}{name}.")
        elif isinstance(value, list | tuple) and len(value):
            yield f"{prefix}{name}", value


def _archive(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, _FIRST_DAY), data, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _short(sentence: str) -> str:
    if len(sentence) <= _NAME_LENGTH:
        return sentence
    return f"{sentence[: _NAME_LENGTH - 2].rpartition(' ')[0] or sentence[: _NAME_LENGTH - 2]} …"


def _titles(measurements: Sequence[Any]) -> list[str]:
    """Return the title of each measurement: its workload, numbered if it ran more than once."""
    names = [_short(str(getattr(each, "workload", "create_files"))) for each in measurements]
    return [
        f"{name} ({names[: at + 1].count(name)})" if names.count(name) > 1 else name
        for at, name in enumerate(names)
    ]
