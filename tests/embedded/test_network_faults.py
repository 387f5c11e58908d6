"""What goes wrong with a network run on real hosts: each is one clear sentence, and nothing is left running."""

from __future__ import annotations

import contextlib

import pytest

from pytest_cloudbench.workloads.iperf3.errors import (
    Iperf3Interrupted,
    Iperf3OutputError,
    PortBusy,
)

pytestmark = pytest.mark.embedded

PORT = 25_001


@contextlib.contextmanager
def nothing_left(pair, *, but=0):
    """On either end no iperf3 runs afterwards, but for so many on the server that were there before."""
    yield
    for end, mine in ((pair.client, 0), (pair.server, but)):
        assert len(end.run(["pgrep", "-x", "iperf3"], check=False).stdout.split()) == mine


@pytest.mark.fault("network", "a port is taken")
@pytest.mark.ec2_pair("m5.large")
def test_a_port_that_is_taken(ec2_pair, iperf3):
    ec2_pair.server.run(["iperf3", "-s", "-D", "-p", str(PORT)])
    listening = f"until ss -ltn | grep -q ':{PORT} '; do sleep 0.05; done"
    ec2_pair.server.run(["sh", "-c", listening], timeout_s=20)
    with nothing_left(ec2_pair, but=1), pytest.raises(PortBusy) as refused:
        iperf3(ec2_pair, duration=6, port=PORT)
    assert f"port {PORT} on {ec2_pair.server.launched} is in use" in str(refused.value)
    assert "choose another port=, or omit it" in str(refused.value)


@pytest.mark.fault("network", "a link is down for ten seconds")
@pytest.mark.ec2_pair("m5.large")
def test_a_link_that_is_away_for_ten_seconds(ec2_pair, iperf3, request, monkeypatch):
    """The server's interface goes down while the load runs, and SSH to it with it."""
    monkeypatch.setattr("pytest_cloudbench.fixtures.running_test.pace", lambda config: "full")
    received = "cat /sys/class/net/eth0/statistics/rx_bytes"
    four_seconds = f"until [ $({received}) -gt {4 * 50_000_000 // 8} ]; do sleep 0.05; done"
    away = f"{four_seconds}; ip link set eth0 down; sleep 10; ip link set eth0 up"
    ec2_pair.server.run(["sudo", "sh", "-c", f"setsid sh -c '{away}' >/dev/null 2>&1 </dev/null &"])
    with nothing_left(ec2_pair), pytest.raises(Iperf3Interrupted) as broken:
        iperf3(ec2_pair, streams=2, duration=26, bitrate="50 Mbit/s")
    sentence = str(broken.value)
    assert "no data flowed" in sentence
    assert "measurement" in sentence
    kept = broken.value.measurement
    assert [rate.mbit for rate in kept.series.throughput[:2]] == pytest.approx([50] * 2, rel=0.1)
    told = [value for name, value in request.node.user_properties if name == "cloudbench.condition"]
    assert any(condition.startswith("no data flowed from ") for condition in told)


@pytest.mark.fault("parsers", "iperf3's output is damaged")
@pytest.mark.ec2_pair("m5.large")
@pytest.mark.parametrize(
    ("output", "words"),
    [
        ('{"start": {"connected": [', "JSON is damaged or cut off"),
        ("Segmentation fault", "ended with exit code 0 and without a result: Segmentation fault"),
        ("", "wrote no output"),
    ],
)
def test_output_that_is_no_measurement(ec2_pair, iperf3, output, words):
    """The client's iperf3 does its work and writes nonsense."""
    wrapper = (
        '#!/bin/sh\ncase " $* " in *\' -c \'*) iperf3.real "$@" >/dev/null; printf %s \'' + output + "';; "
        '*) exec iperf3.real "$@";; esac\n'
    )
    ec2_pair.client.run(["sudo", "mv", "/usr/bin/iperf3", "/usr/bin/iperf3.real"])
    ec2_pair.client.run(
        ["sudo", "sh", "-c", f"cat >/usr/bin/iperf3 <<'END'\n{wrapper}END\nchmod 755 /usr/bin/iperf3"]
    )
    with nothing_left(ec2_pair), pytest.raises((Iperf3OutputError, Iperf3Interrupted)) as broken:
        iperf3(ec2_pair, duration=6)
    assert words in str(broken.value)
    assert str(ec2_pair.client.launched) in str(broken.value)
