"""Loads on several hosts at once, on the embedded region: what docs/fleets.md shows, and what must not remain."""

from __future__ import annotations

import time

import pytest
from shown_tests import shown_test

from pytest_cloudbench import FleetStorage, Outcome, TargetError, WorkloadRefused, gp3, io1
from pytest_cloudbench.hosts.jobs import DetachedJob
from pytest_cloudbench.workloads.fio.job import FioJob
from pytest_cloudbench.workloads.fio.run import run_fio

pytestmark = pytest.mark.embedded

test_each_host_reaches_each_other_one = shown_test("fleets", "test_each_host_reaches_each_other_one")
test_four_hosts_read_at_once = shown_test("fleets", "test_four_hosts_read_at_once")
test_sixteen_pairs_at_once = pytest.mark.alone(shown_test("fleets", "test_sixteen_pairs_at_once"))


def test_the_sum_is_at_its_limit_and_the_slowest_host_is_named(ec2, fio):
    fleet = ec2.fleet("m5.large", count=2)
    equal = FleetStorage([ec2.create_volume(io1(size_gib=4, iops=200), host) for host in fleet])
    job = {"rw": "randread", "bs": "4k", "iodepth": 8, "runtime": 6}
    run = fio(equal, **job)
    assert run.capped_by(equal.iops)
    assert equal.iops.limit == run.envelope.limit_iops == 400

    slower = FleetStorage([equal[0], ec2.create_volume(io1(size_gib=4, iops=100), fleet[1])])
    verdict = fio(slower, **job).reaches("400 IOPS")
    assert verdict.outcome is Outcome.VIOLATED
    assert verdict.details["slowest_part"] == fleet[1].host.label
    assert verdict.details["slowest_share_of_mean"] == pytest.approx(2 / 3, rel=0.1)
    assert f"{fleet[1].id} with 6" in verdict.sentence
    assert "io1" in verdict.details["slowest_because"]


def test_files_on_two_hosts(ec2, fio, create_files, monkeypatch):
    taken_s, kill = [], DetachedJob.kill

    def timed(job):
        began = time.monotonic()
        kill(job)
        taken_s.append(time.monotonic() - began)

    monkeypatch.setattr(DetachedJob, "kill", timed)
    fleet = ec2.fleet("m5.large", count=2)
    volumes = fleet.create_volumes(gp3(size_gib=1))
    data = volumes.mounted("xfs")
    job = {"rw": "randwrite", "bs": "4k", "iodepth": 4, "size": "16m", "rate_iops": 401}
    run = fio(data, **job, runtime=3)
    assert run.iops == pytest.approx(401, rel=0.1)
    assert [round(part.rate_asked.per_second) for part in run.parts] == [200, 201]
    assert sum(part.iops for part in run.parts) == pytest.approx(run.iops, rel=0.05)
    assert run.start_skew_s is not None
    assert list(run.hosts) == [instance.host.label for instance in fleet]
    assert run.latency.max_s == pytest.approx(max(part.latency.max_s for part in run.parts), rel=0.02)
    assert fio(data, **job, runtime=2).iops > 0  # the files of the first run are there
    assert len(taken_s) == 4
    assert max(taken_s) < 5, "a server is killed at once: it would not end within the 5 s after an interrupt"

    with pytest.raises(TargetError, match="only fio"):
        create_files(data, count=10)
    # One host refuses its job, which fio's client does not report by its exit code.
    fleet[1].run(["sh", "-c", f"rm -rf {data[1].path}/*; touch {data[1].path}/cloudbench.0.0"], sudo=True)
    fleet[1].run(["chattr", "+i", f"{data[1].path}/cloudbench.0.0"], sudo=True)
    with pytest.raises(WorkloadRefused, match=fleet[1].id):
        fio(data, **job, runtime=2)
    fleet[1].run(["chattr", "-i", f"{data[1].path}/cloudbench.0.0"], sudo=True)

    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_fio(data, FioJob.of(**job, runtime=60), on_progress=interrupt)
    for instance in fleet:
        assert instance.run(["pgrep", "-x", "fio"], check=False).stdout == ""
