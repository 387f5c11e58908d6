"""The live line of a running workload: shown when wanted, silent otherwise."""

import pytest

SHOWS = """
    from pytest_cloudbench.evidence.live_line import live_line, wanted
    from pytest_cloudbench.settings import setting

    def test_it(pytestconfig):
        shown = wanted(pytestconfig, setting(pytestconfig, "progress"))
        with live_line(pytestconfig, shown=shown) as show:
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
def test_shown_only_when_wanted(pytester, options, seen):
    """Without a terminal (as here) the default is silence."""
    pytester.makepyfile(SHOWS)
    result = pytester.runpytest_inprocess(*options)
    result.assert_outcomes(passed=1)
    assert ("80,000 IOPS" in str(result.stdout)) is seen


def test_on_a_terminal_the_line_is_cleared_and_pytest_goes_on_where_it_was(pytester):
    pytester.makepyfile(test_a=SHOWS)
    result = pytester.runpytest_inprocess("--cloudbench-progress=on", "--color=yes")
    line = next(line for line in result.outlines if "fio randread" in line)
    saved, restored = line.index("\x1b7"), line.index("\x1b[K\x1b8")
    assert saved < line.index("fio randread") < restored
    assert line.index("\x1b[K", restored + 1) < line.rindex(".")
