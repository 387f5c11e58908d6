"""The search for a job that breaks a promise: what it finds, what bounds it, and what it keeps."""

import itertools
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import hypothesis
import pytest
from hypothesis.database import InMemoryExampleDatabase

from pytest_cloudbench import Outcome, Verdict, gp3
from pytest_cloudbench.fixtures import search_jobs
from pytest_cloudbench.fixtures.search_jobs import SearchCall, _Search
from pytest_cloudbench.reports.costs import Costs
from pytest_cloudbench.reports.prices import Prices
from pytest_cloudbench.strategies import fio_jobs


@pytest.fixture
def database():
    """Let hypothesis keep examples in memory, for this test alone."""
    kept = InMemoryExampleDatabase()
    before = hypothesis.settings.get_current_profile_name()
    hypothesis.settings.register_profile("search", database=kept)
    hypothesis.settings.load_profile("search")
    yield kept
    hypothesis.settings.load_profile(before)


@pytest.fixture
def clock(monkeypatch):
    """A clock that only `sleep` moves."""
    now = SimpleNamespace(at=1_000.0)
    now.sleep = lambda seconds: setattr(now, "at", now.at + seconds)
    monkeypatch.setattr(search_jobs, "time", SimpleNamespace(monotonic=lambda: now.at))
    return now


def is_weak(job):
    return "write" in job["rw"] and int(job["bs"][:-1]) > 64


def searched(keeps, limit_s=1e9, jobs=None):
    search = _Search(keeps, limit_s)
    found = search.run(fio_jobs() if jobs is None else jobs, "test_it.py::test_it")
    return search.verdict(found["smallest"]), found


def weak(job):
    assert not is_weak(job), f"31 of 125 MiB/s with {job['bs']}"


def test_the_smallest_job_that_falls_short_is_found(database):
    verdict, found = searched(weak)
    assert verdict.outcome is Outcome.VIOLATED
    assert found["smallest"] == {"rw": "randwrite", "bs": "128k", "iodepth": 1, "numjobs": 1}
    for part in ("rw='randwrite', bs='128k', iodepth=1, numjobs=1", "31 of 125 MiB/s with 128k"):
        assert part in verdict.sentence


def test_it_is_kept_and_tried_first_the_next_time(database):
    searched(weak)
    _, found = searched(weak)
    assert is_weak(found["tried"][0])
    assert len(found["tried"]) < 30


IN_CI = """
import json
from pytest_cloudbench.fixtures.search_jobs import _Search
from pytest_cloudbench.strategies import fio_jobs

def keeps(job):
    assert "write" not in job["rw"] or int(job["bs"][:-1]) <= 64

print(json.dumps(_Search(keeps, 1e9).run(fio_jobs(), "test_it.py::test_it")))
"""


@pytest.mark.parametrize("variable", ["CI", "NO_CI"])
def test_it_is_kept_in_files_and_jobs_differ_each_time_in_ci_too(tmp_path, variable):
    """With CI set, hypothesis itself keeps nothing and draws the same examples each time."""

    def search(folder):
        folder.mkdir(exist_ok=True)
        known = {name: value for name, value in os.environ.items() if name not in ("CI", "GITHUB_ACTIONS")}
        command = [sys.executable, "-c", IN_CI]
        done = subprocess.run(
            command, cwd=folder, env={**known, variable: "true"}, capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)

    first = search(tmp_path / "one")
    again = search(tmp_path / "one")
    assert (tmp_path / "one/.hypothesis/examples").is_dir()
    assert is_weak(again["tried"][0])
    assert len(again["tried"]) < 30
    assert search(tmp_path / "two")["tried"] != first["tried"]


def test_each_job_is_measured_once(database):
    measured = []

    def keeps(job):
        measured.append(repr(job))
        weak(job)

    _, found = searched(keeps)
    assert len(measured) == len(set(measured)) == len(found["tried"])


def test_no_job_is_begun_that_would_end_after_the_time(database, clock):
    def keeps(job):
        clock.sleep(2.5)

    began = clock.at
    verdict, found = searched(keeps, limit_s=60)
    assert verdict.outcome is Outcome.HELD
    assert len(found["tried"]) == 24
    assert clock.at - began <= 60


@pytest.mark.parametrize("limit_s", [10, 20, 40, 80])
def test_a_search_that_ends_while_it_shrinks_has_the_smallest_so_far(database, clock, limit_s):
    def keeps(job):
        clock.sleep(2)
        assert not is_weak(job)

    first = fio_jobs().filter(is_weak)
    verdict, found = searched(keeps, limit_s=limit_s, jobs=first)
    assert verdict.outcome is Outcome.VIOLATED
    assert is_weak(found["smallest"])
    assert len(found["tried"]) <= limit_s / 2


def test_jobs_that_cannot_be_judged_decide_nothing(database):
    def keeps(job):
        assert Verdict.inconclusive("too few I/Os outstanding")

    verdict, _ = searched(keeps, jobs=fio_jobs(blocks=("4k",), depths=(1,), numjobs=(1,)))
    assert verdict.outcome is Outcome.INCONCLUSIVE

    def some(job):
        assert job["rw"] == "read" or Verdict.inconclusive("too few I/Os outstanding")

    verdict, found = searched(some, jobs=fio_jobs(blocks=("4k",), depths=(1,), numjobs=(1,)))
    assert verdict.outcome is Outcome.HELD
    assert f"{len(found['tried']) - 1} of them without a decision" in verdict.sentence


def test_an_error_ends_the_search_at_once(database):
    calls = itertools.count(1)

    def keeps(job):
        if next(calls) == 3:
            raise ConnectionError("the host is gone")

    with pytest.raises(ConnectionError, match="the host is gone"):
        searched(keeps)
    assert next(calls) == 4


@pytest.fixture
def on_aws(pytestconfig, request, monkeypatch):
    """Return the limit in seconds for a cost on AWS, with prices or without."""
    prices = Prices("USD", {"m5.xlarge": 0.2}, {"gp3": {"gib": 0.073}})
    volume = SimpleNamespace(spec=gp3(size_gib=1_000))
    instance = SimpleNamespace(type="m5.xlarge", volumes=[volume], launched=None)

    def limit(time_s, cost, cloud="aws", given=True, replay=""):
        options = {"cloud": cloud, "replay": replay}
        monkeypatch.setattr(search_jobs, "setting", lambda config, name: options[name])
        costs = Costs(prices, hypothetical=False) if given else None
        plugins = SimpleNamespace(get_plugin=lambda name: costs)
        call = SearchCall(SimpleNamespace(pluginmanager=plugins), request.node)
        return call._limit_s(SimpleNamespace(instance=instance), time_s, cost)

    return limit


def test_a_cost_bounds_the_time_by_the_prices_of_the_hardware(on_aws):
    # 0.2 USD an hour for the instance, 73 USD a month of 730 hours for the volume: 0.3 USD an hour.
    assert on_aws(3_600, 0.03) == pytest.approx(360)
    assert on_aws(100, 0.03) == 100
    assert on_aws(3_600, None) == 3_600
    assert on_aws(3_600, 0.03, cloud="embedded") == 3_600
    assert on_aws(3_600, 0.03, given=False, replay="evidence") == 3_600


def test_a_cost_without_a_price_or_not_above_zero_is_refused(on_aws):
    with pytest.raises(ValueError, match=r"price of m5\.xlarge.*unknown.*--cloudbench-prices"):
        on_aws(3_600, 0.03, given=False)
    for cost in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="above zero"):
            on_aws(3_600, cost)
