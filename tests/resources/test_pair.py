"""A pair as the path of a workload: addresses, ceilings, counters, processors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_cloudbench import Bandwidth, Size, gp3
from pytest_cloudbench.hosts import network_counters
from pytest_cloudbench.hosts.network_counters import AllowanceSnapshot
from pytest_cloudbench.resources.facts import CreatedVolume, LaunchedInstance
from pytest_cloudbench.resources.instance import Instance, NoPromise
from pytest_cloudbench.resources.pair import Pair
from pytest_cloudbench.resources.volumes import Volume
from pytest_cloudbench.verdicts.counters import AllowanceDelta

Launched = Callable[..., LaunchedInstance]


class NamedHost:
    """A host that only says how many processors it has."""

    def __init__(self, cpus: int) -> None:
        self.cpus = cpus
        self.asked: list[list[str]] = []

    def run(self, argv: list[str], **_: Any) -> Any:
        self.asked.append(argv)
        return type("Said", (), {"stdout": f"{self.cpus}\n"})()


@pytest.fixture
def pair(cloud: Any, launched_as: Launched) -> Pair:
    return _pair(cloud, launched_as("m5.2xlarge", 1), launched_as("c5.18xlarge", 2))


def _pair(cloud: Any, client: LaunchedInstance, server: LaunchedInstance, *, cluster: bool = False) -> Pair:
    ends = [Instance(cloud, each, 1.0) for each in (client, server)]
    for end, cpus in zip(ends, (8, 72), strict=True):
        end._host = NamedHost(cpus)  # type: ignore[assignment]
    return Pair(*ends, cluster=cluster)


def labels(pair: Pair, streams: int) -> list[str]:
    return [ceiling.label for ceiling in pair.envelope(streams=streams, reverse=False).binding]


def test_the_load_goes_to_the_server_s_private_address(cloud: Any, launched_as: Launched) -> None:
    server = launched_as("m5.2xlarge", 2, public_ip="203.0.113.9", address="203.0.113.9")
    pair = _pair(cloud, launched_as("m5.2xlarge", 1), server)
    assert pair.server_address == "198.18.0.2"
    assert pair.label == "m5.2xlarge i-00000000000000001 -> m5.2xlarge i-00000000000000002"


def test_a_cluster_is_in_the_label(cloud: Any, launched_as: Launched) -> None:
    pair = _pair(cloud, launched_as("m5.2xlarge", 1), launched_as("m5.2xlarge", 2), cluster=True)
    assert pair.label.endswith(", in a cluster placement group")


def test_without_a_private_address_there_is_no_path(cloud: Any, launched_as: Launched) -> None:
    pair = _pair(cloud, launched_as("m5.2xlarge", 1), launched_as("m5.2xlarge", 2, private_ip=None))
    with pytest.raises(NoPromise, match="has no private address"):
        _ = pair.server_address


def test_one_flow_is_limited_by_the_flow_limit_and_several_by_the_slower_end(pair: Pair) -> None:
    assert [ceiling.scope for ceiling in pair.envelope(streams=1).binding] == ["flow"]
    assert pair.envelope(streams=1, reverse=True) == pair.envelope(streams=1, reverse=False)
    assert labels(pair, 5) == [pair.client.network_peak.label]
    assert pair.envelope(streams=5).limit_throughput == Bandwidth.from_gbit(10)


def test_in_a_cluster_one_flow_may_have_ten(cloud: Any, launched_as: Launched) -> None:
    ends = launched_as("c5.18xlarge", 1), launched_as("c5.18xlarge", 2)
    assert _pair(cloud, *ends, cluster=True).envelope(streams=1).limit_throughput == Bandwidth.from_gbit(10)
    assert _pair(cloud, *ends).envelope(streams=1).limit_throughput == Bandwidth.from_gbit(5)


def test_the_machine_under_an_embedded_region_is_a_ceiling_too(cloud: Any, launched_as: Launched) -> None:
    tags = {
        "aws:cloudbench:machine-iops": "100000",
        "aws:cloudbench:machine-bytes-per-second": "5e9",
        "aws:cloudbench:machine-network-bytes-per-second": "1.5e9",
    }
    ends = (launched_as("c5.18xlarge", number, tags=tags) for number in (1, 2))
    envelope = _pair(cloud, *ends).envelope(streams=5)
    assert [ceiling.promised for ceiling in envelope.ordered] == [False, True, True]
    assert envelope.limit_throughput == Bandwidth.from_gbit(12)


def test_compressed_time_is_known_from_the_instance_s_tag(cloud: Any, launched_as: Launched) -> None:
    tags = {"aws:cloudbench:time-compression": "60"}
    ends = [launched_as("m5.2xlarge", number, tags=tags) for number in (1, 2)]
    assert _pair(cloud, *ends).time_compression == 60.0
    spec = gp3(size_gib=1)
    created = CreatedVolume("vol-1", spec, "us-east-1a", Size.from_gib(1), "in-use")
    assert Volume(Instance(cloud, ends[0], 1.0), created).time_compression == 60.0
    assert Instance(cloud, launched_as("m5.2xlarge"), 1.0).time_compression == 1.0


def test_processors_are_counted_on_the_hosts_and_once(pair: Pair) -> None:
    assert (pair.client_cpus, pair.server_cpus) == (8, 72)
    assert pair.client_cpus == 8
    assert pair.client.host.asked == [["nproc"]]  # type: ignore[attr-defined]


def test_network_promises_of_a_type_without_figures_raise_when_used(
    cloud: Any, launched_as: Launched
) -> None:
    instance = Instance(cloud, launched_as("t2.medium"), 1.0)
    with pytest.raises(NoPromise, match=r"AWS states no network bandwidth for t2\.medium"):
        _ = instance.network_peak
    with pytest.raises(NoPromise, match=r"AWS states no network baseline for t2\.medium"):
        _ = instance.network_baseline
    burst = Instance(cloud, launched_as("m5.2xlarge"), 1.0)
    assert str(burst.network_peak) == "m5.2xlarge network bandwidth, 10 Gbit/s"
    assert str(burst.network_baseline) == "m5.2xlarge network baseline, 2.5 Gbit/s"


@pytest.fixture
def counters(monkeypatch: pytest.MonkeyPatch) -> dict[str, AllowanceSnapshot | None]:
    """The counters of the interface of each private address."""
    found: dict[str, AllowanceSnapshot | None] = {}
    monkeypatch.setattr(network_counters, "read_allowances", lambda _host, address: found.get(address))
    return found


def test_the_counters_of_both_ends_are_read_by_their_private_addresses(
    pair: Pair, counters: dict[str, AllowanceSnapshot | None]
) -> None:
    counters |= {
        "198.18.0.1": AllowanceSnapshot(1.0, {"bw_out_exceeded": 10}),
        "198.18.0.2": AllowanceSnapshot(2.0, {"bw_in_exceeded": 5}),
    }
    before = pair.counters()
    counters |= {
        "198.18.0.1": AllowanceSnapshot(4.0, {"bw_out_exceeded": 110}),
        "198.18.0.2": AllowanceSnapshot(5.0, {"bw_in_exceeded": 5}),
    }
    after = pair.counters()
    assert before is not None
    assert after is not None
    gained = after.since(before)
    assert gained.client == AllowanceDelta(elapsed_s=3.0, bw_out_exceeded=100)
    assert gained.server == AllowanceDelta(elapsed_s=3.0)


def test_an_end_without_counters_leaves_the_other_s(
    pair: Pair, counters: dict[str, AllowanceSnapshot | None]
) -> None:
    counters["198.18.0.2"] = AllowanceSnapshot(2.0, {"bw_in_exceeded": 5})
    before, after = pair.counters(), pair.counters()
    assert before is not None
    assert after is not None
    gained = after.since(before)
    assert gained.client is None
    assert gained.server is not None


def test_an_end_that_answered_only_once_has_no_gain(
    pair: Pair, counters: dict[str, AllowanceSnapshot | None]
) -> None:
    counters |= {"198.18.0.1": AllowanceSnapshot(1.0, {}), "198.18.0.2": AllowanceSnapshot(1.0, {})}
    before = pair.counters()
    counters["198.18.0.1"] = None
    after = pair.counters()
    assert before is not None
    assert after is not None
    assert after.since(before).client is None


def test_without_any_counters_there_is_no_snapshot(
    pair: Pair, counters: dict[str, AllowanceSnapshot | None]
) -> None:
    assert pair.counters() is None


@pytest.mark.parametrize(
    ("mode", "sentence"),
    [
        ("ebs", "storage latency modelled by the embedded region"),
        ("none", "storage latency not modelled: below a limit it is this machine's own"),
    ],
)
def test_the_latency_is_known_from_the_instance_s_tag_and_is_a_condition(
    cloud: Any, launched_as: Launched, mode: str, sentence: str
) -> None:
    instance = Instance(cloud, launched_as("m5.2xlarge", tags={"aws:cloudbench:latency": mode}), 1.0)
    volume = Volume(
        instance, CreatedVolume("vol-1", gp3(size_gib=1), "us-east-1a", Size.from_gib(1), "in-use")
    )
    assert instance.modelled_latency == volume.modelled_latency == mode
    assert volume.conditions == (sentence,)


def test_without_the_tag_latency_is_no_condition(cloud: Any, launched_as: Launched) -> None:
    instance = Instance(cloud, launched_as("m5.2xlarge"), 1.0)
    volume = Volume(
        instance, CreatedVolume("vol-1", gp3(size_gib=1), "us-east-1a", Size.from_gib(1), "in-use")
    )
    assert instance.modelled_latency is None
    assert volume.conditions == ()
