"""The table of faults: what counts as tried, leaked and told wrong."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from fault_tally import Faults, Tally

TESTS = """
import pytest

@pytest.fixture
def checked():
    yield
    assert False, "something is left"

@pytest.mark.fault("disks", "a disk is lost")
def test_named(): pass

@pytest.mark.fault("disks", "a disk is lost")
def test_named_wrongly(): assert False

@pytest.mark.fault("disks", "a disk is lost", leak=True)
def test_left(): assert False

@pytest.mark.fault("kill", "a run is killed")
def test_left_behind_by_a_fixture(checked): pass

@pytest.mark.fault("parsers", "output is damaged")
def test_often(record_property): record_property("tried", 1000)

@pytest.mark.fault("network", "a link is down")
def test_skipped(): pytest.skip("no link")

def test_of_no_fault(): assert False
"""


def run(pytester: pytest.Pytester, *kinds: str) -> Faults:
    pytester.makeini("[pytest]\nmarkers = fault(kind, what, leak=False)")
    pytester.makepyfile(TESTS)
    faults = Faults(kinds) if kinds else Faults()
    pytester.inline_run("-p", "no:cacheprovider", "-m", "fault", plugins=[faults])
    return faults


def test_each_fault_is_counted_once_for_each_try(pytester: pytest.Pytester) -> None:
    faults = run(pytester)
    assert faults.tallies == {
        ("disks", "a disk is lost"): Tally(tests=3, tried=3, leaked=1, told_wrong=1),
        ("kill", "a run is killed"): Tally(tests=1, tried=1, leaked=1),
        ("parsers", "output is damaged"): Tally(tests=1, tried=1000),
        ("network", "a link is down"): Tally(tests=1, skipped=1),
    }
    *lines, total = faults.lines()[1:]
    assert [line.split()[0] for line in lines] == ["kill", "disks", "network", "parsers"]
    assert total.split() == ["4", "faults", "1,004", "2", "1"]


def test_only_the_kinds_asked_for_run(pytester: pytest.Pytester) -> None:
    assert {kind for kind, _ in run(pytester, "kill", "parsers").tallies} == {"kill", "parsers"}


def test_the_command_lists_faults_and_runs_none(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside settings for the terminal, as this project has them."""
    pytester.makeini("[pytest]\naddopts = -ra\nmarkers = fault(kind, what, leak=False)")
    (pytester.mkdir("tests") / "test_it.py").write_text(TESTS)
    command = runpy.run_path(str(Path(__file__).with_name("__main__.py")))["main"]
    assert command(["--list", "disks", "network"], root=pytester.path) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == ["disks", "network"]
    assert listed[0].split()[-2:] == ["3", "tests"]
