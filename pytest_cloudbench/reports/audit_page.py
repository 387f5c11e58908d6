"""One page for an audit, made from an evidence folder: promises, measurements, verdicts, and whether all is intact.

The page is one file without scripts or requests; its Content-Security-Policy forbids both. Every text of the evidence
is escaped. What was altered or cannot be read is named, never left out silently.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import functools
import hashlib
import html
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pytest_cloudbench import __version__
from pytest_cloudbench.evidence.cleaner import Cleaner
from pytest_cloudbench.evidence.folder import MANIFEST, EvidenceError, sum_of
from pytest_cloudbench.evidence.reader import Evidence, RecordedTest
from pytest_cloudbench.evidence.restorable import measurement_from, restored
from pytest_cloudbench.evidence.verify import DIFFERENT, INTACT, Verification, verify
from pytest_cloudbench.reports.comparisons import is_curve
from pytest_cloudbench.reports.named_figures import Row, rows_of
from pytest_cloudbench.reports.pages import html_page, html_table
from pytest_cloudbench.reports.plots.kinds import (
    creation_plots,
    curve_plots,
    drawn,
    network_plots,
    storage_plots,
)
from pytest_cloudbench.reports.plots.picture import PlotsMissing
from pytest_cloudbench.reports.summary_table import short_names
from pytest_cloudbench.reports.verdict_tables import HEADS, overview
from pytest_cloudbench.verdicts.run import is_of_network
from pytest_cloudbench.verdicts.verdict import Outcome, Verdict

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"
_OUTCOMES = tuple(outcome.value for outcome in Outcome)
_OF_THE_COMMAND = ("PYTEST_CURRENT_TEST", "PYTEST_VERSION")
"""Variables that pytest sets: other parts of the page show what they say."""
_LONGEST_TEXT = 4_000
_SHORT_FIGURE = 32
_MOST_DIFFERENCES = 40
_FIGURES = (
    "workload", "target", "path", "host", "client", "server", "started_at", "runtime_s", "iops", "throughput_mib_per_s",
    "throughput_gbit_per_s", "files", "files_per_second", "on_device_s", "latency", "rtt_mean_s", "retransmits",
    "lost_percent", "outstanding_asked", "outstanding_mean", "generator", "throttle_counters", "machine_delay", "cost",
    "tool_version", "tool_versions", "kernel", "command", "client_commands",
)  # fmt: skip
"""The figures of a measurement that the page shows; the evidence has all."""


@dataclass
class _Audited:
    """What is shown of one attempt of a test. ``gaps`` name what could not be read."""

    test: RecordedTest
    attempt: int = 1
    verdicts: list[Verdict] = field(default_factory=list)
    measurements: list[Any] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    source: str = ""
    gaps: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def unless_damaged(self, what: str) -> Iterator[None]:
        """Note ``what`` as a gap if the block fails, because evidence may be damaged in any way."""
        try:
            yield
        except Exception as error:
            self.gaps.append(f"{what} cannot be shown: {error}")


def audit_page(
    folder: Path, *, signers: Path | None = None, manifest_sha256: str | None = None
) -> tuple[str, Verification]:
    """Return the page of an evidence folder, and the result of its verification.

    ``signers`` and ``manifest_sha256`` are as for `verify`. Raises EvidenceError if the folder holds no evidence.
    """
    checked = verify(folder, signers=signers, manifest_sha256=manifest_sha256)
    try:
        evidence = Evidence(folder)
    except EvidenceError as error:
        raise EvidenceError(f"no page can be made: {error}\n{checked}") from error
    attempts: Counter[str] = Counter()
    tests = []
    for test in evidence.tests:
        attempts[test.nodeid] += 1
        tests.append(_audited(test, attempts[test.nodeid]))
    return _Page(evidence, checked, tests).html(), checked


def _audited(test: RecordedTest, attempt: int) -> _Audited:
    """Read one attempt. Anything that cannot be read becomes a gap."""
    found = _Audited(test, attempt)
    with found.unless_damaged("the record of this test"):
        for number, entry in enumerate(test.of_kind("verdict"), 1):
            with found.unless_damaged(f"verdict {number}"):
                found.verdicts.append(_verdict(entry))
        for entry in test.of_kind("workload"):
            with found.unless_damaged(f"the measurement {entry.get('name')} of {entry.get('started')}"):
                found.measurements.append(_measured(test, entry))
        for entry in test.of_kind("phase"):
            if entry.get("outcome") != "passed" and (
                said := test.text(entry, "message") or entry.get("message_begins")
            ):
                found.reasons.append(f"{entry['when']} {entry['outcome']}: {said}")
        with found.unless_damaged("the source of the test"):
            found.source = _source_of(test)
    return found


def _verdict(entry: dict[str, Any]) -> Verdict:
    verdict = restored(entry["verdict"])
    if not isinstance(verdict, Verdict) or not isinstance(verdict.outcome, Outcome):
        raise TypeError(f"it is not a verdict: {entry.get('sentence')}")
    overview([verdict])  # raises if a part of it is damaged
    return verdict


def _measured(test: RecordedTest, entry: dict[str, Any]) -> Any:
    """Return a workload's measurement, or the error with which it failed."""
    if "file" not in entry:
        raise EvidenceError(str(entry.get("not_kept") or "its result was not kept"))
    return measurement_from(test.measurement(entry["file"]), test.read)


