from __future__ import annotations

import dataclasses
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.verdicts.verdict import Verdict
from pytest_cloudbench.workloads.iperf3.errors import Iperf3Interrupted
from pytest_cloudbench.workloads.iperf3.failures import is_broken, is_noted, longest_stall
from pytest_cloudbench.workloads.iperf3.job import Iperf3Job
from pytest_cloudbench.workloads.network_measurement import (
    BothDirections,
    NetworkMeasurement,
    NetworkSeries,
    StreamResult,
)


def _series(*gbit: float, step_s: float = 1.0) -> NetworkSeries:
    return NetworkSeries(
        seconds=tuple((number + 1) * step_s for number in range(len(gbit))),
        throughput=tuple(Bandwidth.from_gbit(each) for each in gbit),
        retransmits=(1,) * len(gbit),
    )


def _measurement(gbit: float = 4.97, **more: Any) -> NetworkMeasurement:
    rate = Bandwidth.from_gbit(gbit)
    series = _series(*[gbit] * 10)
    stream = StreamResult(1, 40000, True, rate, rate, series, retransmits=10, rtt_s=0.0002, cwnd_bytes=1e6)
    fields: dict[str, Any] = {
        "workload": "iperf3 TCP 1 stream",
        "protocol": "tcp",
        "throughput": rate,
        "sent": rate,
        "received": rate,
        "streams": (stream,),
        "series": series,
        "runtime_s": 10.0,
        "path": "a -> b",
        "client": "a",
        "server": "b",
        "client_commands": ("iperf3 -c b",),
        "server_commands": ("iperf3 -s -1",),
        "tool_versions": {"client": "iperf 3.12", "server": "iperf 3.12"},
        "started_at": "2026-11-20T12:00:00+00:00",
    }
    return NetworkMeasurement(**(fields | more))


def test_its_repr_is_a_sentence() -> None:
    assert repr(_measurement()) == "iperf3 TCP 1 stream on a -> b: 4.97 Gbit/s, 10 sent again"
    noted = _measurement(conditions=("time compressed 60 times: 1,800 s ran in 30 s",))
    assert repr(noted).endswith("(time compressed 60 times: 1,800 s ran in 30 s)")
    stream = dataclasses.replace(noted.streams[0], retransmits=None, lost_packets=5, packets=1000)
    assert repr(_measurement(streams=(stream,))).endswith(": 4.97 Gbit/s, 0.5 % lost")


def test_plain_values_carry_their_units() -> None:
    plain = json.loads(json.dumps(_measurement(raw={"client-1.json": b"{}"}, mss=8949).to_dict()))
    assert plain["throughput_gbit_per_s"] == pytest.approx(4.97)
    assert plain["throughput_bytes_per_s"] == pytest.approx(4.97e9 / 8)
    assert plain["streams"][0]["rtt_mean_s"] == 0.0002
    assert plain["streams"][0]["series"]["throughput_bytes_per_s"][0] == pytest.approx(4.97e9 / 8)
    assert plain["series"]["seconds"] == [float(number) for number in range(1, 11)]
    assert plain["raw_files"] == ["client-1.json"]
    assert plain["mss_bytes"] == 8949
    united = ("_s", "_gbit_per_s", "_percent", "_bytes", "_packets", "_port")
    for name, value in (*plain.items(), *plain["streams"][0].items()):
        named = name in ("retransmits", "processes", "process", "packets", "time_compression")
        assert (
            not isinstance(value, (int, float)) or isinstance(value, bool) or named or name.endswith(united)
        ), name


def test_every_verdict_is_reported() -> None:
    told: list[Verdict] = []
    run = _measurement(on_verdict=told.append)
    assert run.reaches("4.9 Gbit/s", within=0.05)
    assert run.steady()
    assert not run.reaches("10 Gbit/s")
    assert run.resembles(_measurement(4.99))
    assert run.outperforms(_measurement(2.0), by=1.0)
    assert len(told) == 5


def test_each_direction_of_a_bidirectional_run_is_judged() -> None:
    told: list[Verdict] = []
    one, other = _measurement(4.0), _measurement(3.0, reverse=True)
    unsure = "network burst credits may not be full"
    both = _measurement(7.0, directions=(one, other), on_verdict=told.append, credits_unsure=unsure)
    assert both.bidirectional
    assert both.forward is not None
    assert both.backward is not None
    assert both.forward.credits_unsure == both.backward.credits_unsure == unsure
    assert both.forward.reaches("4 Gbit/s")
    assert both.backward.reaches("3 Gbit/s")
    assert len(told) == 2
    for ask in (both.steady, lambda: both.reaches("7 Gbit/s"), lambda: one.resembles(both)):
        with pytest.raises(BothDirections, match="a promise holds for each direction by itself"):
            ask()
    assert repr(both).startswith("iperf3 TCP 1 stream on a -> b: 7 Gbit/s (4 Gbit/s and 3 Gbit/s each way)")


