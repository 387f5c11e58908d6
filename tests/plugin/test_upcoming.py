"""What a session launches ahead of its tests, by their order, markers and scopes; the provider is in memory."""

import json

import pytest

CONFTEST = """
import json, threading
from pytest_cloudbench import ImageFacts, InstanceLimits, LaunchedInstance, Provider, TeardownReport

class Cloud(Provider):
    def __init__(self):
        self.launched, self.released, self.lock = [], [], threading.Lock()

    def limits(self, instance_type):
        return InstanceLimits.from_describe({"InstanceType": instance_type})

    def launch_many(self, launches, *, placement_group=None):
        with self.lock:
            made = []
            for each in launches:
                self.launched.append([each.type, bool(each.ahead), each.name])
                limits = self.limits(each.type)
                made.append(LaunchedInstance(f"i-{len(self.launched)}", each.type, limits, ImageFacts()))
            return tuple(made)

    def refresh(self, instance):
        return instance

    def host(self, instance, *, connect_timeout_s):
        raise NotImplementedError

    def release(self, resources):
        with self.lock:
            self.released += [each.id for each in resources]

    def close(self):
        with open("calls.json", "w") as file:
            json.dump({"launched": self.launched, "released": sorted(self.released)}, file)
        return TeardownReport()

def pytest_cloudbench_provider(config, name):
    return Cloud if name == "memory" else None
"""
SUITE = """
import pytest

on = pytest.mark.ec2_instance

@on("a.large")
def test_1(ec2_instance): pass

@on("b.large", scope="module")
def test_2(ec2_instance): pass

@on("b.large", scope="module")
def test_3(ec2_instance): pass

@pytest.mark.skip
@on("c.large")
def test_4(ec2_instance): pass

@on("d.large")
def test_5(ec2): ec2.launch("d.large")

@pytest.mark.ec2_pair("e.large", "f.large")
def test_6(ec2_pair): pass

@on("a.large")
def test_7(ec2_instance): assert not getattr(ec2_instance, "fails", FAILS)

@on("g.large")
def test_8(ec2_instance): pass
"""


@pytest.fixture
def session(pytester):
    def run(*options, fails=False, inprocess=True):
        pytester.makeconftest(CONFTEST)
        pytester.makepyfile(test_it=SUITE.replace("FAILS", str(fails)))
        quiet = ("-p", "no:cacheprovider", "-p", "no:randomly", "--cloudbench-evidence=off")
        start = pytester.runpytest_inprocess if inprocess else pytester.runpytest_subprocess
        result = start(*quiet, "--cloudbench-cloud=memory", *options)
        calls = json.loads((pytester.path / "calls.json").read_text())
        assert calls["released"] == sorted(f"i-{number + 1}" for number in range(len(calls["launched"])))
        return result, calls["launched"]

    return run


def test_each_launch_is_for_the_next_tests_that_need_one(session):
    result, launched = session("--cloudbench-ahead=2")
    result.assert_outcomes(passed=7, skipped=1)
    assert sorted(launched) == [
        ["a.large", False, "test_1"],
        ["a.large", True, "test_7"],
        ["b.large", True, "test_2"],
        ["d.large", False, "test_5"],
        ["e.large", True, "test_6"],
        ["f.large", True, "test_6"],
        ["g.large", True, "test_8"],
    ]


def test_tests_that_reuse_an_instance_need_no_other(session):
    result, launched = session("--cloudbench-ahead=2", "--cloudbench-reuse")
    result.assert_outcomes(passed=7, skipped=1)
    assert [each for each in launched if each[0] == "a.large"] == [["a.large", False, "test_1"]]
    assert len(launched) == 6


def test_what_was_launched_for_tests_that_do_not_run_is_released(session):
    result, launched = session("--cloudbench-ahead=2", "-x", fails=True)
    result.assert_outcomes(passed=5, skipped=1, failed=1)
    assert ["g.large", True, "test_8"] in launched


def test_an_interrupt_releases_what_was_launched_ahead(session):
    result, launched = session(
        "--cloudbench-ahead=2", fails="exec('raise KeyboardInterrupt')", inprocess=False
    )
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert ["g.large", True, "test_8"] in launched


def test_deselected_tests_get_nothing(session):
    _, launched = session("--cloudbench-ahead=2", "-k", "test_1 or test_8")
    assert sorted(launched) == [["a.large", False, "test_1"], ["g.large", True, "test_8"]]


def test_a_worker_launches_for_the_test_that_it_runs_next(session):
    result, launched = session("--cloudbench-ahead=2", "-n1", inprocess=False)
    result.assert_outcomes(passed=7, skipped=1)
    assert ["a.large", True, "test_7"] in launched
    assert ["b.large", True, "test_2"] in launched


def test_without_the_option_nothing_is_launched_ahead(session):
    _, launched = session()
    assert not any(ahead for _, ahead, _ in launched)