def _source_of(test: RecordedTest) -> str:
    """Return the test's own lines of the source file that its run recorded; "" if it recorded none."""
    begun = test.of_kind("begin")[0]
    name, line = begun.get("source"), begun.get("line")
    if not isinstance(name, str) or not isinstance(line, int):
        return ""
    sums = {e["path"]: e["sha256"] for part in test.evidence.parts.values() for e in part.all("file")}
    if name not in sums:
        return ""  # of a run that was killed before it kept the file
    data = test.evidence.folder.file(name).read_bytes()
    if hashlib.sha256(data).hexdigest() != sums[name]:
        raise EvidenceError(f"{name} was altered")
    text = data.decode("utf-8", "replace")
    functions = [
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    for node in functions:
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        if first <= line <= (node.end_lineno or node.lineno):
            return "\n".join(text.splitlines()[first - 1 : node.end_lineno])
    return ""


class _Page:
    def __init__(self, evidence: Evidence, checked: Verification, tests: Sequence[_Audited]) -> None:
        self.evidence = evidence
        self.run = evidence.run
        self.checked = checked
        self.tests = tests
        self.cleaner = Cleaner()
        self.without_pictures = ""

    def html(self) -> str:
        parts = [
            f"<h1>Audit report of run {self._text(self.run.get('run', '?'))}</h1>",
            self._state(),
            self._shown("where it was measured", self._model),
            self._shown("the table of promises", self._promises),
            "<h2>Who ran what, where and when</h2>",
            self._shown("the facts of the run", lambda: self._table((), self._facts())),
            *(self._shown(each.test.nodeid, functools.partial(self._test, each)) for each in self.tests),
            "<h2>Evidence</h2>",
            self._integrity(),
        ]
        head = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><style>{_STYLE}</style>'
        title = self.cleaner.text(f"Audit report of run {self.run.get('run', '?')}")
        return html_page(title, f"<main>{''.join(parts)}</main>", head)

    def _shown(self, what: str, make: Callable[[], str]) -> str:
        """Return a part of the page, or why it cannot be shown: evidence may contain anything."""
        try:
            return make()
        except Exception as error:
            text = f"{what} cannot be shown: {type(error).__name__}: {error}"
            return f'<p class="bad">{self._text(text)}</p>'

    # Parts ------------------------------------------------------------------------------------------

    def _state(self) -> str:
        checked = self.checked
        if checked.exit_code == DIFFERENT:
            count = len(checked.differences)
            kind, head = "bad", f"Altered: {count} difference{'s' * (count > 1)} from what the run wrote"
            said = "Do not rely on this report: its figures may not be those of the run. What was altered:"
            lines = checked.differences
        elif checked.exit_code == INTACT:
            kind, head, lines = "good", "Intact: every entry and file is what the run wrote", []
            said = f"{checked.size}."
        else:
            kind, head = "doubtful", "Unfinished: the run was killed, or its last entries were removed"
            said, lines = "What is there is unaltered, but may not be all of it.", []
        notes = checked.notes or []
        gaps = sum(len(each.gaps) for each in self.tests)
        if gaps:
            notes = [
                *notes,
                f"{gaps} part{'s' * (gaps > 1)} of the evidence cannot be shown; each is named below",
            ]
        more = len(lines) - _MOST_DIFFERENCES
        shown = [
            *lines[:_MOST_DIFFERENCES],
            *([f"and {more} more: see cloudbench verify"] if more > 0 else []),
        ]
        return (
            f'<section class="state {kind}"><b>{head}</b><p>{self._text(said)}</p>'
            f"{self._list(shown)}{self._list(notes)}</section>"
        )

    def _model(self) -> str:
        """Return why the figures are not those of AWS, or of the tests as written; "" if they are."""
        words = []
        if any(cloud.get("on_this_machine") for cloud in self.evidence.clouds):
            words.append(
                "Measured in an embedded region, a model on one machine: nothing here was measured on AWS."
            )
        if (self.run.get("options") or {}).get("pace") == "quick":
            words.append(
                "At quick pace run times and file sizes were capped to seconds; the conditions say which."
            )
        return f"<p><b>{' '.join(words)}</b></p>" if words else ""

    def _promises(self) -> str:
        rows: list[Sequence[str]] = []
        names = short_names([self._name(each) for each in self.tests])
        for each, name in zip(self.tests, names, strict=True):
            why = "cannot be shown, see below" if each.gaps else "no verdict"
            found = overview(each.verdicts) or [("", why, "", "")]
            ended = f"{name}: {each.test.outcome or 'did not end'}"
            rows += [(ended if number == 0 else "", *row) for number, row in enumerate(found)]
        words = [verdict.outcome.value for each in self.tests for verdict in each.verdicts]
        counts = ", ".join(f"{words.count(word)} {word}" for word in _OUTCOMES if word in words)
        return (
            f"<h2>Promises: {counts or 'none was judged'}</h2>"
            "<p>Held: the measurement keeps the promise. Violated: it does not. Inconclusive: it proves neither. "
            "Behind each test is how it ended: a test may also expect that a promise is not kept.</p>"
            f"{self._table(('test', *HEADS), rows, outcomes=True)}"
        )

    def _facts(self) -> list[Row]:
        run, git = self.run, self.run.get("git") or {}
        by, machine = run.get("by") or {}, run.get("machine") or {}
        changed = git.get("changed")
        revision = str(git.get("revision") or "unknown")
        if not git.get("revision") and git.get("none"):
            revision += f": {str(git['none']).removeprefix('fatal: ')}"
        if changed:
            revision += f", with changes in {', '.join(map(str, changed))}"
        elif git.get("revision") and changed == []:
            revision += ", unchanged"
        entries = [entry for part in self.evidence.parts.values() for entry in part.entries]
        here = [str(machine[name]) for name in ("system", "kernel", "processor") if machine.get(name)]
        environment = {
            name: value
            for name, value in (run.get("environment") or {}).items()
            if name not in _OF_THE_COMMAND
        }
        rows = [
            ("run by", f"{by.get('user') or 'unknown'} on {by.get('host') or 'unknown'}"),
            ("began (UTC)", self.evidence.began),
            ("last entry (UTC)", max(str(entry.get("at", "")) for entry in entries)),
            ("command", " ".join(map(str, run.get("command", ())))),
            ("tests at revision", revision),
            ("repository", str(git.get("remote") or "")),
            *self._clouds(),
            ("pace", str((run.get("options") or {}).get("pace", ""))),
            ("machine of the controller", ", ".join(here)),
            ("versions", ", ".join(f"{name} {value}" for name, value in (run.get("versions") or {}).items())),
            ("environment", ", ".join(f"{name}={value}" for name, value in environment.items())),
        ]  # fmt: skip
        return [row for row in rows if row[1]]

    def _clouds(self) -> list[Row]:
        found = []
        for cloud in self.evidence.clouds:
            words = [f"{cloud.get('label', '?')}, {cloud.get('region', '?')}"]
            if account := (cloud.get("identity") or {}).get("account"):
                words.append(f"account {account}")
            if cloud.get("on_this_machine"):
                words.append("a model on the controller's machine")
            if (factor := cloud.get("time_compression", 1)) != 1:
                words.append(f"time compressed {factor:g} times")
            found.append(("measured in", "; ".join(words)))
        return list(dict.fromkeys(found))

    def _test(self, each: _Audited) -> str:
        measured = [self._measurement(one) for one in each.measurements]
        sentences = [verdict.sentence for verdict in each.verdicts]
        conditions = dict.fromkeys(
            str(line)
            for one in each.measurements
            for line in getattr(getattr(one, "maximum", one), "conditions", ())
        )
        altered = [line for line in self.checked.differences if each.test.path in line]
        source = f"<h3>The promise as written</h3><pre>{self._text(each.source)}</pre>" if each.source else ""
        noted = f"<p>Conditions: {self._text('; '.join(conditions))}</p>" if conditions else ""
        return "".join(
            [
                f'<section class="test"><h2>{self._text(self._name(each))}</h2>',
                f"<p>The test {self._text(_ended(each.test.outcome))}.</p>",
                self._list([*altered, *each.gaps], "bad"),
                self._list(sentences),
                noted,
                "".join(f"<pre>{self._text(reason)}</pre>" for reason in each.reasons if not each.verdicts),
                source,
                self._limits(each),
                *measured,
                "</section>",
            ]
        )

    def _limits(self, each: _Audited) -> str:
        """Return a table of the limits of the measurements, with their source and date."""
        rows: dict[tuple[str, ...], None] = {}
        for one in each.measurements:
            envelope = getattr(one, "envelope", None)
            for ceiling in envelope.ceilings if envelope is not None else ():
                whose = ceiling.source if ceiling.promised else f"{ceiling.source} (promises nothing)"
                rows[ceiling.label, str(ceiling.limit), whose, ceiling.date] = None
        if not rows:
            return ""
        heads = ("limit", "figure", "source", "date")
        return (
            f'<h3>Limits, and who states them</h3><div class="limits">{self._table(heads, list(rows))}</div>'
        )

    def _measurement(self, one: Any) -> str:
        if isinstance(one, BaseException):
            return f"<h3>A workload failed</h3><pre>{self._text(f'{type(one).__name__}: {one}')}</pre>"
        return self._shown(f"the measurement {type(one).__name__}", lambda: self._measured(one))

    def _measured(self, one: Any) -> str:
        shown = getattr(one, "maximum", one)
        values = shown.to_dict()
        rows = rows_of({name: values[name] for name in _FIGURES if name in values})
        title = str(getattr(shown, "workload", "") or f"{values.get('files', '')} files")
        steps = f"<pre>{self._text(one.table())}</pre>" if is_curve(one) else ""
        return (
            f"<h3>Measured: {self._text(title)}{' (the maximum of a sweep)' if is_curve(one) else ''}</h3>"
            f"{self._pictures(one)}{steps}{self._figures(rows)}"
        )

    def _figures(self, rows: Sequence[Row]) -> str:
        """Return figures side by side, as many as fit in a line; long ones have a line of their own."""
        shown = [(name, value) for name, value in rows if value != "0 s"]
        return "".join(
            [
                '<dl class="figures">',
                *(
                    f"<div{' class=long' if len(value) > _SHORT_FIGURE else ''}>"
                    f"<dt>{self._text(name)}</dt><dd>{self._text(value)}</dd></div>"
                    for name, value in shown
                ),
                "</dl>",
            ]
        )

    def _pictures(self, one: Any) -> str:
        try:
            found = drawn(_plots_of(one), one)
        except PlotsMissing as missing:
            self.without_pictures = str(missing)
            return ""
        return "".join(
            f'<img alt="{self._text(each.name)}" '
            f'src="data:image/svg+xml;base64,{base64.b64encode(each.svg).decode()}">'
            for each in found
        )

    def _integrity(self) -> str:
        manifest = self.evidence.root / MANIFEST
        sums = f"SHA-256 of its manifest: {sum_of(manifest)}" if manifest.is_file() else "It has no manifest."
        lines = [
            f"Made from the evidence folder {self.evidence.root.name}. {sums}",
            f"Made {datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC by pytest-cloudbench {__version__}. This page is no "
            "part of the evidence and is not signed: the evidence decides.",
            "Check it with: cloudbench verify FOLDER --signer KEY --manifest SHA256, with a key and a sum that you "
            "have from another place.",
            *([f"The page has no pictures: {self.without_pictures}"] if self.without_pictures else []),
        ]
        return f"{self._list(lines)}<pre>{self._text(str(self.checked))}</pre>"

    # Texts ------------------------------------------------------------------------------------------

    def _name(self, each: _Audited) -> str:
        return each.test.nodeid + (f" (attempt {each.attempt})" if each.attempt > 1 else "")

    def _text(self, text: object) -> str:
        clean = self.cleaner.text(str(text))
        more = len(clean) - _LONGEST_TEXT
        return html.escape(clean if more <= 0 else f"{clean[:_LONGEST_TEXT]} … and {more:,} characters more")

    def _list(self, lines: Sequence[str], kind: str = "") -> str:
        items = "".join(f"<li>{self._text(line)}</li>" for line in lines)
        return f'<ul class="{kind}">{items}</ul>' if items else ""

    def _table(self, heads: Sequence[str], rows: Sequence[Sequence[str]], *, outcomes: bool = False) -> str:
        clean = [[self.cleaner.text(str(cell))[:_LONGEST_TEXT] for cell in row] for row in rows]
        table = html_table(heads, clean)
        if outcomes:
            for word in _OUTCOMES:
                table = table.replace(f"<td>{word}</td>", f'<td class="{word}">{word}</td>')
        return table


def _plots_of(one: Any) -> Callable[[Any], Iterable[Any]]:
    """Return the function that draws this kind of measurement; other kinds, such as those of plugins, are not drawn."""
    if is_curve(one):
        return curve_plots
    if hasattr(one, "files_per_second"):
        return creation_plots
    if not hasattr(one, "series") or not hasattr(one, "envelope"):
        return lambda _: ()
    return network_plots if is_of_network(one) else storage_plots


def _ended(outcome: str) -> str:
    return {
        "": "did not end: the run was killed",
        "error": "ended with an error outside of its own body",
        "interrupted": "was interrupted",
        "skipped": "was skipped",
        "rerun": "failed and was run again",
    }.get(outcome, outcome)


_STYLE = (
    "@page{size:A4;margin:14mm}main{max-width:62rem;margin:auto}h2{border-bottom:2px solid #ccc;padding-bottom:.2em}"
    "h3{font-size:1em;margin:1.4em 0 .4em}img{display:block;max-width:100%;height:auto;margin:.6em 0}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f5f5f5;padding:.6em .8em;font-size:.85em}"
    "table{width:100%}td{overflow-wrap:break-word}td:first-child{min-width:11em}"
    ".figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(13em,1fr));gap:.3em 1em;margin:.6em 0}"
    ".figures .long{grid-column:1/-1}dt{color:#555;font-size:.85em}dd{margin:0;overflow-wrap:anywhere}"
    ".state{border:3px solid;padding:.6em 1em;margin:1em 0}"
    ".good{border-color:#1a7f37}.doubtful{border-color:#9a6700}.state.bad{border-color:#cf222e}ul.bad,p.bad{color:#cf222e}"
    ".limits td:nth-child(2n){white-space:nowrap}"
    ".held,.violated,.inconclusive{white-space:nowrap}.held{color:#1a7f37}.violated{color:#cf222e;font-weight:bold}.inconclusive{color:#9a6700;font-weight:bold}"
    "@media print{body{margin:0;font-size:11px}a{color:inherit}img,tr,pre{break-inside:avoid}h2,h3{break-after:avoid}"
    ".test{break-before:auto}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}"
)
