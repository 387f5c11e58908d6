"""How the errors of a test are shown: one sentence, at the line of the user's code; --full-trace shows all frames."""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from pytest_cloudbench.limits.argument_names import did_you_mean
from pytest_cloudbench.reports.properties import REPEAT_PROPERTY, VERDICT_PROPERTY, texts_in

_OURS = "pytest_cloudbench"
MACHINERY = sys.stdlib_module_names | {_OURS, "_pytest", "pluggy", "fabric", "paramiko", "decorator"}
"""Packages whose frames lie between a test and an error of ours; none is the user's code."""
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_DELIBERATE = (ValueError, TypeError, LookupError, AttributeError)
"""Built-in errors with which the package refuses arguments."""
_BEFORE_SENTENCE = re.compile(
    r"(?:AssertionError|pytest_cloudbench\.[\w.]+\.Inconclusive): (?=(?:not )?(?:held|violated|inconclusive): )"
)
_FIXTURES = (
    "ec2", "ec2_instance", "ec2_pair", "ebs_volume", "ebs_volumes", "instance_store", "host", "host_pair", "fio",
    "iperf3", "create_files", "sweep", "search_jobs", "baseline", "session_ec2", "module_ec2", "class_ec2",
)  # fmt: skip
_ASSERTED = re.compile(r"assert (not )?(.*)")


def shorten_error(item: pytest.Item, call: pytest.CallInfo[Any]) -> None:
    """Reduce the error of a test's failed phase to what the user needs: one sentence, no frame of this package."""
    assert call.excinfo is not None
    error: BaseException = call.excinfo.value
    if (region := getattr(error, "region", None)) is not None and _is_ours(type(error).__module__):
        region.end_was_reported = True  # it is reported once per test
    if isinstance(error, AttributeError):
        _suggest_attribute(error)
    if isinstance(error, pytest.FixtureLookupError):
        _suggest_fixture(error)
    if item.config.getoption("fulltrace", False):  # an option of pytest's terminal plugin
        return
    if type(error) is AssertionError:
        _keep_only_sentence(error, item)
    if not _is_deliberate(error):
        return
    if met := users_frames(error.__traceback__, getattr(item, "path", None)):
        # Its sentence names the cause already.
        error.__cause__, error.__suppress_context__ = None, True
        error = error.with_traceback(met)
    else:
        sentence = pytest.fail.Exception(f"{type(error).__name__}: {error}", pytrace=False)
        error = sentence.with_traceback(error.__traceback__)
    call.excinfo = pytest.ExceptionInfo.from_exception(error)


def _suggest_fixture(error: pytest.FixtureLookupError) -> None:
    """Name the fixture of this plugin that is nearest to a misspelt one, in place of the list of all."""
    meant = did_you_mean(str(error.argname), _FIXTURES, mark="")
    if meant and error.msg is None:
        error.msg = f"fixture {error.argname!r} not found: {meant}"


def shorten_report(report: pytest.TestReport) -> None:
    """Remove the class before a verdict's sentence, and this package's module before the class of any other error."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        return
    message = _BEFORE_SENTENCE.sub("", crash.message)
    crash.message = re.sub(r"^(Failed: (?=\w+: ))?(pytest_cloudbench\.[\w.]+\.(?=\w+: ))?", "", message)
    entries: Sequence[Any] = getattr(getattr(report.longrepr, "reprtraceback", None), "reprentries", ())
    for entry in entries:
        if isinstance(lines := getattr(entry, "lines", None), list):
            lines[:] = [_without_class(line) if line.startswith("E ") else line for line in lines]


def _without_class(line: str) -> str:
    """Return a line about an error without the class before a verdict, or without the module of a class of ours."""
    return re.sub(r"^(E +)pytest_cloudbench\.[\w.]+\.(?=\w+: )", r"\1", _BEFORE_SENTENCE.sub("", line))


def users_frames(traceback: TracebackType | None, test_file: Path | None = None) -> TracebackType | None:
    """Relink a traceback to the frames of the user's own code; None if there are none.

    Code of installed packages, such as other plugins, does not count, except the test's own file.
    """
    first = last = None
    while traceback is not None:
        if _is_users(traceback, test_file):
            if last is None:
                first = traceback
            else:
                last.tb_next = traceback
            last = traceback
        traceback = traceback.tb_next
    if last is not None:
        last.tb_next = None
    return first


def _is_users(traceback: TracebackType, test_file: Path | None) -> bool:
    code, package = traceback.tb_frame.f_code, traceback.tb_frame.f_globals.get("__name__", "")
    path = Path(code.co_filename)
    if path == test_file:
        return True
    return _INSTALLED.isdisjoint(path.parts) and str(package).partition(".")[0] not in MACHINERY


def _is_ours(module: object) -> bool:
    return str(module).partition(".")[0] == _OURS


def _is_deliberate(error: BaseException) -> bool:
    """Return True if the package raised this error deliberately, for the user, and not through a bug."""
    if _is_ours(type(error).__module__):
        return True
    innermost = error.__traceback__
    if not isinstance(error, _DELIBERATE) or innermost is None:
        return False
    while innermost.tb_next is not None:
        innermost = innermost.tb_next
    code = innermost.tb_frame.f_code
    line = linecache.getline(code.co_filename, innermost.tb_lineno).strip()
    return _is_ours(innermost.tb_frame.f_globals.get("__name__")) and line.startswith("raise ")


def _suggest_attribute(error: AttributeError) -> None:
    """Add the nearest name to an error about an attribute that an object of this package lacks."""
    name, owner = error.name, error.obj
    if not isinstance(name, str) or not _is_ours(type(owner).__module__):
        return
    names = [each for each in dir(owner) if not each.startswith("_")]
    if meant := did_you_mean(name, names, mark=""):
        error.args = (f"{error}: {meant}",)
        error.name = None  # some Pythons would add a suggestion of their own


def _keep_only_sentence(error: AssertionError, item: pytest.Item) -> None:
    """Reduce pytest's explanation of an asserted verdict, which repeats its sentence, to the sentence in full."""
    sentences = [
        *texts_in(item.user_properties, VERDICT_PROPERTY),
        *texts_in(item.user_properties, REPEAT_PROPERTY),
    ]
    lines = str(error).split("\n")
    for number, line in enumerate(lines):
        if not (found := _ASSERTED.fullmatch(line)):
            continue
        start, _, end = found[2].partition("...")  # pytest shortens long texts
        meant = [
            each
            for each in sentences
            if each == found[2] or (end and each.startswith(start) and each.endswith(end))
        ]
        if meant:
            error.args = ("\n".join([*lines[:number], f"{found[1] or ''}{meant[-1]}"]),)
            return
