"""A workload from outside the package: the recipe of docs/extending.md adds ``sysbench fileio``."""

import json
import shutil

import pytest
from recipes import code_blocks

CONFTEST, TEST = code_blocks("A workload")
ON_NOTHING = """
import types

import pytest

from pytest_cloudbench import TargetError, WorkloadRefused

DEVICE = types.SimpleNamespace(
    kind="block", label="gp3 vol-1", host=types.SimpleNamespace(ensure_tool=print), prove_writable=print
)
"""


PICTURES = ["IOPS over time", "slowest 1 %"]


def svg_names(folder):
    """Return the names of the pictures in the results of allure-pytest."""
    (result,) = (json.loads(path.read_text()) for path in folder.glob("*-result.json"))
    return [each["name"] for each in result["attachments"] if each["type"] == "image/svg+xml"]


@pytest.fixture
def run(pytester):
    """Run a test file in a project whose conftest.py is the recipe."""

    def run(body, *options, conftest=CONFTEST):
        pytester.makeconftest(conftest)
        pytester.makepyfile(test_it=body)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:benchmark", *options)

    return run


@pytest.mark.embedded
@pytest.mark.timed
def test_the_recipe_measures_records_and_replays(run, pytester):
    if shutil.which("sysbench") is None:
        pytest.skip("sysbench is not installed on this machine, which is the embedded region's host")
    recorded = run(TEST, "--cloudbench-evidence=kept", "--junitxml=recorded.xml", "--alluredir=allure")
    recorded.assert_outcomes(passed=1)
    (pytester.path / "kept").rename(pytester.path / "moved")
    replayed = run(
        TEST, "--cloudbench-replay=moved", "--junitxml=replayed.xml", "--alluredir=allure-replayed"
    )
    replayed.assert_outcomes(passed=1)
    said = [(pytester.path / name).read_text() for name in ("recorded.xml", "replayed.xml")]
    for text in said:
        assert "quick pace" not in text, "5 s are within the quick pace"
        assert "3,000 IOPS" in text
    verdicts = [
        [line.split("in ")[0].strip() for line in result.outlines if "held:" in line]
        for result in (recorded, replayed)
    ]
    assert verdicts[0] == verdicts[1]
    assert len(verdicts[0]) == 2
    for folder in ("allure", "allure-replayed"):
        pictures = svg_names(pytester.path / folder)
        assert pictures == [f"sysbench rndrd 4k: {name}" for name in PICTURES], "no latency by the second"


def test_a_job_that_cannot_be_run_is_refused_before_anything_starts(run):
    body = """
def test_a_mode_of_its_own(sysbench):
    with pytest.raises(WorkloadRefused, match="mode='seqrd'.*rndrd or rndwr"):
        sysbench(DEVICE, mode="seqrd")

def test_an_option_that_it_does_not_have(sysbench):
    with pytest.raises(WorkloadRefused, match="sysbench: .*thread"):
        sysbench(DEVICE, thread=4)

def test_a_target_of_another_kind(sysbench):
    with pytest.raises(TargetError, match="mounted volume"):
        sysbench(DEVICE)
"""
    run(ON_NOTHING + body, "--cloudbench-evidence=off").assert_outcomes(passed=3)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            ('Workload(\n        "sysbench"', 'Workload(\n        "fio"'),
            "fio is a workload of pytest-cloudbench",
        ),
        (('Workload(\n        "sysbench"', 'Workload(\n        "sysbench fileio"'), "use an identifier"),
        (("records=(SysbenchRun,)", "records=(str,)"), "str"),
    ],
)
def test_a_faulty_declaration_is_refused(run, changed, said):
    assert changed[0] in CONFTEST
    result = run("def test_it(sysbench):\n    pass\n", conftest=CONFTEST.replace(*changed))
    assert result.ret != 0
    assert said in str(result.stdout) + str(result.stderr)
