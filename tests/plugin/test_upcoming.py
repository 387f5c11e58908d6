"""What a session launches ahead of its tests, by their order, markers and scopes; the provider is in memory."""

import json

import pytest

CONFTEST = """
import json, threading
from pytest_cloudbench import ImageFacts, InstanceLimits, LaunchedInstance, Provider, TeardownReport

clouds = []

class Cloud(Provider):
    def __init__(self):
        self.launched, self.released, self.lock = [], [], threading.Lock()
        clouds.append(self)

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
    def run(*options, suite=SUITE, fails=False, inprocess=True):
        pytester.makeconftest(CONFTEST)
        pytester.makepyfile(test_it=suite.replace("FAILS", str(fails)))
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


def test_equal_needs_in_a_row_are_launched_one_test_before(session):
    suite = """
import pytest

pytestmark = pytest.mark.ec2_instance("a.large")
def test_1(ec2_instance): pass
def test_2(ec2_instance): pass
def test_3(ec2_instance): pass
"""
    _, launched = session("--cloudbench-ahead=1", suite=suite)
    assert sorted(launched) == [
        ["a.large", False, "test_1"],
        ["a.large", True, "test_2"],
        ["a.large", True, "test_3"],
    ]


def test_a_shared_instance_that_is_there_needs_no_launch_ahead(session):
    suite = """
import pytest

shared = pytest.mark.ec2_instance("a.large", scope="module")
@shared
def test_1(ec2_instance): pass
@shared
def test_2(ec2_instance): pass
@shared
def test_3(ec2_instance): pass
@pytest.mark.ec2_instance("a.large")
def test_4(ec2_instance): pass
"""
    _, launched = session("--cloudbench-ahead=1", suite=suite)
    assert sorted(launched) == [["a.large", False, "test_1"], ["a.large", True, "test_4"]]


def test_tests_whose_marks_may_skip_them_get_nothing(session):
    suite = """
import pytest

on = pytest.mark.ec2_instance

@on("a.large")
def test_1(ec2_instance): pass
@pytest.mark.skipif(True, reason="never")
@on("b.large")
def test_2(ec2_instance): pass
@pytest.mark.skipif(condition=True, reason="never")
@on("c.large")
def test_3(ec2_instance): pass
@pytest.mark.skipif("1 > 0")
@on("d.large")
def test_4(ec2_instance): pass
@pytest.mark.xfail(run=False)
@on("e.large")
def test_5(ec2_instance): pass
@pytest.mark.skipif(False, reason="always")
@on("f.large")
def test_6(ec2_instance): pass
"""
    _, launched = session("--cloudbench-ahead=4", suite=suite)
    assert sorted(launched) == [["a.large", False, "test_1"], ["f.large", True, "test_6"]]


def test_what_a_skipped_test_leaves_is_released_before_the_next_test(session):
    suite = """
import time

import pytest

@pytest.fixture
def skips():
    pytest.skip("now")

@pytest.mark.ec2_instance("a.large")
def test_1(ec2_instance): pass
@pytest.mark.usefixtures("skips")
@pytest.mark.ec2_instance("b.large")
def test_2(ec2_instance): pass
def test_3():
    from conftest import clouds

    latest = time.monotonic() + 20
    while len(clouds[-1].released) < 2 and time.monotonic() < latest:
        time.sleep(0.01)
    assert len(clouds[-1].released) == 2
"""
    result, launched = session("--cloudbench-ahead=1", suite=suite)
    result.assert_outcomes(passed=2, skipped=1)
    assert ["b.large", True, "test_2"] in launched


def test_a_launch_begins_at_most_some_tests_before_its_own(session):
    suite = """
import pytest

@pytest.mark.ec2_instance("a.large")
def test_1(ec2_instance): pass
def test_2():
    from conftest import clouds

    assert [name for _, _, name in clouds[-1].launched] == ["test_1"]
@pytest.mark.parametrize("number", range(60))
def test_without_hardware(number): pass
@pytest.mark.ec2_instance("b.large")
def test_4(ec2_instance): pass
"""
    result, launched = session("--cloudbench-ahead=1", suite=suite)
    result.assert_outcomes(passed=63)
    assert launched == [["a.large", False, "test_1"], ["b.large", True, "test_4"]]
