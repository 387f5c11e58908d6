"""A test's own assertion about what it measured, as a verdict: `assert run.rtt_s < 0.002` is a promise too."""

from __future__ import annotations

import re
import textwrap
from types import TracebackType

import pytest

from pytest_cloudbench.reports.errors_shown import MACHINERY
from pytest_cloudbench.reports.hooks import call_hook
from pytest_cloudbench.reports.properties import MEASUREMENT_PROPERTY, VERDICT_PROPERTY, texts_in
from pytest_cloudbench.verdicts.verdict import Verdict

_ASSERTING = frozenset({"unittest", "numpy", "hypothesis"})
"""Packages that raise assertion errors on behalf of the test that calls them."""
_LONGEST = 160
_LONG_NUMBER = re.compile(r"\b\d+\.\d{6,}(?:e-?\d+)?\b")


def report_violated(item: pytest.Item, failure: AssertionError) -> None:
    """Report the failed assertion of a test as a violated verdict, if it is about what the test measured.

    This is the case if the test had measured something and its own code raised the error, not a package of the
    MACHINERY. An assertion on a verdict is reported already.
    """
    if (
        not texts_in(item.user_properties, MEASUREMENT_PROPERTY)
        or getattr(failure, "verdict", None) is not None
    ):
        return
    if isinstance(failure.__cause__, AssertionError):
        failure = failure.__cause__  # of a block that judges several verdicts
    text = str(failure)
    if any(
        sentence in text and sentence.startswith("violated")
        for sentence in texts_in(item.user_properties, VERDICT_PROPERTY)
    ):
        return
    if _raised_in(failure.__traceback__) in MACHINERY - _ASSERTING:
        return
    call_hook(item, "verdict", verdict=_verdict(failure), measurement=None)


def _verdict(failure: AssertionError) -> Verdict:
    """Return the verdict of an assertion: its statement is the promise, its figures are what was measured."""
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
    figures = next((line for line in lines if line.startswith("assert ")), "").removeprefix("assert ")
    figures = _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.6g}", figures)
    said = lines[0] if lines and not lines[0].startswith("assert ") else ""
    statement = _short(str(pytest.ExceptionInfo.from_exception(failure).traceback[-1].statement))
    text = "; ".join(dict.fromkeys(filter(None, [_short(said), statement, _short(figures)])))
    return Verdict.violated(text, promise=statement, latency=_short(figures))


def _raised_in(traceback: TracebackType | None) -> str:
    """Return the name of the package whose code raised an error."""
    package = ""
    while traceback is not None:
        package = str(traceback.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        traceback = traceback.tb_next
    return package


def _short(text: str) -> str:
    return textwrap.shorten(text, _LONGEST, placeholder=" …")
