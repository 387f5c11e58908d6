"""A regression in Allure's results: a broken promise like any other."""

import json

import pytest
import recorded_runs

pytest.importorskip("allure_pytest")

BODY = """
from conftest import rates

def test_it(volume, fio):
    rates[:] = [{rate}]
    assert fio(volume, rw="randread").reaches("1,000 IOPS")
"""


def test_a_regression_is_a_violated_promise(pytester):
    pytester.makeconftest(recorded_runs.STANDS_IN)

    def run(rate, *options):
        pytester.makepyfile(test_it=BODY.format(rate=rate))
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:benchmark", *options)

    run(3_000.0, "--cloudbench-evidence=before").assert_outcomes(passed=1)
    gate = ("--cloudbench-baseline=before", "--cloudbench-regression=5%", "--alluredir=out")
    run(2_000.0, "--cloudbench-evidence=off", *gate).assert_outcomes(failed=1)
    (path,) = pytester.path.glob("out/*-result.json")
    result = json.loads(path.read_text())
    assert result["status"] == "failed"
    assert {"name": "cloudbench.outcome", "value": "violated"} in result["labels"]
    assert "2,000 IOPS against 3,000 IOPS" in result["statusDetails"]["message"]
    judged = {step["name"]: step["status"] for step in result["steps"] if step["name"].startswith("judge: ")}
    assert list(judged.values()) == ["passed", "failed"]
    assert any(name.startswith("judge: not worse than 1 earlier run") for name in judged)