def test_a_one_way_run_is_its_own_direction() -> None:
    assert _measurement().forward == _measurement()
    assert _measurement().backward is None
    assert _measurement(reverse=True).backward == _measurement(reverse=True)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("faster_than", r"compares created files: ask outperforms\(other, by=0\.3\)"),
        ("iops", "counts I/Os, of which a network has none: there is throughput_gbit"),
        ("latency", "is that of I/Os: there are rtt"),
        ("read", "is of storage: there are forward and backward"),
    ],
)
def test_attributes_of_storage_are_refused_with_an_alternative(name: str, instead: str) -> None:
    run = _measurement()
    with pytest.raises(AttributeError, match=f"^this was a run on a network, and {name} {instead}"):
        getattr(run, name)
    assert not hasattr(run, name)


def test_an_unknown_name_is_an_ordinary_attribute_error() -> None:
    with pytest.raises(
        AttributeError, match=r"^'NetworkMeasurement' object has no attribute 'reache'"
    ) as caught:
        _ = _measurement().reache  # type: ignore[attr-defined]
    assert caught.value.name == "reache"
    assert pickle.loads(pickle.dumps(_measurement())) == _measurement()


def test_an_interruption_holds_the_measured_part() -> None:
    error = Iperf3Interrupted("it broke off", _measurement())
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.measurement) == ("it broke off", error.measurement)


def test_a_stall_is_the_longest_time_without_a_byte() -> None:
    assert longest_stall(_series(1, 1, 1), compression=1.0) is None
    assert longest_stall(NetworkSeries(), compression=1.0) is None
    stall = longest_stall(_series(1, 0, 1, 0, 0, 0, 1, 0, 0), compression=1.0)
    assert stall is not None
    assert (stall.from_s, stall.until_s, stall.real_s) == (3, 6, 3)
    assert str(stall) == "from 3.0 s to 6.0 s of the test"
    begun = longest_stall(_series(0, 0, 1), compression=1.0)
    assert begun is not None
    assert (begun.from_s, begun.until_s) == (0, 2)
    fast = longest_stall(_series(*[1.0] * 10, *[0.0] * 50, 1.0, step_s=6.0), compression=60.0)
    assert fast is not None
    assert str(fast) == "from 60.0 s to 360.0 s of the test (5.0 s of real time)"
    assert is_broken(fast, Iperf3Job.of())


@pytest.mark.parametrize(
    ("bitrate", "zeros", "noted", "broken"),
    [
        (None, 0, False, False),
        (None, 1, True, False),
        (None, 2, True, False),
        (None, 3, True, True),
        ("1 Gbit/s", 3, True, True),
        ("300 kbit/s", 5, False, False),  # 128 KiB every 3.5 s
        ("300 kbit/s", 11, True, True),
    ],
)
def test_stalls_are_noted_or_break_the_run_by_length(
    bitrate: str | None, zeros: int, noted: bool, broken: bool
) -> None:
    job = Iperf3Job.of(bitrate=bitrate)
    stall = longest_stall(_series(1, *[0.0] * zeros, 1), compression=1.0)
    assert (stall is not None and is_noted(stall, job)) == noted
    assert (stall is not None and is_broken(stall, job)) == broken


@given(st.lists(st.sampled_from((0.0, 1.0)), max_size=50), st.sampled_from((1.0, 60.0)))
def test_a_stall_is_never_longer_than_its_zeros(gbit: list[float], compression: float) -> None:
    stall = longest_stall(_series(*gbit, step_s=compression), compression=compression)
    runs = "".join("0" if each == 0 else "1" for each in gbit).split("1")
    longest = max((len(run) for run in runs), default=0)
    assert (stall.real_s if stall else 0) == pytest.approx(longest)


def test_round_trips_are_judged_by_their_mean_and_longest_sample() -> None:
    told: list[Verdict] = []
    stream = dataclasses.replace(
        _measurement().streams[0],
        rtt_s=0.0008,
        series=dataclasses.replace(_series(4.97), rtt_s=(0.0004, 0.0012, None)),
    )
    run = _measurement(2.0, streams=(stream,), on_verdict=told.append)
    assert (run.rtt.mean_s, run.rtt.max_s) == (0.0008, 0.0012)
    assert run.rtt.at_most(mean="1 ms", max=0.002)
    assert not run.rtt.at_most(max="1 ms")
    assert [each.promise for each in told] == [
        "round trip: mean at most 1 ms and longest at most 2 ms",
        "round trip: longest at most 1 ms",
    ]
    with pytest.raises(
        ValueError, match="p99= cannot be judged, as it was not measured: ask one of mean, max"
    ):
        run.rtt.at_most(p99="1 ms")
    with pytest.raises(TypeError, match="needs a limit"):
        run.rtt.at_most()


def test_round_trips_of_udp_and_of_both_directions_are_refused() -> None:
    silent = dataclasses.replace(_measurement().streams[0], rtt_s=None)
    with pytest.raises(ValueError, match="this run sent UDP: assert run"):
        _measurement(streams=(silent,), protocol="UDP").rtt.at_most(mean="1 ms")
    both = _measurement(directions=(_measurement(), _measurement(reverse=True)))
    with pytest.raises(BothDirections):
        both.rtt.at_most(mean="1 ms")
    assert both.forward is not None
    assert both.forward.rtt.mean_s == 0.0002
