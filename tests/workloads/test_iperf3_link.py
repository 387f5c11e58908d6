"""Real iperf3 over a real link that is interrupted: two network namespaces joined by a veth pair."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from iperf3_processes import iperf3s, wait_for_iperf3s
from local_sshd import LocalSshd
from network_paths import LocalPath

from pytest_cloudbench.hosts.ssh import SshHost
from pytest_cloudbench.workloads.iperf3.errors import Iperf3Interrupted
from pytest_cloudbench.workloads.iperf3.job import Iperf3Job
from pytest_cloudbench.workloads.iperf3.run import run_iperf3

pytestmark = pytest.mark.embedded

_SERVER = "198.18.255.2"


@dataclass
class Namespace:
    """A host in its own network namespace, with SSH over another network."""

    host: SshHost
    name: str
    label: str

    def __hash__(self) -> int:
        return id(self)

    def _inside(self, argv: Sequence[str]) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{self.name}", *argv]

    def run(self, argv: Sequence[str], **more: Any) -> Any:
        return self.host.run(self._inside(argv), **more)

    def start_job(self, argv: Sequence[str], **more: Any) -> Any:
        return self.host.start_job(self._inside(argv), **more)

    def ensure_tool(self, name: str) -> str:
        return self.host.ensure_tool(name)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def link(sshd: LocalSshd) -> Iterator[tuple[LocalPath, str]]:
    """Return a path over a veth pair, and the name of the client's namespace."""
    if os.geteuid() != 0:
        pytest.skip("making a network namespace needs root")
    if shutil.which("iperf3") is None:
        pytest.skip("iperf3 is not installed on this machine")
    client, server = (f"cloudbench-test-{os.getpid()}-{end}" for end in "cs")
    made: list[str] = []
    try:
        for name in (client, server):
            said = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
            if said.returncode != 0:
                pytest.skip(f"this machine makes no network namespace: {said.stderr.strip()}")
            made.append(name)
        _ip("link", "add", "veth0", "netns", client, "type", "veth", "peer", "name", "veth0", "netns", server)
        for name, address in ((client, "198.18.255.1/24"), (server, f"{_SERVER}/24")):
            _ip("-n", name, "addr", "add", address, "dev", "veth0")
            _ip("-n", name, "link", "set", "veth0", "up")
        with sshd.connect() as one, sshd.connect() as other:
            ends = (
                Namespace(one, client, "instance i-0client"),
                Namespace(other, server, "instance i-0server"),
            )
            yield LocalPath(*ends, server_address=_SERVER), client  # type: ignore[arg-type]
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "delete", name], check=False)


def _interrupt(sshd: LocalSshd, namespace: str, *, after_s: float, for_s: float) -> threading.Thread:
    """Interrupt the link, and SSH with it, once the load has run for a while."""

    def later() -> None:
        wait_for_iperf3s(sshd, 2)
        time.sleep(after_s)
        _ip("-n", namespace, "link", "set", "veth0", "down")
        sshd.drop_connections()
        time.sleep(for_s)
        _ip("-n", namespace, "link", "set", "veth0", "up")

    thread = threading.Thread(target=later)
    thread.start()
    return thread


@pytest.mark.parametrize("options", [{}, {"reverse": True}], ids=["forward", "reverse"])
def test_a_link_interrupted_for_ten_seconds(
    link: tuple[LocalPath, str], sshd: LocalSshd, options: dict[str, Any]
) -> None:
    path, namespace = link
    interruption = _interrupt(sshd, namespace, after_s=4.0, for_s=10.0)
    with pytest.raises(Iperf3Interrupted) as caught:
        run_iperf3(path, Iperf3Job.of(duration=24, streams=2, bitrate="200 Mbit/s", **options))
    interruption.join()
    sentence = str(caught.value)
    assert sentence.startswith("no data flowed on client -> server from ")
    assert "of the test: the network between them was interrupted" in sentence
    began, _, ended = sentence.partition(" from ")[2].partition(" s of the test")[0].partition(" s to ")
    assert 3.0 <= float(began) <= 6.0
    # Only whole samples count; and once the link is back, TCP waits for the time of its next try.
    assert 7.0 <= float(ended) - float(began) <= 16.0
    kept = caught.value.measurement
    assert [rate.mbit for rate in kept.series.throughput[:3]] == pytest.approx([200] * 3, rel=0.1)
    assert kept.runtime_s == 24
    assert f"no data flowed from {began} s to {ended} s of the test" in kept.conditions
    assert iperf3s(sshd) == []


def test_a_link_that_never_recovers_keeps_the_measured_part(
    link: tuple[LocalPath, str], sshd: LocalSshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_cloudbench.workloads.iperf3.run._SPARE_S", 3.0)
    path, namespace = link
    interruption = _interrupt(sshd, namespace, after_s=3.0, for_s=25.0)
    with pytest.raises(Iperf3Interrupted) as caught:
        run_iperf3(path, Iperf3Job.of(duration=10, bitrate="100 Mbit/s"))
    sentence = str(caught.value)
    assert "long after its 10 s" in sentence
    assert "instance i-0server may be unreachable" in sentence
    assert "; no data flowed from " in sentence
    first, second = (rate.mbit for rate in caught.value.measurement.series.throughput[:2])
    assert min(first, second) > 50
    assert (first + second) / 2 == pytest.approx(100, rel=0.1), (
        "iperf3 on a busy machine sends some of it later"
    )
    assert iperf3s(sshd) == []
    interruption.join()


def test_an_interrupted_udp_run_is_refused(link: tuple[LocalPath, str], sshd: LocalSshd) -> None:
    path, namespace = link
    interruption = _interrupt(sshd, namespace, after_s=3.0, for_s=5.0)
    with pytest.raises(Iperf3Interrupted) as caught:
        run_iperf3(path, Iperf3Job.of(udp=True, duration=15, bitrate="20 Mbit/s", length=1400))
    interruption.join()
    assert str(caught.value).startswith(
        ("iperf3 on instance i-0client ended early: unable to write to stream socket: ", "no data flowed on ")
    )
    assert caught.value.measurement.series.throughput[0].mbit == pytest.approx(20, rel=0.1)
    assert iperf3s(sshd) == []
