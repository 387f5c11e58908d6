"""Network runs made up for the judges: rates, series, streams, counters and envelopes, without any I/O."""

import math
import random
from dataclasses import dataclass, field
from typing import Any

from pytest_cloudbench.limits.envelope import MachineLimits
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.network import NetworkEnvelope, network_envelope
from pytest_cloudbench.limits.quantities import Bandwidth, Iops, Throughput

GBIT = 1e9 / 8
GOODPUT = 0.9927


def type_of(name, peak, baseline=None):
    """An instance type with network figures in Gbit/s."""
    card = {"NetworkCardIndex": 0, "PeakBandwidthInGbps": peak, "BaselineBandwidthInGbps": baseline or peak}
    return InstanceLimits.from_describe(
        {"InstanceType": name, "NetworkInfo": {"NetworkCards": [card]}}, date="2026-11"
    )


M5_2XL = type_of("m5.2xlarge", 10.0, 2.5)
C5_2XL = type_of("c5.2xlarge", 10.0, 2.5)
M5_LARGE = type_of("m5.large", 10.0, 0.75)
M5_8XL = type_of("m5.8xlarge", 10.0)
C5_18XL = type_of("c5.18xlarge", 25.0)
T2_MEDIUM = type_of("t2.medium", 1.024, 0.256)


def machine(gbit):
    """The machine under an embedded region, its network carrying so many Gbit/s."""
    return MachineLimits(
        Iops(300_000), Throughput.from_mib(18_000), "probe", network=Bandwidth.from_gbit(gbit)
    )


@dataclass(frozen=True)
class SyntheticStream:
    throughput: Bandwidth


@dataclass(frozen=True)
class SyntheticSeries:
    seconds: tuple[float, ...]
    throughput: tuple[Bandwidth, ...]


@dataclass(frozen=True)
class SyntheticNetworkRun:
    throughput: Bandwidth
    throughput_mib: float
    streams: tuple[SyntheticStream, ...]
    series: SyntheticSeries | None
    envelope: NetworkEnvelope | None
    counters: Any
    runtime_s: float
    generator: Any = None
    rate_asked: Any = None
    lost_percent: float | None = None
    time_compression: float = 1.0
    conditions: tuple[str, ...] = ()
    processes: int = 1
    mss: int | None = None
    asked: dict[str, Any] = field(default_factory=dict)
    tool_versions: dict[str, str] = field(default_factory=lambda: {"client": "3.12", "server": "3.12"})


def network_run(
    gbit=None,
    *,
    client=M5_2XL,
    server=None,
    streams=1,
    cluster=False,
    on=None,
    values=None,
    samples=60,
    interval=1.0,
    each=None,
    envelope=True,
    counters=None,
    **more,
):
    """A run of ``gbit`` Gbit/s of data; its series is flat unless ``values`` (Gbit/s) gives one."""
    if values is None:
        values = [gbit] * samples
    if gbit is None:
        gbit = sum(values) / len(values) if values else 0.0
    each = each or [gbit / streams] * streams
    found = network_envelope(client, server or client, streams=streams, cluster=cluster, machine=on)
    rate = Bandwidth.from_gbit(gbit)
    return SyntheticNetworkRun(
        throughput=rate,
        throughput_mib=rate.mib,
        streams=tuple(SyntheticStream(Bandwidth.from_gbit(one)) for one in each),
        series=SyntheticSeries(
            tuple(interval * (number + 1) for number in range(len(values))),
            tuple(Bandwidth.from_gbit(value) for value in values),
        ),
        envelope=found if envelope else None,
        counters=counters,
        runtime_s=len(values) * interval,
        **more,
    )


def noise(count, spread, random_numbers, memory=0.0):
    """Factors around 1 with this standard deviation, each resembling the last by ``memory`` (AR(1))."""
    found, last = [], random_numbers.gauss(0, spread)
    for _ in range(count):
        last = memory * last + random_numbers.gauss(0, spread * math.sqrt(1 - memory * memory))
        found.append(1 + last)
    return found


def burst(at_s, seconds, before=9.93, after=2.4825, *, spread=0.01, memory=0.5, seed=1, interval=1.0):
    """The samples of a run whose rate falls from ``before`` to ``after`` (Gbit/s) at ``at_s``."""
    count = round(seconds / interval)
    values = []
    for index, factor in enumerate(noise(count, spread, random.Random(seed), memory)):
        share = min(1.0, max(0.0, at_s / interval - index))
        values.append((before * share + after * (1 - share)) * factor)
    return values
