"""A closed terminal while a measurement runs: the session ends as by Ctrl-C, and what it recorded is complete."""

from __future__ import annotations

import contextlib
import os
import pty
import time
from pathlib import Path

import pytest
from inner_runs import HEAD, LIMIT_S, Ended, start_pytest, wait_until
from leftovers import gone

from pytest_cloudbench.cli import main
from pytest_cloudbench.evidence.folder import EvidenceError
from pytest_cloudbench.evidence.reader import Evidence

pytestmark = [pytest.mark.embedded, pytest.mark.alone]

TESTS = f"""{HEAD}
import time

def test_first(ebs_volume, fio):
    fio(ebs_volume, rw="randread", runtime=1)

def test_second(ebs_volume, fio):
    while not pathlib.Path("first-ended").exists():
        time.sleep(0.05)
    pathlib.Path("loaded").touch()
    fio(ebs_volume, rw="randread", runtime=300)
"""
EVIDENCE = "evidence"


def outcomes(folder: Path) -> dict[str, str]:
    """The outcome of each test by the evidence in this folder."""
    with contextlib.suppress(EvidenceError):
        return {test.nodeid.partition("::")[2]: test.outcome for test in Evidence(folder / EVIDENCE).tests}
    return {}


def loses_its_terminal(folder: Path, *options: str, shows: bool) -> Ended:
    """Close the terminal of a session, which shows its output there or writes it to a file."""
    master, terminal = pty.openpty()
    os.set_blocking(master, False)
    shown = bytearray()

    def has_ended() -> bool:
        with contextlib.suppress(OSError):  # there is nothing to read
            shown.extend(os.read(master, 1 << 16))  # else the terminal is full, and the session waits
        return process.poll() is not None

    with (folder / "output").open("w") as file:
        output = terminal if shows else file
        process = start_pytest(
            folder,
            TESTS,
            *("--cloudbench-pace=full", f"--cloudbench-evidence={EVIDENCE}", *options),
            # Tests that run under nohup ignore SIGHUP, and so would this session.
            prefix=("env", "--default-signal=HUP", "setsid", "--ctty"),
            stdin=terminal,
            stdout=output,
            stderr=output,
        )
    os.close(terminal)
    wait_until(lambda: has_ended() or outcomes(folder).get("test_first"), "the end of the first test")
    (folder / "first-ended").touch()
    wait_until(lambda: has_ended() or (folder / "loaded").exists(), "the second test's load")
    time.sleep(1)  # well within what it does for minutes
    began = time.monotonic()
    os.close(master)  # the kernel sends SIGHUP, and the terminal takes no more output
    code = process.wait(LIMIT_S)
    text = shown.decode(errors="replace") + (folder / "output").read_text()
    return Ended(folder, code, text, time.monotonic() - began)


RUNS = {
    "alone": lambda folder: loses_its_terminal(folder, shows=True),
    "workers": lambda folder: loses_its_terminal(folder, "-n", "2", shows=True),
    "workers, output to a file": lambda folder: loses_its_terminal(folder, "-n", "2", shows=False),
}


@pytest.mark.fault("kill", "the terminal is closed during a measurement")
@pytest.mark.parametrize("run", RUNS)
def test_a_session_ends_as_interrupted_with_complete_evidence(ended, run, capsys):
    folder, code, output, _ = ended[run]
    assert outcomes(folder) == {"test_first": "passed", "test_second": "interrupted"}, output
    assert main(["verify", str(folder / EVIDENCE)]) == 0, capsys.readouterr().out
    assert code == pytest.ExitCode.INTERRUPTED, output


@pytest.mark.fault("kill", "the terminal is closed during a measurement", leak=True)
@pytest.mark.usefixtures("ended")
def test_nothing_is_left_of_any(before):
    gone(before)
