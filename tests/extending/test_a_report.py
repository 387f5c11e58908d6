"""A report from outside the package: the recipe of docs/extending.md writes measurements and verdicts as CSV."""

import csv
import sys
from pathlib import Path

import pytest
from recipes import code_blocks

sys.path.append(str(Path(__file__).parent.parent / "evidence"))
from recorded_runs import STANDS_IN

TESTS = """
def test_it_reaches(volume, fio):
    run = fio(volume, rw="randread", runtime=300)
    assert run.reaches("3,000 IOPS")
    assert run.steady()


def test_it_does_not(volume, fio):
    assert fio(volume, rw="randread").reaches("9,000 IOPS")
"""


@pytest.fixture
def run(pytester):
    """Run the tests, with fio replaced by a stand-in, in a project whose conftest.py is ``conftest``."""

    def run(conftest, *options):
        pytester.makepyfile(stands_in=STANDS_IN, test_it=TESTS)
        pytester.makeconftest(conftest)
        quiet = ("-p", "no:cacheprovider", "-p", "no:benchmark", "--cloudbench-evidence=off")
        pytester.syspathinsert()
        start = pytester.runpytest_subprocess if "-n2" in options else pytester.runpytest_inprocess
        return start("-p", "stands_in", *quiet, *options)

    return run


@pytest.mark.parametrize("options", [(), ("-n2",)], ids=["alone", "xdist"])
def test_the_recipe_writes_a_row_for_each_measurement_and_verdict(run, pytester, options):
    if options:
        pytest.importorskip("xdist")
    (conftest,) = code_blocks("A report")
    result = run(conftest, *options)
    result.assert_outcomes(passed=1, failed=1)
    with (pytester.path / "cloudbench.csv").open(newline="") as file:
        rows = sorted(csv.reader(file))
    reached = [row[1:] for row in rows if row[0] == "test_it.py::test_it_reaches"]
    missed = [row[1:] for row in rows if row[0] == "test_it.py::test_it_does_not"]
    assert len(reached) == 3
    assert len(missed) == 2
    assert [row[0] for row in reached] == ["held", "held", "measured"]
    assert [row[0] for row in missed] == ["measured", "violated"]
    assert "9,000 IOPS" in missed[1][1]
    assert "3,000 IOPS" in missed[1][2]


def test_a_faulty_report_warns_and_harms_no_test_or_summary(run):
    result = run(
        "def pytest_cloudbench_verdict(verdict):\n    raise KeyError('my own')\n", "--junitxml=junit.xml"
    )
    result.assert_outcomes(passed=1, failed=1, warnings=result.parseoutcomes()["warnings"])
    result.stdout.fnmatch_lines(["*ReportIncomplete*pytest_cloudbench_verdict*my own*"])
    assert any("held:" in line for line in result.outlines), "the summary has the verdicts"


def test_a_misspelt_hook_is_refused(run):
    result = run("import pytest\n\n@pytest.hookimpl\ndef pytest_cloudbench_verdicts(verdict):\n    pass\n")
    assert result.ret != 0
    assert "pytest_cloudbench_verdicts" in str(result.stdout) + str(result.stderr)
