"""Whole runs of the control plane under the weather of EC2's API, and what they leave behind.

The region's own state is what counts, not what its API shows. benchmarks/weather_seeds.py runs this with more seeds.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path

import pytest
from region_calls import Calls, until

from pytest_cloudbench.aws.access import CloudAccess
from pytest_cloudbench.aws.cloud import Cloud
from pytest_cloudbench.aws.journal import Journal, new_run_id
from pytest_cloudbench.aws.reap import reap
from pytest_cloudbench.aws.waits import Bounds, all_of
from pytest_cloudbench.limits.volumes import gp3
from pytest_cloudbench.resources.facts import Launch

SKY = os.environ.get("CLOUDBENCH_WEATHER", "aws,speed=50")
SEEDS = os.environ.get("CLOUDBENCH_WEATHER_SEEDS", "1 2").split()
PATIENT = Bounds(**dict.fromkeys((each.name for each in fields(Bounds)), 60.0))

pytestmark = pytest.mark.parametrize("weather", [f"{SKY},seed={seed}" for seed in SEEDS])


@pytest.fixture
def make_cloud(calls: Calls, tmp_path: Path) -> Callable[[], Cloud]:
    access = _access(calls)

    def make() -> Cloud:
        run_id = new_run_id()
        return Cloud(access, run_id, Journal.open(run_id, access, tmp_path), bounds=PATIENT)

    return make


def _access(calls: Calls) -> CloudAccess:
    key = calls.front.access_key
    return CloudAccess(
        endpoint_url=calls.front.url,
        region="us-east-1",
        access_key=key.key_id,
        secret_key=key.secret,
        ssh_from_cidr="198.18.0.1/32",
    )


def left(calls: Calls) -> list[str]:
    """Return what the region has, by its own state, that a run may have made."""
    region = calls.front.region()
    backend = region.backend
    with region.lock:
        instances = [each.id for each in region.instances() if each.state != "terminated"]
        groups = [each.name for each in backend.describe_security_groups() if each.name != "default"]
        own_snapshots = [each.id for each in backend.snapshots.values() if not each.from_ami]
        return [
            *instances,
            *backend.volumes,
            *own_snapshots,
            *groups,
            *backend.key_pairs,
            *backend.placement_groups,
        ]


def use(cloud: Cloud) -> None:
    """Do what tests do: a pair, volumes, a modification, a snapshot, a stop and a start."""
    group = cloud.create_placement_group()
    first, second = cloud.launch_many([Launch("c5.large"), Launch("c5.large")], placement_group=group)
    volumes = cloud.attach_all(cloud.create_volumes([gp3(size_gib=8)] * 3, instance=first), first)
    assert {volume.attachment.state for volume in volumes if volume.attachment} == {"attached"}
    grown = cloud.modify_volume(volumes[0], gp3(size_gib=9))
    assert grown.size.gib == 9
    snapshot = cloud.create_snapshot(volumes[1])
    [copy] = cloud.create_volumes([gp3(size_gib=8)], instance=second, snapshot=snapshot)
    assert cloud.detach(volumes[2]).state == "available"
    assert cloud.start(cloud.stop(second)).state == "running"
    cloud.release([copy])


@pytest.mark.fault("API", "weather: throttling, lags, lost answers, errors", leak=True)
def test_a_run_leaves_nothing(make_cloud: Callable[[], Cloud], calls: Calls, tmp_path: Path) -> None:
    cloud = make_cloud()
    try:
        use(cloud)
    finally:
        report = cloud.close()
    assert report.clean, report.sentences()
    until(lambda: left(calls) == [], "the region is empty")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(
    "CLOUDBENCH_WEATHER" not in os.environ, reason="takes half a minute: benchmarks/weather_seeds.py runs it"
)
def test_runs_side_by_side_do_not_throttle_one_another_into_failure(
    make_cloud: Callable[[], Cloud], calls: Calls
) -> None:
    def live(cloud: Cloud) -> None:
        with cloud:
            instance = cloud.launch("c5.large")
            cloud.attach_all(cloud.create_volumes([gp3(size_gib=8)] * 5, instance=instance), instance)

    all_of([partial(live, make_cloud()) for _ in range(4)])
    until(lambda: left(calls) == [], "the region is empty")


@pytest.mark.fault("kill", "a run under weather is killed, and the next start reaps", leak=True)
def test_what_a_killed_run_left_is_reaped(
    make_cloud: Callable[[], Cloud], calls: Calls, tmp_path: Path
) -> None:
    cloud = make_cloud()
    instance = cloud.launch("c5.large")
    cloud.attach_all(cloud.create_volumes([gp3(size_gib=8)] * 2, instance=instance), instance)
    cloud.journal.finish(clean=False)  # as the end of its process does
    assert len(left(calls)) >= 5
    reaped = reap(_access(calls), directory=tmp_path, bounds=PATIENT)
    assert len(reaped) == 1
    until(lambda: left(calls) == [], "the region is empty")
    assert list(tmp_path.iterdir()) == []
