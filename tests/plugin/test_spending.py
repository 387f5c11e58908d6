"""The limit of a run's cost: its option, its share for each worker, and what it refuses."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.fixtures import fixtures, planned_session, spending
from pytest_cloudbench.fixtures.planned_session import PlannedTest, SessionPlan
from pytest_cloudbench.fixtures.spending import Budget, PlanRefused
from pytest_cloudbench.options import parse_max_cost
from pytest_cloudbench.reports.costs import Costs
from pytest_cloudbench.reports.prices import Charge, Prices


@given(st.floats(min_value=1e-6, max_value=1e9))
def test_every_amount_above_zero_is_a_limit(amount):
    assert parse_max_cost(repr(amount)) == amount


@pytest.mark.parametrize("text", ["0", "-1", "5 USD", "nan", "inf", "4,50"])
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="US dollars"):
        parse_max_cost(text)


def test_a_plan_is_refused_with_workers(pytester):
    pytester.makepyfile("def test_it(): raise SystemExit")
    result = pytester.runpytest_inprocess("--cloudbench-plan", "-n", "2", "-p", "no:cacheprovider")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*-n 0*"])


def test_a_plan_of_tests_on_hosts_starts_no_region(pytester, monkeypatch):
    monkeypatch.delattr(fixtures, "open_access")
    pytester.makepyfile("def test_one(host): pass\ndef test_two(host_pair): pass\ndef test_three(): pass")
    options = (
        "-p",
        "no:cacheprovider",
        "--cloudbench-plan",
        "--cloudbench-hosts=ssh://a.invalid,ssh://b.invalid",
    )
    result = pytester.runpytest(*options)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*cloudbench plan*", "2 tests on hosts*nothing*"])


PLANNED = """
import pytest

@pytest.mark.parametrize("number", range(2))
@pytest.mark.ec2_instance("m5.large")
def test_it(ec2_instance, number):
    pass
"""


@pytest.mark.parametrize(
    ("options", "missing"), [((), "no region"), (("--cloudbench-region=eu-west-3",), "no AWS credentials")]
)
def test_a_plan_without_region_or_credentials_is_refused_with_one_sentence(
    pytester, monkeypatch, options, missing
):
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    pytester.makepyfile(PLANNED)
    result = pytester.runpytest_inprocess(
        "--cloudbench-plan", "--cloudbench-cloud=aws", *options, "-p", "no:cacheprovider"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    shown = result.stdout.str() + result.stderr.str()
    assert shown.count(missing) == 1
    assert "Traceback" not in shown
    assert "INTERNALERROR" not in shown


def planned(*charges, seconds=3_600.0):
    hardware = SimpleNamespace(charges=charges, instances=(), volume_count=0)
    return PlannedTest("test_it", hardware, seconds)


@pytest.fixture
def check(monkeypatch):
    """Check a test of a plan against a limit, when so much was spent."""

    def check(most, plan, spent=0.0, workers=1, trouble=""):
        costs = Costs(Prices("USD"), hypothetical=False)
        costs.prices_of([])
        costs.spent, costs.trouble = spent, trouble
        monkeypatch.setattr(spending, "_plan", lambda *_: plan)
        session = SimpleNamespace(items=[], shouldfail=False)
        item = SimpleNamespace(nodeid="test_it", config=None, session=session, user_properties=[])
        Budget(most, costs, workers).check(item, lambda: None)

    return check


HOURLY = SessionPlan((planned(Charge("m5.large", 1.0)),))


def test_a_test_runs_up_to_the_limit_and_not_beyond_it(check):
    check(5.0, HOURLY, spent=4.0)
    with pytest.raises(pytest.skip.Exception, match=r"4\.01 USD.*1\.00 USD"):
        check(5.0, HOURLY, spent=4.01)


def test_each_worker_may_spend_an_equal_part(check):
    check(6.0, HOURLY, spent=1.0, workers=3)
    with pytest.raises(pytest.skip.Exception, match=r"this worker may spend 2\.00 USD"):
        check(6.0, HOURLY, spent=1.01, workers=3)


@pytest.mark.parametrize(
    ("plan", "trouble", "said"),
    [
        (SessionPlan((planned(Charge("m5.large", 5.01)),)), "", "the plan costs 5.01 USD"),
        (SessionPlan((planned(Charge("x9.large", None)),)), "", "no price for x9.large"),
        (HOURLY, "AccessDenied", "prices are unknown: AccessDenied"),
    ],
)
def test_a_plan_that_is_too_dear_or_has_no_price_ends_the_session(check, plan, trouble, said):
    with pytest.raises(PlanRefused, match=said):
        check(5.0, plan, trouble=trouble)


def test_small_things_without_a_price_do_not_refuse_a_plan(check):
    check(5.0, SessionPlan((planned(Charge("m5.large", 1.0), Charge("address", None, minor=True)),)))


def test_a_skipped_test_is_known_to_the_controller_which_fails_the_run():
    budget = Budget(1.0, Costs(None, hypothetical=False), 1)
    session = SimpleNamespace(exitstatus=pytest.ExitCode.OK)
    budget.pytest_runtest_logreport(SimpleNamespace(user_properties=[]))
    budget.pytest_sessionfinish(session)
    assert session.exitstatus == pytest.ExitCode.OK
    budget.pytest_runtest_logreport(SimpleNamespace(user_properties=[("cloudbench.over_budget", "why")]))
    budget.pytest_sessionfinish(session)
    assert session.exitstatus == pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def after_one_test(monkeypatch):
    """Check the next test after one whose own code launched an instance."""

    def after(prices, instance_type):
        costs = Costs(None, hypothetical=False)
        costs.ask = lambda types: prices
        item = SimpleNamespace(nodeid="test_own", user_properties=[])
        costs.pytest_cloudbench_instance(item, SimpleNamespace(id="i-1", type=instance_type, volumes=()))
        costs.pytest_runtest_teardown(item)
        monkeypatch.setattr(spending, "_plan", lambda *_: SessionPlan(()))
        monkeypatch.setattr(spending, "refusal_of", lambda *_: "")
        session = SimpleNamespace(items=[], shouldfail=False)
        following = SimpleNamespace(nodeid="test_it", config=None, session=session, user_properties=[])
        Budget(5.0, costs, 1).check(following, lambda: None)

    return after


def test_a_limit_allows_no_test_after_one_whose_cost_is_unknown(after_one_test):
    prices = Prices("USD", {"m5.large": 0.096})
    after_one_test(prices, "m5.large")
    with pytest.raises(pytest.skip.Exception, match=r"x9\.large"):
        after_one_test(prices, "x9.large")
    with pytest.raises(pytest.skip.Exception, match=r"m5\.large"):
        after_one_test("AccessDenied", "m5.large")


def at(second, /, **entry):
    return {"at": f"2026-11-23T08:00:{second:06.3f}+00:00", **entry}


PHASES = [at(12, when="setup", seconds=11.0), at(40.5, when="call", seconds=28.0)]


@pytest.mark.parametrize(
    ("phases", "calls", "seconds"),
    [
        (PHASES, [at(2, name="limits"), at(10, name="launch"), at(20, name="launch_many")], 30.5),
        (PHASES, [at(2, name="limits")], 39.0),
        (PHASES[:1], [at(10, name="launch")], None),
    ],
)
def test_an_earlier_run_took_the_time_that_its_hardware_lived(phases, calls, seconds):
    """From the end of its launch on, as costs are counted: a region's start and a pending instance are not billed."""
    assert planned_session._lifetime(phases, calls) == seconds
