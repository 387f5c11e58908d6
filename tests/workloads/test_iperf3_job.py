from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.limits.quantities import Bandwidth, Iops, Size, Throughput
from pytest_cloudbench.workloads.iperf3.errors import BadIperf3Job
from pytest_cloudbench.workloads.iperf3.job import Iperf3Job


def test_what_people_write_is_read() -> None:
    job = Iperf3Job.of(
        streams=5, duration=1800, omit=2, bitrate="5 Gbit/s", mss=1448, window="4m", length="128k", dscp="ef"
    )
    assert (job.protocol, job.streams, job.duration, job.omit) == ("tcp", 5, 1800, 2)
    assert job.bitrate == Bandwidth.from_gbit(5)
    assert (job.window, job.length, job.dscp) == (Size(4 << 20), Size(128 << 10), 46)
    assert str(job) == "TCP 5 streams, 5 Gbit/s"
    assert job.flows == 5


def test_the_words_for_udp() -> None:
    assert Iperf3Job.of(udp=True, bitrate="1 Gbit/s").udp
    assert Iperf3Job.of(protocol="UDP", bitrate="1 Gbit/s").udp
    assert Iperf3Job.of(protocol="UDP", udp=True, bitrate="1 Gbit/s").udp
    assert not Iperf3Job.of(udp=False).udp
    assert (
        str(Iperf3Job.of(udp=True, bitrate="450 Mbps", reverse=True)) == "UDP 1 stream, reverse, 450 Mbit/s"
    )


def test_both_ways_has_streams_each_way() -> None:
    job = Iperf3Job.of(streams=3, bidirectional=True)
    assert job.flows == 6
    assert str(job) == "TCP 3 streams, both ways"


def test_what_was_asked_carries_its_units() -> None:
    asked = Iperf3Job.of(streams=2, bitrate="8 Mbit/s", window="64k").asked()
    assert asked["duration_s"] == 10
    assert asked["bitrate_bytes_per_s_total"] == 1e6
    assert asked["window_bytes"] == 65536


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"protocol": "sctp"}, "protocol='sctp' is not one of 'tcp' and 'udp'"),
        ({"protocol": 3}, "protocol=3 is not one of"),
        ({"protocol": "tcp", "udp": True}, "contradict each other: give one of them"),
        ({"udp": "yes"}, "udp='yes' is neither True nor False"),
        (
            {"udp": True},
            "protocol='udp' needs bitrate=, such as '1 Gbit/s': left to itself iperf3 sends UDP at 1 ",
        ),
        ({"streams": 0}, "streams=0 is not a whole number from 1 to"),
        ({"streams": 2.0}, "streams=2.0 is not a whole number"),
        ({"streams": True}, "streams=True is not a whole number"),
        (
            {"streams": 129, "processes": 1},
            r"streams=129 is not .* from 1 to 128 \(iperf3 runs up to 128 a process",
        ),
        ({"streams": 9000}, "streams=9000 is not a whole number from 1 to 8,192"),
        ({"streams": 2, "processes": 3}, "processes=3 is more than streams=2: every process needs a stream"),
        ({"processes": 0}, "processes=0 is not a whole number from 1 to 64"),
        ({"duration": 0}, "duration=0 is not a whole number of seconds from 1 to 86,400"),
        ({"duration": 1.5}, "duration=1.5 is not a whole number of seconds"),
        ({"duration": "10"}, "duration='10' is not a whole number of seconds"),
        ({"duration": float("nan")}, "duration=nan is not"),
        ({"duration": float("inf")}, "duration=inf is not"),
        ({"duration": 90_000}, "duration=90000 is not"),
        ({"duration": 10, "omit": 10}, "omit=10 s is not shorter than duration=10 s"),
        ({"duration": 100, "omit": 61}, "omit=61 is not a whole number of seconds from 0 to 60"),
        ({"omit": -1}, "omit=-1 is not"),
        ({"reverse": True, "bidirectional": True}, "reverse=True and bidirectional=True exclude each other"),
        ({"reverse": 1}, "reverse=1 is neither True nor False"),
        ({"mss": 87}, "mss=87 is not a whole number of bytes from 88 to 9,216"),
        ({"mss": 9217}, "mss=9217 is not a whole number of bytes from 88 to 9,216"),
        ({"mss": 1448, "udp": True, "bitrate": "1 Gbit/s"}, "mss=1448 is for TCP: UDP has no such thing"),
        ({"congestion": "bbr", "udp": True, "bitrate": "1 Gbit/s"}, "congestion='bbr' is for TCP"),
        ({"congestion": "bbr; reboot"}, "is no name of a congestion control, such as 'cubic'"),
        ({"window": "1g"}, "window=1 GiB is not between 1 B and 512 MiB"),
        ({"window": "large"}, "window='large' is no size"),
        ({"length": "2m"}, "length=2 MiB is no length of a write: 1 to 1,048,576 bytes"),
        (
            {"length": 8, "udp": True, "bitrate": "1 Gbit/s"},
            "length=8 B is no length of a datagram: 16 to 65,507",
        ),
        (
            {"bitrate": 5e9},
            "bitrate=5000000000.0 is no rate of a network: write it with its unit, '5 Gbit/s'",
        ),
        ({"bitrate": "5"}, "'5' has no unit"),
        ({"bitrate": "5 parsec"}, "unknown unit 'parsec'"),
        ({"bitrate": "100 IOPS"}, "is no rate of a network: write it with its unit"),
        ({"bitrate": Iops(5)}, "is no rate of a network: write it with its unit"),
        ({"bitrate": "0 Gbit/s"}, "a rate is a finite figure above zero"),
        ({"bitrate": Throughput(float("inf"))}, "a rate is a finite figure above zero"),
        ({"bitrate": "10 bit/s", "streams": 20}, "less than one bit a second for each of 20 streams"),
        ({"dscp": 64}, "dscp=64 is no code point: 0 to 63, or a name such as 'ef', 'af41', 'cs1'"),
        ({"dscp": "af55"}, "dscp='af55' is no code point"),
        (
            {"port": 80},
            r"port=80 is not a whole number from 1,024 to 65,535 \(below 1024 only root may listen\)",
        ),
        ({"port": 70_000}, "port=70000 is not"),
        ({"port": 65_535, "processes": 2, "streams": 2}, "port=65535 leaves no room for processes=2"),
        ({"parallel": 5}, "parallel= is no option of an iperf3 job: did you mean streams=?"),
        ({"bidir": True}, "did you mean bidirectional=?"),
        ({"stream": 5}, "did you mean streams=?"),
        ({"qqq": 1}, "qqq= is no option of an iperf3 job; there are bidirectional, bitrate"),
    ],
)
def test_a_bad_value_is_one_sentence(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadIperf3Job, match=sentence) as caught:
        Iperf3Job.of(**fields)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "point"), [("ef", 46), ("CS1", 8), ("af41", 34), ("le", 1), (0, 0), (63, 63)]
)
def test_code_points_have_names(name: Any, point: int) -> None:
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
def test_any_value_gives_a_job_or_a_sentence(fields: dict[str, Any]) -> None:
    try:
        job = Iperf3Job.of(**fields)
    except BadIperf3Job:
        return
    assert 1 <= job.streams <= 8192
    assert job.omit < job.duration
    assert job.bitrate is not None or not job.udp
    str(job)
    job.asked()
