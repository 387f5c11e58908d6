"""Measurements in pytest-benchmark: its table, its JSON, its gate."""

import json

import pytest
from measured_runs import CONFTEST, NO_EVIDENCE

TEST = """
import os
from conftest import measured

def test_it(fio):
    rate = float(os.environ.get("RATE", "80000"))
    run = fio(measured(rate * 0.99, rate, rate * 1.01), rw="randread")
    assert run.iops > 0
"""


@pytest.fixture
def run(pytester, monkeypatch):
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"):
        monkeypatch.delenv(name, raising=False)  # of the workers that may run these tests themselves
    pytester.makeconftest(CONFTEST)

    def run(*options, test=TEST, apart=False):
        pytester.makepyfile(test)
        start = pytester.runpytest_subprocess if apart else pytester.runpytest_inprocess
        return start(*NO_EVIDENCE, *options)

    return run


def saved(pytester, path="out.json"):
    return json.loads((pytester.path / path).read_text())


def test_the_json_holds_the_iops_and_everything_else_of_the_measurement(run, pytester):
    result = run("--benchmark-json=out.json")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*benchmark 'seconds per I/O': 1 tests*", "test_it fio randread 4k*"])
    benchmark = saved(pytester)["benchmarks"][0]
    assert benchmark["stats"]["ops"] == pytest.approx(80_000)
    assert benchmark["stats"]["mean"] == pytest.approx(1 / 80_000)
    assert benchmark["stats"]["rounds"] == 3
    assert benchmark["stats"]["stddev"] > 0
    assert benchmark["fullname"].endswith("::test_it fio randread 4k")
    extra = benchmark["extra_info"]
    assert (extra["seconds_per"], extra["iops"], extra["tool_version"]) == ("I/O", 80_000.0, "fio-3.33")
    assert "series" not in extra


@pytest.mark.parametrize(
    ("rate", "passes"), [(80_000, True), (160_000, True), (78_000, True), (75_000, False), (8_000, False)]
)
def test_the_gate_lets_a_faster_result_pass_and_stops_a_slower_one(run, monkeypatch, rate, passes):
    run("--benchmark-save=base").assert_outcomes(passed=1)
    monkeypatch.setenv("RATE", str(rate))
    result = run("--benchmark-compare=0001", "--benchmark-compare-fail=mean:5%")
    assert (result.ret == 0) is passes
    assert ("Performance has regressed" in str(result.stdout) + str(result.stderr)) is not passes


def test_autosave_and_histogram_work(run, pytester):
    pytest.importorskip("pygal")
    result = run("--benchmark-autosave", "--benchmark-histogram=shown")
    result.assert_outcomes(passed=1)
    assert list(pytester.path.glob(".benchmarks/*/0001_*.json"))
    assert list(pytester.path.glob("shown*.svg"))


@pytest.mark.parametrize(
    "options",
    [["--benchmark-disable"], ["--benchmark-skip"], ["-p", "no:benchmark"], ["-n2", "--benchmark-disable"]],
)
def test_disabled_it_adds_nothing_and_breaks_nothing(run, options):
    result = run(*options, apart="-n2" in options)
    result.assert_outcomes(passed=1)
    assert "seconds per I/O" not in str(result.stdout)
    assert "rror" not in str(result.stderr)


def test_a_test_that_measures_counts_as_a_benchmark_and_others_do_not(run, pytester):
    result = run(
        "--benchmark-only", "--benchmark-json=out.json", test=TEST + "\ndef test_plain():\n    pass\n"
    )
    result.assert_outcomes(passed=1, skipped=1)
    assert len(saved(pytester)["benchmarks"]) == 1


def test_under_xdist_the_measurements_of_all_workers_are_there(run, pytester):
    test = """
import pytest
from conftest import measured

@pytest.mark.parametrize("rate", [1000, 2000, 3000, 4000])
def test_it(fio, rate):
    fio(measured(rate, rate), rw="randread")
"""
    result = run("-n2", "--benchmark-json=out.json", test=test, apart=True)
    result.assert_outcomes(passed=4)
    found = saved(pytester)["benchmarks"]
    assert sorted(round(each["stats"]["ops"]) for each in found) == [1000, 2000, 3000, 4000]
    assert {each["params"]["rate"] for each in found} == {"1000", "2000", "3000", "4000"}


def test_only_the_last_attempt_of_a_test_counts(run, pytester):
    pytest.importorskip("pytest_rerunfailures")
    test = """
from conftest import measured
tries = []

def test_it(fio):
    tries.append(1)
    run = fio(measured(*[1000.0 * len(tries)] * 3), rw="randread")
    assert run.iops > 1500
"""
    result = run("--reruns=2", "--benchmark-json=out.json", test=test)
    assert result.ret == 0
    assert [round(each["stats"]["ops"]) for each in saved(pytester)["benchmarks"]] == [2000]


def test_several_measurements_of_a_test_have_names_of_their_own(run, pytester):
    test = """
from conftest import measured

def test_it(fio):
    fio(measured(1000.0), rw="randread")
    fio(measured(2000.0), rw="randread")
    fio(measured(3000.0, workload="fio write 1m"), rw="write")
"""
    run("--benchmark-json=out.json", test=test).assert_outcomes(passed=1)
    names = {each["name"]: round(each["stats"]["ops"]) for each in saved(pytester)["benchmarks"]}
    assert names == {
        "test_it fio randread 4k": 1000,
        "test_it fio randread 4k #2": 2000,
        "test_it fio write 1m": 3000,
    }


def test_machine_info_names_the_hardware_and_a_comparison_reports_differences(run, pytester, monkeypatch):
    test = (
        TEST
        + """
import pytest
from types import SimpleNamespace

@pytest.fixture(autouse=True)
def launched(request):
    from pytest_cloudbench.reports.hooks import call_hook

    kind = os.environ.get("TYPE", "c5.18xlarge")
    launched = SimpleNamespace(
        image=SimpleNamespace(name="al2023"),
        machine_limits=None,
        time_compression=1.0,
        modelled_latency=None,
    )
    instance = SimpleNamespace(launched=launched, zone="us-east-1a", type=kind, volumes=[], id="i-0abc")
    cloud = SimpleNamespace(region="us-east-1", endpoint="http://127.0.0.1")
    call_hook(request.node, "instance", instance=instance, cloud=cloud)
"""
    )
    run("--benchmark-save=base", test=test).assert_outcomes(passed=1)
    info = json.loads(next(pytester.path.glob(".benchmarks/*/0001_base.json")).read_text())["machine_info"]
    assert info["cloudbench"] == {
        "cloud": "embedded region",
        "region": "us-east-1",
        "zone": "us-east-1a",
        "instance": "c5.18xlarge",
        "image": "al2023",
    }
    same = run("--benchmark-compare=0001", test=test, apart=True)
    assert "made elsewhere" not in str(same.stdout) + str(same.stderr)
    monkeypatch.setenv("TYPE", "m5.2xlarge")
    other = run("--benchmark-compare=0001", test=test, apart=True)
    assert "instance c5.18xlarge then, m5.2xlarge now" in str(other.stdout) + str(other.stderr)
