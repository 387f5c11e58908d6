"""The live line of what takes time: shown if the options say so, silent otherwise, and apart from captured output."""

import os
import pty
import re
import subprocess
import sys
import threading

import pytest

# Loaded here so that the runs inside these tests do not load it again: it would exist twice.
import pytest_cloudbench.reports.live_line  # noqa: F401

SHOWS = """
    from pytest_cloudbench.reports.live_line import live_line

    def test_it(pytestconfig):
        with live_line(pytestconfig) as show:
            if show is not None:
                show("fio randread 4k: 50 % 80,000 IOPS")
"""


@pytest.mark.parametrize(
    ("options", "seen"),
    [
        ([], False),
        (["--cloudbench-progress=on"], True),
        (["--cloudbench-progress=off", "--color=yes"], False),
        (["--cloudbench-progress=on", "--color=yes"], True),
        (["--cloudbench-progress=on", "--color=yes", "-v"], True),
    ],
)
def test_progress_is_shown_if_the_option_says_so(pytester, options, seen):
    """Without a terminal (as here) nothing is shown by default."""
    pytester.makepyfile(SHOWS)
    result = pytester.runpytest_inprocess(*options)
    result.assert_outcomes(passed=1)
    assert ("80,000 IOPS" in str(result.stdout)) is seen


def test_on_a_terminal_the_line_is_cleared_and_pytest_continues(pytester):
    pytester.makepyfile(test_a=SHOWS)
    result = pytester.runpytest_inprocess("--cloudbench-progress=on", "--color=yes")
    line = next(line for line in result.outlines if "fio randread" in line)
    saved, restored = line.index("\x1b7"), line.index("\x1b[K\x1b8")
    assert saved < line.index("fio randread") < restored
    assert line.index("\x1b[K", restored + 1) < line.rindex(".")


GOES_ON = """
    import itertools

    from pytest_cloudbench.reports import live_line

    def test_it(pytestconfig, monkeypatch):
        clock = itertools.count()
        monkeypatch.setattr(live_line.time, "monotonic", lambda: float(next(clock)))
        with live_line.live_line(pytestconfig) as show:
            for second in range(1, 101) if show else ():
                show(f"fio randread 4k: second {second}.")
"""


def test_without_a_terminal_a_line_every_half_minute(pytester):
    """The first line also comes after this time, so that short workloads print nothing."""
    pytester.makepyfile(GOES_ON)
    result = pytester.runpytest_inprocess()
    said = [line for line in result.outlines if "second" in line]
    assert said == [f"fio randread 4k: second {second}." for second in (30, 60, 90)]
    assert "second" not in str(pytester.runpytest_inprocess("-q").stdout)


def on_terminal(folder, *options):
    """Run pytest on a terminal of 80 columns and return all that it wrote there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options],
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={
            **os.environ,
            "COLUMNS": "80",
            "TERM": "xterm",
            "PY_COLORS": "1",
        },  # a test's own sessions have no colours
    )
    os.close(theirs)
    written = []

    def read():
        try:
            while piece := os.read(ours, 65536):
                written.append(piece)
        except OSError:  # the other end is closed
            pass

    reader = threading.Thread(target=read)
    reader.start()
    process.wait(60)
    reader.join(60)
    os.close(ours)
    return b"".join(written).decode(errors="replace")


PHASES = """
    import threading
    import time
    from pytest_cloudbench.fixtures.ending import say, showing
    from pytest_cloudbench.reports import live_line

    class Written:
        "What the live line has written, until something is in it."
        def __init__(self, monkeypatch):
            self.texts, self.came, self.awaited = [], threading.Event(), "nothing yet"
            write = live_line._Line._write
            def keep(line, text):
                write(line, text)
                self.texts.append(text)
                if self.awaited in text:
                    self.came.set()
            monkeypatch.setattr(live_line._Line, "_write", keep)
        def wait_for(self, text):
            self.awaited = text
            assert self.came.wait(30)
            self.came.clear()

    def test_it(pytestconfig, monkeypatch, capfd):
        written = Written(monkeypatch)
        with showing(pytestconfig, "launch m5.large"):
            print("to be captured")
            written.wait_for("launch m5.large: ")
            with showing(pytestconfig, "install fio"):
                written.wait_for("install fio: ")
                say(pytestconfig, "something was removed")
                written.wait_for("install fio: ")
            written.wait_for("launch m5.large: ")
        assert capfd.readouterr().out == "to be captured\\n"
        assert written.texts[-1].startswith(("\\x1b[K", "\\r\\x1b[K"))
"""


@pytest.mark.parametrize("options", [(), ("-v",), ("-s",)], ids=str)
def test_phases_nest_on_a_terminal_and_captured_output_stays_captured(pytester, options):
    path = pytester.makepyfile(test_a=PHASES)
    if options == ("-s",):
        path.write_text(
            path.read_text().replace(", capfd", "").replace("assert capfd.readouterr().out ==", "assert")
        )
    shown = on_terminal(pytester.path, *options)
    assert "1 passed" in re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert "something was removed" in shown
    assert ("to be captured" in shown) is (options == ("-s",))


@pytest.mark.parametrize("options", [("-q",), ("--cloudbench-progress=off",)], ids=str)
def test_no_phase_is_shown_on_a_terminal_if_the_options_say_so(pytester, options):
    pytester.makepyfile(
        test_a="""
        import time
        from pytest_cloudbench.fixtures.ending import showing

        def test_it(pytestconfig):
            with showing(pytestconfig, "launch m5.large"):
                time.sleep(0.5)
        """
    )
    assert "launch" not in on_terminal(pytester.path, *options)


AGES = """
    from pytest_cloudbench.fixtures.ending import showing
    from pytest_cloudbench.reports import live_line

    def test_it(pytestconfig, monkeypatch):
        seconds = 0.0
        monkeypatch.setattr(live_line.time, "monotonic", lambda: seconds)
        monkeypatch.setattr(live_line.threading.Thread, "start", lambda thread: None)
        monkeypatch.setattr(live_line.threading.Thread, "join", lambda thread, timeout=None: None)
        with showing(pytestconfig, "launch m5.large"):
            line = pytestconfig.stash[live_line._LINE]
            for seconds in range(70):
                line._paint()
"""


def test_without_a_terminal_a_phase_has_a_line_when_it_lasts_and_every_half_minute(pytester):
    """A phase of less than two seconds prints nothing; workers of pytest-xdist begin after half a minute."""
    pytester.makepyfile(test_a=AGES)
    lines = pytester.runpytest_inprocess().outlines
    assert [line for line in lines if "launch" in line] == [
        f"launch m5.large: {age} s" for age in (2, 32, 62)
    ]
    said = pytester.runpytest_subprocess("-n1").errlines
    assert [line for line in said if "launch" in line] == [
        f"[gw0] launch m5.large: {age} s" for age in (30, 60)
    ]
