"""Synthetic measurements for pictures: one-second rates under real envelopes, and histograms in fio's format."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Sequence
from typing import Any

from pytest_cloudbench import io2
from pytest_cloudbench.limits.envelope import Envelope, storage_envelope
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.network import network_envelope
from pytest_cloudbench.limits.quantities import Bandwidth, Iops, Size, Throughput
from pytest_cloudbench.workloads.create_files.creation import FileCreation
from pytest_cloudbench.workloads.create_files.series import DeviceSeries, FileSeries
from pytest_cloudbench.workloads.measurement import DirectionSeries, Latency, Measurement, Series
from pytest_cloudbench.workloads.network_measurement import NetworkMeasurement, NetworkSeries

VOLUME = "vol-0123456789abcdef0"


def instance(name: str, **figures: float) -> InstanceLimits:
    """Return an instance type with these EBS and network figures."""
    return InstanceLimits.from_describe(
        {
            "InstanceType": name,
            "EbsInfo": {
                "EbsOptimizedInfo": {
                    "MaximumIops": figures.get("iops", 80_000),
                    "MaximumThroughputInMBps": figures.get("mb", 2_375.0),
                    "BaselineIops": figures.get("iops", 80_000),
                    "BaselineThroughputInMBps": figures.get("mb", 2_375.0),
                }
            },
            "NetworkInfo": {
                "NetworkCards": [
                    {
                        "NetworkPerformance": "Up to 10 Gigabit",
                        "BaselineBandwidthInGbps": figures.get("base_gbit", 2.5),
                        "PeakBandwidthInGbps": 10.0,
                    }
                ]
            },
        },
        date="2026-11",
    )


IO2 = ((VOLUME, io2(size_gib=80, iops=80_000)),)
C5 = instance("c5.18xlarge")
M5 = instance("m5.2xlarge")


def noisy(level: float, seconds: int, share: float = 0.004, seed: int = 1) -> list[float]:
    """Return a level with a little noise, the same in every run."""
    dice = random.Random(seed)
    return [level * dice.gauss(1, share) for _ in range(seconds)]


def histogram(median_s: float, ios: int = 5_000) -> dict[str, Any]:
    """Return one direction of fio's json+ with this number of I/Os around this latency."""
    dice = random.Random(2)
    bins: dict[int, int] = {}
    for _ in range(ios):
        value = round(median_s * 1e9 * dice.lognormvariate(0, 0.4), -4)
        bins[int(value)] = bins.get(int(value), 0) + 1
    return {"lat_ns": {"N": ios, "bins": {str(value): count for value, count in sorted(bins.items())}}}


def storage(
    rates: Sequence[float],
    *,
    block: str = "4k",
    volumes: Any = IO2,
    on: InstanceLimits = C5,
    sequential: bool = False,
    envelope: Envelope | None = None,
    **changes: Any,
) -> Measurement:
    """Return what fio would measure at these rates, one for each second."""
    size = Size.parse(block)
    iops = tuple(Iops(rate) for rate in rates)
    mean = sum(rates) / len(rates)
    latency = Latency(0.0128, 0.001, 0.2, p50_s=0.012, p99_s=0.04)
    whole = Measurement(
        workload=f"fio {'read' if sequential else 'randread'} {block}",
        iops=mean,
        throughput_mib=mean * size.mib,
        read=None,
        write=None,
        latency=latency,
        series=Series(
            tuple(float(number + 1) for number in range(len(rates))),
            iops,
            tuple(rate.at(size) for rate in iops),
            tuple(0.0128 for _ in rates),
        ),
        block_size=size,
        sequential=sequential,
        outstanding_asked=1_024,
        runtime_s=float(len(rates)),
        command="fio",
        tool_version="fio-3.33",
        host="c5.18xlarge i-0abc",
        target=f"xfs on io2 80 GiB/80,000 IOPS {VOLUME}",
        started_at="2026-11-20T12:00:00+00:00",
        envelope=envelope or storage_envelope(on, list(volumes), size, sequential=sequential),
        raw={"result.json": json.dumps({"jobs": [{"read": histogram(0.012), "write": {}}]}).encode()},
    )
    return dataclasses.replace(whole, **changes)


def mixed(rates: Sequence[float]) -> Measurement:
    """Return a run of 70 % reads and 30 % writes."""
    whole = storage(rates, workload="fio randrw 4k")
    parts = {
        name: DirectionSeries(
            tuple(each * share for each in whole.series.iops),
            tuple(each * share for each in whole.series.throughput),
        )
        for name, share in (("read", 0.7), ("write", 0.3))
    }
    jobs = [{"read": histogram(0.004), "write": histogram(0.009)}] * 2
    return dataclasses.replace(
        whole,
        series=dataclasses.replace(whole.series, **parts),
        raw={"result.json": b"a note\n" + json.dumps({"jobs": jobs}).encode()},
    )


def network(gbit: Sequence[float], **changes: Any) -> NetworkMeasurement:
    """Return what iperf3 would measure at these rates, one for each second, between two m5.2xlarge."""
    rates = tuple(Bandwidth.from_gbit(each) for each in gbit)
    mean = Bandwidth.from_gbit(sum(gbit) / len(gbit))
    whole = NetworkMeasurement(
        workload="iperf3 TCP 5 streams",
        protocol="TCP",
        throughput=mean,
        sent=mean,
        received=mean,
        streams=(),
        series=NetworkSeries(tuple(float(number + 1) for number in range(len(gbit))), rates, rates),
        runtime_s=float(len(gbit)),
        path="m5.2xlarge i-0a -> m5.2xlarge i-0b",
        client="i-0a",
        server="i-0b",
        client_commands=("iperf3",),
        server_commands=("iperf3",),
        tool_versions={},
        started_at="2026-11-20T12:00:00+00:00",
        envelope=network_envelope(M5, M5, streams=5, cluster=False),
    )
    return dataclasses.replace(whole, **changes)


def files(seconds: int, per_second: float, *, to_device_s: int, mib: float, target: str) -> FileCreation:
    """Return what create_files would measure: files of 1 MiB into the page cache, slower onto the device."""
    rates = tuple(noisy(per_second, seconds, 0.05))
    device = DeviceSeries(
        tuple(float(number + 1) for number in range(to_device_s)),
        tuple(Iops(mib * 4) for _ in range(to_device_s)),
        tuple(Throughput.from_mib(each) for each in noisy(mib, to_device_s)),
    )
    size = Size.parse("256k")
    gp3_like = storage_envelope(C5, [(VOLUME, io2(size_gib=80, iops=3_000))], size, sequential=True)
    return FileCreation(
        files=int(sum(rates)),
        size=Size.parse("1m"),
        written_s=float(seconds),
        on_device_s=float(to_device_s),
        series=FileSeries(
            tuple(float(number + 1) for number in range(seconds)),
            rates,
            tuple(Throughput.from_mib(each) for each in rates),
            device,
        ),
        start_marker=None,
        end_marker=None,
        device_when_written=None,
        device_writes=None,
        block_size=size,
        method="python",
        tool_version="Python 3.11",
        command="python3",
        host="i3.8xlarge i-0abc",
        target=target,
        started_at="2026-11-20T12:00:00+00:00",
        envelope=gp3_like,
        asked={"count": int(sum(rates)), "sync": "end", "workers": 4},
    )
