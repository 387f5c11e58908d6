"""Sessions with secrets in every channel of pytest: none of them is left in what the session writes."""

from __future__ import annotations

import gzip
import importlib.util
import os
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import recorded_runs
from planted_corpus import Planted, planted

EACH = int(os.environ.get("CLOUDBENCH_TEST_PLANTED", "2"))
"""Secrets in each channel; `python tests/faults` plants 200."""
CHANNELS = (
    "ids of tests", "equal texts", "equal lines", "equal dicts", "equal lists", "equal bytes", "text in text",
    "call in an assertion", "message of an assertion", "exception", "chained exception", "error of a fixture",
    "standard output", "standard error", "log", "warning", "property", "JUnit attribute", "skip", "xfail", "subtest",
    "fio's output", "fio's error", "Allure attachment", "Allure parameter", "Allure title", "pytest-benchmark",
)  # fmt: skip
_WINDOW = 8
_OF_SUMS = re.compile("[0-9a-f]{8}")
"""Check sums have some of these by chance."""

BODY = """
import dataclasses
import logging
import sys
import warnings

import allure
import pytest
from conftest import Target
from test_secrets_in_sessions import CHANNELS, EACH, plants


IDS = [one.text for one in plants("ids of tests")]


@pytest.mark.parametrize("case", IDS)
def test_ids(case, volume, fio, request):
    assert request.node.callspec.indices["case"] % 2, "every other one fails"


COMPARED = {
    "equal texts": lambda text: (text, "another"),
    "equal lines": lambda text: (f"first\\n{text}\\nlast", "first\\nanother\\nlast"),
    "equal dicts": lambda text: ({"n": 1, "note": text}, {"n": 1, "note": "another"}),
    "equal lists": lambda text: ([1, text, 2], [1, "another", 2]),
    "equal bytes": lambda text: (text.encode(), b"another"),
}


@pytest.mark.parametrize("channel", COMPARED)
@pytest.mark.parametrize("number", range(EACH))
def test_compared(channel, number, fio):
    left, right = COMPARED[channel](plants(channel)[number].text)
    assert left == right


def fine(text):
    return False


@pytest.fixture
def broken(number):
    raise ValueError(plants("error of a fixture")[number].text)


SAID = {}


def said(channel):
    def add(function):
        SAID[channel] = function
        return function

    return add


@said("text in text")
def _(text, **_):
    assert text in "another"


@said("call in an assertion")
def _(text, **_):
    assert fine(text)


@said("message of an assertion")
def _(text, **_):
    assert not text, text


@said("exception")
def _(text, **_):
    raise ValueError(text)


@said("chained exception")
def _(text, **_):
    try:
        raise ValueError(text)
    except ValueError as error:
        raise RuntimeError("it went wrong") from error


@said("standard output")
def _(text, **_):
    print(text)
    assert False


@said("standard error")
def _(text, **_):
    print(text, file=sys.stderr)
    assert False


@said("log")
def _(text, **_):
    logging.getLogger("x").warning("%s", text)
    assert False


@said("warning")
def _(text, **_):
    warnings.warn(text)


@said("property")
def _(text, record_property, **_):
    record_property("note", text)


@said("JUnit attribute")
def _(text, record_xml_attribute, **_):
    record_xml_attribute("note", text)


@said("skip")
def _(text, **_):
    pytest.skip(text)


@said("xfail")
def _(text, **_):
    pytest.xfail(text)


@said("subtest")
def _(text, request, **_):
    with request.getfixturevalue("subtests").test(msg=text, note=text):
        assert False


@said("fio's output")
def _(text, fio, **_):
    fio(Target(f"volume {text}"), rw="randread", description=text)


@said("fio's error")
def _(text, fio, **_):
    fio(Target(), rw="randread", description=f"fails: {text}")


@said("Allure attachment")
def _(text, number, **_):
    allure.attach(text, f"note {number}", allure.attachment_type.TEXT)
    allure.attach(text.encode(), f"data {number}", allure.attachment_type.JSON)


@said("Allure parameter")
def _(text, **_):
    allure.dynamic.parameter("note", text)


@said("Allure title")
def _(text, **_):
    allure.dynamic.title(text)
    allure.dynamic.description(text)
    with allure.step(text):
        pass


@said("pytest-benchmark")
def _(text, number, request, **_):
    if request.config.pluginmanager.hasplugin("xdist") and hasattr(request.config, "workerinput"):
        return
    benchmark = request.getfixturevalue("benchmark")
    benchmark.extra_info["note"] = text
    benchmark.group = text
    benchmark.pedantic(lambda: None)


@pytest.mark.parametrize("channel", [each for each in CHANNELS if each in SAID])
@pytest.mark.parametrize("number", range(EACH))
def test_said(channel, number, fio, request, record_property, record_xml_attribute):
    text = plants(channel)[number].text
    SAID[channel](**locals())


@pytest.mark.parametrize("number", range(EACH))
def test_fixture(number, broken, fio):
    pass
"""

