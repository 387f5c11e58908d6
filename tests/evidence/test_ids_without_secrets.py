"""The ids of tests with secrets in their parameters: clean, distinct, and still to be selected."""

import re
import xml.etree.ElementTree as ET

import pytest
import recorded_runs

FIRST, SECOND = (f"ghp_{letter * 6}0123456789abcdefghij0123456789" for letter in "Qz")
BODY = f"""
import pytest

@pytest.mark.parametrize("case", ["plain", "{FIRST}", "{SECOND}", "other"])
def test_before(case):
    pass

@pytest.mark.parametrize("case", ["plain", pytest.param("{FIRST}", id="mine-{FIRST}"), "{SECOND}-x", "{FIRST}-x"])
def test_it(case, volume, fio):
    assert case in ("plain", "{FIRST}"), "not this one"
"""
CLEAN = [
    "test_it.py::test_before[plain]",
    "test_it.py::test_before[(removed: token)]",
    "test_it.py::test_before[(removed: token)-2]",
    "test_it.py::test_before[other]",
    "test_it.py::test_it[plain]",
    "test_it.py::test_it[mine-(removed: token)]",
    "test_it.py::test_it[(removed: token)-x]",
    "test_it.py::test_it[(removed: token)-x-2]",
]


@pytest.fixture
def run(pytester):
    pytester.makeconftest(recorded_runs.STANDS_IN)
    pytester.makepyfile(test_it=BODY)

    def run(*options):
        options = ("-p", "no:benchmark", "-p", "no:allure_pytest", "--cloudbench-evidence=off", *options)
        return pytester.runpytest_inprocess(*options)

    return run


def ids_in(result):
    return [line for line in result.outlines if line.startswith("test_it.py::")]


def test_ids_are_clean_and_distinct(run, pytester):
    result = run("--collect-only", "-q")
    assert ids_in(result) == CLEAN
    run("--junitxml=junit.xml").assert_outcomes(passed=6, failed=2)
    cases = ET.parse(pytester.path / "junit.xml").iter("testcase")
    assert [f"test_it.py::{case.get('name')}" for case in cases] == CLEAN


@pytest.mark.parametrize("words", ["mine", "test_it and mine"])
def test_names_select_by_their_other_words(run, words):
    run("-k", words).assert_outcomes(passed=1, deselected=7)


def test_the_original_name_selects_too(run):
    run("-k", SECOND).assert_outcomes(passed=1, failed=1, deselected=6)


def test_a_clean_id_selects_its_test(run):
    result = run(CLEAN[6], CLEAN[4], "-v")
    result.assert_outcomes(passed=1, failed=1)


def test_those_that_failed_last_run_again(run):
    run().assert_outcomes(passed=6, failed=2)
    result = run("--lf", "-v")
    result.assert_outcomes(failed=2)
    result = run("--ff", "-v")
    assert [line.split(" FAILED")[0] for line in ids_in(result)[:2]] == CLEAN[6:]
    run("--sw").assert_outcomes(passed=6, failed=1)


def test_reruns_belong_to_their_tests(run):
    result = run("--reruns=1", "-v")
    result.assert_outcomes(passed=6, failed=2)
    assert sum("RERUN" in line for line in ids_in(result)) == 2


def test_workers_agree_on_ids(run):
    result = run("-n2", "-v")
    result.assert_outcomes(passed=6, failed=2)
    found = re.findall(r"(?:PASSED|FAILED) (test_it.py::.*?\])(?= -|\s*$)", result.stdout.str(), re.M)
    assert sorted({*found}) == sorted(CLEAN)


def test_tests_without_our_fixtures_keep_their_ids(pytester):
    pytester.makepyfile(test_it=BODY.replace("volume, fio", ""))
    result = pytester.runpytest_inprocess("--collect-only", "-q")
    assert f"test_it.py::test_before[{FIRST}]" in ids_in(result)
