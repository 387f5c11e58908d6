"""CloudWatch's figures of volumes and of burst credits, over the region's endpoint."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from region_calls import Calls, RecordingPlane, until

from pytest_cloudbench.twin.api import storage_metrics
from pytest_cloudbench.twin.api.moto_loading import load_moto
from pytest_cloudbench.twin.api.storage_metrics import StorageMetrics
from pytest_cloudbench.twin.volumes.plane_volumes import InstanceActivity, VolumeActivity
from pytest_cloudbench.twin.volumes.shared_pages import Figures


@pytest.fixture
def plane() -> RecordingPlane:
    """A plane whose minutes last a second."""
    plane = RecordingPlane()
    plane.time_compression = 60.0
    return plane


def figures(calls: Calls, namespace: str, name: str, statistic: str, **dimension: str) -> list[Any]:
    now = datetime.now(timezone.utc)
    answer = calls.client("cloudwatch").get_metric_statistics(
        Namespace=namespace,
        MetricName=name,
        Dimensions=[{"Name": key, "Value": value} for key, value in dimension.items()],
        StartTime=now - timedelta(minutes=5),
        EndTime=now + timedelta(minutes=5),
        Period=1,
        Statistics=[statistic],
    )
    points = sorted(answer["Datapoints"], key=lambda point: point["Timestamp"])
    return [point[statistic] for point in points]


def test_the_io_of_a_volume_adds_up_minute_by_minute(calls: Calls, plane: RecordingPlane) -> None:
    done = Figures(read_ops=100, write_ops=50, read_bytes=4096 * 100, write_bytes=4096 * 50, queue_length=7)
    plane.activity = [VolumeActivity("vol-m1", "i-m1", done, 80.0)], [InstanceActivity("i-m1", 90.0, None)]

    def reads() -> list[Any]:
        return figures(calls, "AWS/EBS", "VolumeReadOps", "Sum", VolumeId="vol-m1")

    until(lambda: sum(reads()) == 100, "the first minute")
    more = done._replace(read_ops=160, read_bytes=4096 * 160, volume_iops_exceeded_s=0.3, queue_length=0)
    plane.activity = [VolumeActivity("vol-m1", "i-m1", more, 75.5)], [InstanceActivity("i-m1", 85.0, None)]
    until(lambda: sum(reads()) == 160, "the next minute")
    before = reads()
    until(lambda: len(reads()) > len(before), "a minute without I/O")
    assert sum(reads()) == 160
    assert reads()[-1] == 0

    def of_volume(name: str, statistic: str) -> list[Any]:
        return figures(calls, "AWS/EBS", name, statistic, VolumeId="vol-m1")

    assert sum(of_volume("VolumeWriteOps", "Sum")) == 50
    assert sum(of_volume("VolumeReadBytes", "Sum")) == 4096 * 160
    assert sum(of_volume("VolumeWriteBytes", "Sum")) == 4096 * 50
    assert set(of_volume("BurstBalance", "Average")) == {80.0, 75.5}
    assert max(of_volume("VolumeQueueLength", "Maximum")) == 7
    assert sum(of_volume("VolumeIOPSExceededCheck", "Sum")) == 1
    assert sum(of_volume("VolumeThroughputExceededCheck", "Sum")) == 0
    assert sum(figures(calls, "AWS/EC2", "EBSReadOps", "Sum", InstanceId="i-m1")) == 160
    assert set(figures(calls, "AWS/EC2", "EBSIOBalance%", "Average", InstanceId="i-m1")) == {90.0, 85.0}
    assert figures(calls, "AWS/EC2", "EBSByteBalance%", "Average", InstanceId="i-m1") == []


def test_a_detached_volume_shows_its_last_ios_and_then_nothing(calls: Calls, plane: RecordingPlane) -> None:
    plane.activity = [VolumeActivity("vol-m2", None, Figures(write_ops=9), None)], []

    def writes() -> list[Any]:
        return figures(calls, "AWS/EBS", "VolumeWriteOps", "Sum", VolumeId="vol-m2")

    until(lambda: writes() == [9], "its last I/Os")
    plane.activity = plane.activity[0], [InstanceActivity("i-m2", None, None)]
    until(lambda: figures(calls, "AWS/EC2", "EBSReadOps", "Sum", InstanceId="i-m2"), "another minute")
    assert writes() == [9]


def test_the_oldest_figures_go_first(
    plane: RecordingPlane, moto_left_alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_moto()
    from moto.cloudwatch.models import cloudwatch_backends

    monkeypatch.setattr(storage_metrics, "_KEPT", 20)
    backend = cloudwatch_backends[storage_metrics.ACCOUNT][storage_metrics.REGION]
    monkeypatch.setattr(backend, "metric_data", [])
    backend.put_metric_data("mine", [{"MetricName": "m", "Value": 1.0}])
    metrics = StorageMetrics(plane)  # type: ignore[arg-type]
    for number in range(5):
        plane.activity = [VolumeActivity("vol-m3", "i-m3", Figures(read_ops=number), None)], []
        metrics._waiting.extend(metrics._take(time.time() + number))
        metrics.publish()
    kept = [metric for metric in backend.metric_data if metric.namespace == "AWS/EBS"]
    assert len(kept) == 20
    assert len(backend.metric_data) == 21
    assert [metric.value for metric in kept if metric.name == "VolumeReadOps"] == [1.0, 1.0]


def test_a_minute_is_a_minute_without_compressed_time(plane: RecordingPlane) -> None:
    plane.time_compression = 1.0
    assert StorageMetrics(plane)._step_s == 60  # type: ignore[arg-type]
    plane.time_compression = 3_600.0
    assert StorageMetrics(plane)._step_s == 1  # type: ignore[arg-type]
