from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.limits.quantities import Bandwidth, Iops, Size, Throughput
from pytest_cloudbench.workloads.iperf3.errors import BadIperf3Job
from pytest_cloudbench.workloads.iperf3.job import Iperf3Job


def test_text_values_are_parsed() -> None:
    job = Iperf3Job.of(
        streams=5, duration=1800, omit=2, bitrate="5 Gbit/s", mss=1448, window="4m", length="128k", dscp="ef"
    )
    assert (job.protocol, job.streams, job.duration, job.omit) == ("tcp", 5, 1800, 2)
    assert job.bitrate == Bandwidth.from_gbit(5)
    assert (job.window, job.length, job.dscp) == (Size(4 << 20), Size(128 << 10), 46)
    assert str(job) == "TCP 5 streams, 5 Gbit/s"
    assert job.flows == 5


def test_udp_is_requested_by_flag_or_protocol() -> None:
    assert Iperf3Job.of(udp=True, bitrate="1 Gbit/s").udp
    assert Iperf3Job.of(protocol="UDP", bitrate="1 Gbit/s").udp
    assert Iperf3Job.of(protocol="UDP", udp=True, bitrate="1 Gbit/s").udp
    assert not Iperf3Job.of(udp=False).udp
    assert (
        str(Iperf3Job.of(udp=True, bitrate="450 Mbps", reverse=True)) == "UDP 1 stream, reverse, 450 Mbit/s"
    )


def test_a_bidirectional_job_has_its_streams_each_way() -> None:
    job = Iperf3Job.of(streams=3, bidirectional=True)
    assert job.flows == 6
    assert str(job) == "TCP 3 streams, both ways"


def test_reported_options_carry_their_units() -> None:
    asked = Iperf3Job.of(streams=2, bitrate="8 Mbit/s", window="64k").asked()
    assert asked["duration_s"] == 10
    assert asked["bitrate_bytes_per_s_total"] == 1e6
    assert asked["window_bytes"] == 65536


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"protocol": "sctp"}, "protocol='sctp'.*'tcp' or 'udp'"),
        ({"protocol": 3}, "protocol=3"),
        ({"protocol": "tcp", "udp": True}, "protocol='tcp' and udp=True contradict each other"),
        ({"udp": "yes"}, "udp='yes': use True or False"),
        (
            {"udp": True},
            "protocol='udp' needs bitrate=, such as '1 Gbit/s'",
        ),
        ({"streams": 0}, "streams=0 is not a whole number from 1 to"),
        ({"streams": 2.0}, "streams=2.0 is not a whole number"),
        ({"streams": True}, "streams=True is not a whole number"),
        (
            {"streams": 129, "processes": 1},
            r"streams=129 is not .* from 1 to 128 \(.*per process",
        ),
        ({"streams": 9000}, "streams=9000 is not a whole number from 1 to 8,192"),
        ({"streams": 2, "processes": 3}, "processes=3 .* streams=2: every process needs a stream"),
        ({"processes": 0}, "processes=0 is not a whole number from 1 to 64"),
        ({"duration": 0}, "duration=0 is not a whole number of seconds from 1 to 86,400"),
        ({"duration": 1.5}, "duration=1.5 is not a whole number of seconds"),
        ({"duration": "10"}, "duration='10' is not a whole number of seconds"),
        ({"duration": float("nan")}, "duration=nan is not"),
        ({"duration": float("inf")}, "duration=inf is not"),
        ({"duration": 90_000}, "duration=90000 is not"),
        ({"duration": 10, "omit": 10}, "omit=10 s must be shorter .*duration=10 s"),
        ({"duration": 100, "omit": 61}, "omit=61 is not a whole number of seconds from 0 to 60"),
        ({"omit": -1}, "omit=-1 is not"),
        ({"reverse": True, "bidirectional": True}, "reverse=True and bidirectional=True exclude each other"),
        ({"reverse": 1}, "reverse=1: use True or False"),
        ({"mss": 87}, "mss=87 is not a whole number of bytes from 88 to 9,216"),
        ({"mss": 9217}, "mss=9217 is not a whole number of bytes from 88 to 9,216"),
        ({"mss": 1448, "udp": True, "bitrate": "1 Gbit/s"}, "mss=1448 is a TCP option"),
        ({"congestion": "bbr", "udp": True, "bitrate": "1 Gbit/s"}, "congestion='bbr' is a TCP option"),
        ({"congestion": "bbr; reboot"}, "congestion='bbr; reboot'.* such as 'cubic'"),
        ({"window": "1g"}, "window=1 GiB is not between 1 B and 512 MiB"),
        ({"window": "large"}, "window='large'"),
        ({"length": "2m"}, "write length=2 MiB.* 1 to 1,048,576 bytes"),
        (
            {"length": 8, "udp": True, "bitrate": "1 Gbit/s"},
            "datagram length=8 B.* 16 to 65,507 bytes",
        ),
        (
            {"bitrate": 5e9},
            "bitrate=5000000000.0.* a unit, such as '5 Gbit/s'",
        ),
        ({"bitrate": "5"}, "'5' has no unit"),
        ({"bitrate": "5 parsec"}, "unknown unit 'parsec'"),
        ({"bitrate": "100 IOPS"}, "invalid bitrate=.*, such as '5 Gbit/s'"),
        ({"bitrate": Iops(5)}, "invalid bitrate=.*, such as '5 Gbit/s'"),
        ({"bitrate": "0 Gbit/s"}, "bitrate=.* finite and above zero"),
        ({"bitrate": Throughput(float("inf"))}, "bitrate=.* finite and above zero"),
        ({"bitrate": "10 bit/s", "streams": 20}, "less than 1 bit/s for each of 20 streams"),
        ({"dscp": 64}, "dscp=64.* 0 to 63, or a name such as 'ef', 'af41', 'cs1'"),
        ({"dscp": "af55"}, "invalid dscp='af55'"),
        (
            {"port": 80},
            r"port=80 is not a whole number from 1,024 to 65,535 \(only root ",
        ),
        ({"port": 70_000}, "port=70000 is not"),
        ({"port": 65_535, "processes": 2, "streams": 2}, "port=65535 leaves no room for processes=2"),
        ({"parallel": 5}, "parallel=: did you mean streams="),
        ({"bidir": True}, "did you mean bidirectional=?"),
        ({"stream": 5}, "did you mean streams=?"),
        ({"qqq": 1}, "qqq=: use bidirectional, bitrate, "),
    ],
)
def test_a_bad_value_is_refused_in_one_sentence(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadIperf3Job, match=sentence) as caught:
        Iperf3Job.of(**fields)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "point"), [("ef", 46), ("CS1", 8), ("af41", 34), ("le", 1), (0, 0), (63, 63)]
)
def test_dscp_accepts_names(name: Any, point: int) -> None:
    assert Iperf3Job.of(dscp=name).dscp == point


_FIELDS = [*(field.name for field in dataclasses.fields(Iperf3Job)), "udp"]
_ANYTHING = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=3)
)


@given(
    st.dictionaries(
        st.sampled_from(_FIELDS),
        _ANYTHING,
        max_size=4,
    )
)
def test_any_value_gives_a_job_or_a_refusal(fields: dict[str, Any]) -> None:
    try:
        job = Iperf3Job.of(**fields)
    except BadIperf3Job:
        return
    assert 1 <= job.streams <= 8192
    assert job.omit < job.duration
    assert job.bitrate is not None or not job.udp
    str(job)
    job.asked()
