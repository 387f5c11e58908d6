"""CloudWatch metrics: the I/O of volumes, and the balances of burst credits of volumes and instances.

Figures are taken every simulated minute, at most once a second, aligned to the clock like those of the service. They
reach moto's CloudWatch at the next request to it: a region without such requests saves the time to load it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from pytest_cloudbench.twin.volumes.plane_volumes import InstanceActivity, VolumeActivity
from pytest_cloudbench.twin.volumes.shared_pages import Figures

from .moto_loading import ACCOUNT, REGION

if TYPE_CHECKING:
    from pytest_cloudbench.twin.plane import Plane

log = logging.getLogger(__name__)

EBS, EC2 = "AWS/EBS", "AWS/EC2"
_MINUTE_S = 60.0
_LEAST_STEP_S = 1.0
_KEPT = 50_000  # figures; the oldest go first


_Datum = tuple[str, dict[str, Any]]
"""A namespace, and one entry of PutMetricData."""


class StorageMetrics:
    """Takes the figures of a region's volumes and instances in a thread, from `start` to `close`."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._step_s = max(_MINUTE_S / plane.time_compression, _LEAST_STEP_S)
        self._before: dict[str, Figures] = {}
        self._waiting: deque[_Datum] = deque(maxlen=_KEPT)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="storage metrics", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def publish(self) -> None:
        """Move the figures since the last call into moto's CloudWatch. The caller holds the region's lock."""
        from moto.cloudwatch.models import cloudwatch_backends

        backend = cloudwatch_backends[ACCOUNT][REGION]
        while self._waiting:
            namespace, datum = self._waiting.popleft()
            backend.put_metric_data(namespace, [datum])
        ours = [metric for metric in backend.metric_data if metric.namespace in (EBS, EC2)]
        if len(ours) > _KEPT:
            oldest = {id(metric) for metric in ours[: len(ours) - _KEPT]}
            backend.metric_data = [metric for metric in backend.metric_data if id(metric) not in oldest]

    def _run(self) -> None:
        while True:
            due = (time.time() // self._step_s + 1) * self._step_s
            if self._closing.wait(due - time.time()):
                return
            try:
                self._waiting.extend(self._take(due - self._step_s))
            except Exception:
                log.exception("taking the figures of volumes")

    def _take(self, at: float) -> Iterator[_Datum]:
        volumes, instances = self._plane.volumes.storage_activity()
        done: dict[str, Figures] = {}
        of_instances: dict[str, Figures] = {}
        for volume in volumes:
            since = volume.done.since(self._before.get(volume.volume_id, Figures()))
            done[volume.volume_id] = volume.done
            if volume.instance_id is not None:
                others = of_instances.get(volume.instance_id, Figures())
                of_instances[volume.instance_id] = since.after(others)
            elif not (since.read_ops or since.write_ops):
                continue  # after its last I/O a detached volume has no metrics
            yield from _of_volume(at, volume, since)
        self._before = done
        for instance in instances:
            yield from _of_instance(at, instance, of_instances.get(instance.instance_id, Figures()))


def _of_volume(at: float, volume: VolumeActivity, since: Figures) -> Iterator[_Datum]:
    iops_exceeded, throughput_exceeded = since.volume_iops_exceeded_s, since.volume_throughput_exceeded_s
    yield from _data(at, EBS, ("VolumeId", volume.volume_id), (
        ("VolumeReadOps", since.read_ops, "Count"),
        ("VolumeWriteOps", since.write_ops, "Count"),
        ("VolumeReadBytes", since.read_bytes, "Bytes"),
        ("VolumeWriteBytes", since.write_bytes, "Bytes"),
        ("VolumeQueueLength", since.queue_length, "Count"),
        ("VolumeIOPSExceededCheck", float(iops_exceeded > 0), "None"),
        ("VolumeThroughputExceededCheck", float(throughput_exceeded > 0), "None"),
        ("BurstBalance", volume.burst_balance, "Percent"),
    ))  # fmt: skip


def _of_instance(at: float, instance: InstanceActivity, since: Figures) -> Iterator[_Datum]:
    iops_exceeded, throughput_exceeded = since.instance_iops_exceeded_s, since.instance_throughput_exceeded_s
    yield from _data(at, EC2, ("InstanceId", instance.instance_id), (
        ("EBSReadOps", since.read_ops, "Count"),
        ("EBSWriteOps", since.write_ops, "Count"),
        ("EBSReadBytes", since.read_bytes, "Bytes"),
        ("EBSWriteBytes", since.write_bytes, "Bytes"),
        ("InstanceEBSIOPSExceededCheck", float(iops_exceeded > 0), "None"),
        ("InstanceEBSThroughputExceededCheck", float(throughput_exceeded > 0), "None"),
        ("EBSIOBalance%", instance.io_balance, "Percent"),
        ("EBSByteBalance%", instance.byte_balance, "Percent"),
    ))  # fmt: skip


def _data(
    at: float, namespace: str, dimension: tuple[str, str], metrics: Iterable[tuple[str, float | None, str]]
) -> Iterator[_Datum]:
    """Yield the metrics that have a value."""
    shared = {
        "Dimensions": [{"Name": dimension[0], "Value": dimension[1]}],
        "Timestamp": datetime.fromtimestamp(at, timezone.utc).replace(tzinfo=None),
    }
    for name, value, unit in metrics:
        if value is not None:
            yield namespace, {"MetricName": name, "Value": value, "Unit": unit, **shared}
