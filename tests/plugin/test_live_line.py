"""The live line of a running workload: shown when is_shown, silent otherwise."""

import pytest

SHOWS = """
    from pytest_cloudbench.reports.live_line import live_line, is_shown
    from pytest_cloudbench.options import setting

    def test_it(pytestconfig):
        choice = setting(pytestconfig, "progress")
        shown = is_shown(pytestconfig, choice)
        with live_line(pytestconfig, shown=shown, at_once=choice == "on") as show:
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
        with live_line.live_line(pytestconfig, shown=live_line.is_shown(pytestconfig, "auto")) as show:
            for second in range(1, 101):
                show(f"fio randread 4k: second {second}.")
"""


def test_without_a_terminal_a_line_every_half_minute(pytester):
    """The first line also comes after this time, so that short workloads print nothing."""
    pytester.makepyfile(GOES_ON)
    result = pytester.runpytest_inprocess()
    said = [line for line in result.outlines if "second" in line]
    assert said == [f"fio randread 4k: second {second}." for second in (30, 60, 90)]
    assert "second" not in str(pytester.runpytest_inprocess("-q").stdout)