FIO = """

def planted_fio(target, job, *, pace, on_progress):
    from pytest_cloudbench.workloads.fio.errors import FioError

    text = dict(job.options)["description"] if hasattr(job, "options") else str(job)
    if text.startswith("fails: "):
        raise FioError(f"fio ended with 1: {text}")
    return recorded_runs.measured(
        raw={"result.json": text.encode(), "errors.txt": text.encode()},
        command=f"fio --description={text}",
        conditions=(text,),
        target=target.label,
    )


@pytest.fixture(autouse=True)
def _planted(monkeypatch, _stands_in):
    stand_in(monkeypatch, "fio", planted_fio)
"""


_made: dict[str, list[Planted]] = {}


def plants(channel: str) -> list[Planted]:
    """Return the secrets of a channel: each has its own, so that none is known from another channel."""
    if channel not in _made:
        seed = 1000 + CHANNELS.index(channel)
        _made[channel] = random.Random(seed).sample(planted(seed), EACH)
    return _made[channel]


def left_in(texts: dict[str, str]) -> Counter[str]:
    """Return of how many secrets 8 characters in a row are left, channel by channel, and print where."""
    windows: dict[str, tuple[str, int]] = {}
    for channel in CHANNELS:
        for number, each in enumerate(plants(channel)):
            for part in each.parts:
                for at in range(max(1, len(part) - _WINDOW + 1)):
                    if not _OF_SUMS.fullmatch(window := part[at : at + _WINDOW]):
                        windows[window] = (channel, number)
    found: dict[tuple[str, int], str] = {}
    for name, text in texts.items():
        for form in dict.fromkeys((text, _joined(text))):
            for at in range(len(form) - _WINDOW + 1):
                if (where := windows.get(form[at : at + _WINDOW])) is not None and where not in found:
                    found[where] = f"{name}: {form[max(0, at - 80) : at + 40]!r}"
    for (channel, number), place in found.items():
        print(f"{channel}: {plants(channel)[number].kind} in {place}")
    return Counter(channel for channel, _ in found)


def _joined(text: str) -> str:
    """Return the text without colours, pytest's marks, line ends within strings, and escapes."""
    text = re.sub(r"\x1b\[[0-9;]*m|(?m:^(?:E +)?(?:[-+?] +)?)", "", text)
    return re.sub(r"([\"'])\s*\n\s*[bru]?\1|\\+(?:\n|[nrt])?", "", text)


def written(folder: Path, *outputs: str) -> dict[str, str]:
    """Return all that the session wrote: files with their names, unpacked, and its outputs."""
    texts = {f"output {number}": text for number, text in enumerate(outputs)}
    for path in folder.rglob("*"):
        if path.suffix == ".pyc" or (path.parent == folder and path.suffix == ".py"):
            continue
        texts[f"name of {path}"] = path.name
        if path.is_file():
            data = path.read_bytes()
            texts[str(path)] = (gzip.decompress(data) if path.suffix == ".gz" else data).decode(
                "utf-8", "replace"
            )
    return texts


SESSIONS = {
    "alone": ("--showlocals", "--benchmark-json=benchmark.json"),
    "two workers": ("-n2", "-vv", "-p", "no:benchmark"),
}


@pytest.fixture(scope="module", params=SESSIONS)
def left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Counter[str]:
    """Run a session with all the secrets, make the audit page of its evidence, and return what is left."""
    folder = tmp_path_factory.mktemp("session")
    (folder / "conftest.py").write_text(recorded_runs.STANDS_IN + FIO)
    (folder / "test_it.py").write_text(BODY)
    options = [
        "--junitxml=junit.xml", "--alluredir=allure", "--cloudbench-evidence=evidence", "-rA", "-v", "--rootdir=.",
        "--cloudbench-summary=summary.md", "--log-file=log.txt", *SESSIONS[request.param],
    ]  # fmt: skip
    if importlib.util.find_spec("pytest_html") is not None:
        options.append("--html=report.html")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    environment.pop("PYTEST_ADDOPTS", None)
    audit = ["-m", "pytest_cloudbench.cli", "report", "--audit", "evidence", "--output", "audit.html"]
    outputs = []
    for command in (["-m", "pytest", *options], audit):
        done = subprocess.run(
            [sys.executable, *command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        outputs += [done.stdout, done.stderr]
    ran = dict(re.findall(r"(\d+) (passed|failed|errors)", outputs[0])[::-1])
    assert {"passed", "failed"} <= {*ran.values()}, outputs
    for name in ("junit.xml", "summary.md", "log.txt", "evidence", "audit.html"):
        assert (folder / name).exists(), outputs[-1]
    assert outputs[0].count("(removed: ") > EACH
    return left_in(written(folder, *outputs))


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "channel",
    [
        pytest.param(each, marks=pytest.mark.fault("secrets", f"planted by the channel: {each}", leak=True))
        for each in CHANNELS
    ],
)
def test_no_channel_has_a_secret(left, channel, record_property):
    record_property("tried", EACH)
    assert left[channel] == 0
