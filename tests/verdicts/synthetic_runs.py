"""Runs made up for the judges: exact rates, series, counters and envelopes, without any I/O."""

from dataclasses import dataclass
from typing import Any

from pytest_cloudbench import gp3, io1, io2
from pytest_cloudbench.limits.envelope import Envelope, MachineLimits, storage_envelope
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.quantities import Iops, Size, Throughput
from pytest_cloudbench.verdicts.observation import MachineDelay


def instance(name, iops=80_000, mb=2_375.0, base_iops=None, base_mb=None):
    return InstanceLimits.from_describe(
        {
            "InstanceType": name,
            "EbsInfo": {
                "EbsOptimizedInfo": {
                    "MaximumIops": iops,
                    "MaximumThroughputInMBps": mb,
                    "BaselineIops": base_iops or iops,
                    "BaselineThroughputInMBps": base_mb or mb,
                }
            },
        },
        date="2026-11",
    )


C5 = instance("c5.18xlarge")
M5 = instance("m5.2xlarge", 18_750, 593.75, 12_000, 287.5)
M2 = instance("m2.4xlarge", 8_000, 125.0)
IO2 = (("vol-0abc", io2(size_gib=80, iops=80_000)),)
GP3 = (("vol-0def", gp3(size_gib=10)),)
FIVE_IO1 = tuple((f"vol-{number}", io1(size_gib=200, iops=1_000)) for number in range(5))
WEAK_MACHINE = MachineLimits(Iops(52_000), Throughput.from_mib(9_000), "probe")
STRONG_MACHINE = MachineLimits(Iops(300_000), Throughput.from_mib(18_000), "probe")

# An io2 volume on a region: 0.3 ms by the model, and a machine that adds a little or more than that.
CALM, LATE = MachineDelay(1_000_000, 0.0003, 0.00001), MachineDelay(1_000_000, 0.0003, 0.0008)


@dataclass(frozen=True)
class SyntheticSeries:
    seconds: tuple[float, ...]
    iops: tuple[Iops, ...]
    throughput: tuple[Throughput, ...]


@dataclass(frozen=True)
class SyntheticRun:
    iops: float
    throughput_mib: float
    block_size: Size
    sequential: bool
    series: SyntheticSeries | None
    envelope: Envelope | None
    counters: Any
    outstanding_asked: int
    latency_mean_s: float
    runtime_s: float
    generator: Any
    rate_asked: Any
    machine_delay: MachineDelay | None = None
    share_of_others: float | None = None


def delay_of(modelled_ms, late_ms=0.0, volumes=1):
    """What a region counted: means per I/O."""
    return MachineDelay(1_000_000, modelled_ms / 1000, late_ms / 1000, volumes)


def series_of(values, block, seconds=None):
    seconds = seconds or [float(number + 1) for number in range(len(values))]
    rates = tuple(Iops(float(value)) for value in values)
    return SyntheticSeries(tuple(seconds), rates, tuple(rate.at(block) for rate in rates))


def run_of(
    iops,
    block="4k",
    *,
    on=C5,
    volumes=IO2,
    sequential=False,
    machine=None,
    values=None,
    samples=60,
    seconds=None,
    envelope=True,
    series=True,
    counters=None,
    outstanding=1_024,
    generator=None,
    rate_asked=None,
    delay=None,
):
    """A run of ``iops`` I/Os a second; its series is flat unless ``values`` gives one.

    It lasts as long as its series, and ``samples`` seconds at least. Its latency is what Little's law makes of
    ``outstanding``; ``delay`` is what a region counted.
    """
    size = Size.parse(block)
    found = storage_envelope(on, volumes, size, sequential=sequential, machine=machine) if envelope else None
    values = values if values is not None else [iops] * samples
    return SyntheticRun(
        iops=iops,
        throughput_mib=iops * size.mib,
        block_size=size,
        sequential=sequential,
        series=series_of(values, size, seconds) if series else None,
        envelope=found,
        counters=counters,
        outstanding_asked=outstanding,
        latency_mean_s=outstanding / iops if iops else float("nan"),
        runtime_s=float(max(samples, seconds[-1] if seconds else len(values))),
        generator=generator,
        rate_asked=rate_asked,
        machine_delay=delay,
    )


def ceiling(label, run):
    """The ceiling of a run's envelope with this label."""
    (found,) = [one for one in run.envelope.ceilings if one.label == label]
    return found
