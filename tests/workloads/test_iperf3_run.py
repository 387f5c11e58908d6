"""Real iperf3 over real SSH, on loopback."""

from __future__ import annotations

import dataclasses
import json
import shlex
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from iperf3_processes import iperf3s, wait_for_iperf3s
from local_sshd import LocalSshd
from network_paths import LocalPath

from pytest_cloudbench.hosts.ssh import SshHost
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.network import network_envelope
from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.verdicts.counters import AllowanceDelta, AllowancePair
from pytest_cloudbench.workloads.iperf3.errors import Iperf3Refused, PortBusy
from pytest_cloudbench.workloads.iperf3.job import Iperf3Job
from pytest_cloudbench.workloads.iperf3.run import NetworkProgress, run_iperf3
from pytest_cloudbench.workloads.pace import Pace


@pytest.fixture
def path(sshd: LocalSshd) -> Iterator[LocalPath]:
    if shutil.which("iperf3") is None:
        pytest.skip("iperf3 is not installed on this machine")
    with (
        sshd.connect(label="instance i-0client") as client,
        sshd.connect(label="instance i-0server") as server,
    ):
        yield LocalPath(client, server)


def _jobs_left(host: Any, port: str) -> str:
    """Return the job directories on the host for this port."""
    found = host.run(["sh", "-c", f"grep -l -e '-p {port} ' /var/tmp/cloudbench-*/*/load"], check=False)
    return str(found.stdout)


def test_a_run_becomes_a_measurement(path: LocalPath) -> None:
    seen: list[NetworkProgress] = []
    job = Iperf3Job.of(streams=3, duration=3, omit=1, bitrate="300 Mbit/s")
    run = run_iperf3(path, job, on_progress=seen.append)

    assert run.throughput.mbit == pytest.approx(300, rel=0.02)
    assert run.received == run.throughput
    assert run.sent is not None
    assert run.sent.mbit == pytest.approx(300, rel=0.02)
    assert run.throughput_gbit == pytest.approx(0.3, rel=0.02)
    assert run.throughput_mib == pytest.approx(300e6 / 8 / 2**20, rel=0.02)
    assert run.runtime_s == 3.0
    assert run.series.seconds == (1.0, 2.0, 3.0)
    assert len(run.streams) == 3
    for stream in run.streams:
        assert stream.throughput.mbit == pytest.approx(100, rel=0.03)
        assert stream.series.seconds == run.series.seconds
        assert stream.rtt_s is not None
        assert stream.cwnd_bytes is not None
        assert stream.retransmits is not None
    for number, rate in enumerate(run.series.throughput):
        parts = [stream.series.throughput[number].bytes_per_second for stream in run.streams]
        assert sum(parts) == pytest.approx(rate.bytes_per_second)
    assert run.retransmits == sum(run.series.retransmits)
    assert run.generator is not None
    assert 0 < run.generator.cpu_percent_busiest < 95
    assert run.cpu_client_percent is not None
    assert run.cpu_server_percent is not None
    assert run.rate_asked == Bandwidth.from_mbit(300)
    assert run.tool_versions["client"].startswith("iperf 3.")
    assert run.tool_versions["client"] == run.tool_versions["server"]
    assert run.processes == 1
    assert run.conditions == ()
    assert (run.client, run.server) == ("instance i-0client", "instance i-0server")
    assert set(run.raw) == {"client-1.json", "server-1.json"}
    assert run.forward == run
    assert run.backward is None
    assert repr(run).startswith("iperf3 TCP 3 streams, 300 Mbit/s on client -> server: ")

    assert seen
    assert seen[-1].percent > 50
    assert seen[-1].throughput is not None
    assert seen[-1].throughput.mbit == pytest.approx(300, rel=0.3)

    plain = json.loads(json.dumps(run.to_dict()))
    assert plain["throughput_bytes_per_s"] == run.throughput.bytes_per_second
    assert plain["asked"]["bitrate_bytes_per_s_total"] == 300e6 / 8
    assert plain["raw_files"] == ["client-1.json", "server-1.json"]


def test_nothing_remains_on_either_host(path: LocalPath, sshd: LocalSshd) -> None:
    run = run_iperf3(path, Iperf3Job.of(duration=1, bitrate="10 Mbit/s"))
    assert iperf3s(sshd) == []
    assert _jobs_left(path.server_host, shlex.split(run.command)[4]) == ""


def test_the_server_sends_in_reverse(path: LocalPath) -> None:
    run = run_iperf3(path, Iperf3Job.of(streams=2, duration=2, reverse=True, bitrate="100 Mbit/s"))
    assert run.throughput.mbit == pytest.approx(100, rel=0.03)
    assert run.reverse
    assert [stream.from_client for stream in run.streams] == [False, False]
    assert run.forward is None
    assert run.backward == run
    assert all(stream.rtt_s is not None for stream in run.streams)


def test_both_ways_are_two_measurements(path: LocalPath) -> None:
    told: list[Any] = []
    run = run_iperf3(path, Iperf3Job.of(streams=2, duration=2, bidirectional=True, bitrate="100 Mbit/s"))
    run = dataclasses.replace(run, on_verdict=told.append)
    assert run.throughput.mbit == pytest.approx(200, rel=0.03)
    assert len(run.streams) == 4
    for way, reverse in ((run.forward, False), (run.backward, True)):
        assert way is not None
        assert way.throughput.mbit == pytest.approx(100, rel=0.03)
        assert way.reverse == reverse
        assert len(way.streams) == 2
        assert way.reaches("90 Mbit/s")
    assert len(told) == 2
    with pytest.raises(TypeError, match=r"went both ways, .* judge its forward or its backward"):
        run.reaches("150 Mbit/s")
    plain = json.loads(json.dumps(run.to_dict()))
    assert [each["reverse"] for each in plain["directions"]] == [False, True]


def test_udp_reports_jitter_and_loss(path: LocalPath) -> None:
    run = run_iperf3(path, Iperf3Job.of(udp=True, streams=2, duration=2, bitrate="20 Mbit/s", length=1400))
    assert run.throughput.mbit == pytest.approx(20, rel=0.05)
    assert run.jitter_s is not None
    assert 0 <= run.jitter_s < 0.1
    assert run.lost_percent is not None
    assert run.lost_percent < 5
    packets = sum(stream.packets or 0 for stream in run.streams)
    assert packets == pytest.approx(20e6 / 8 * 2 / 1400, rel=0.05)
    assert run.retransmits is None
    assert len(run.series.lost_packets) == len(run.series)


def test_several_processes_are_summed(path: LocalPath) -> None:
    run = run_iperf3(path, Iperf3Job.of(streams=3, duration=2, processes=2, bitrate="90 Mbit/s"))
    assert run.processes == 2
    assert run.throughput.mbit == pytest.approx(90, rel=0.03)
    assert [stream.process for stream in run.streams] == [1, 1, 2]
    assert len(run.client_commands) == len(run.server_commands) == 2
    assert set(run.raw) == {"client-1.json", "client-2.json", "server-1.json", "server-2.json"}
    assert [rate.mbit for rate in run.series.throughput] == pytest.approx([90, 90], rel=0.1)


def test_a_high_promised_rate_starts_more_processes(path: LocalPath) -> None:
    path.client_cpus = path.server_cpus = 2
    limits = InstanceLimits.from_describe(
        {
            "InstanceType": "c5.18xlarge",
            "NetworkInfo": {"NetworkCards": [{"BaselineBandwidthInGbps": 25.0, "PeakBandwidthInGbps": 25.0}]},
        }
    )
    path.known_envelope = network_envelope(limits, limits, streams=5, cluster=False)
    run = run_iperf3(path, Iperf3Job.of(streams=5, duration=1))
    assert run.envelope is path.known_envelope
    version = tuple(int(part) for part in run.tool_versions["client"].split()[1].split("."))
    if version < (3, 16):
        assert run.processes == 2
        assert any(each.startswith("2 iperf3 processes at each end: ") for each in run.conditions)
    else:
        assert run.processes == 1
    assert run.to_dict()["processes_why"] == run.processes_why


def test_seconds_are_those_of_the_test_in_compressed_time(path: LocalPath) -> None:
    path.time_compression = 60.0
    run = run_iperf3(path, Iperf3Job.of(duration=120, bitrate="200 Mbit/s"))
    assert run.conditions == ("time compressed 60 times: 360 s (120 s were asked) ran in 6 s",)
    assert run.runtime_s == 360
    assert run.time_compression == 60
    assert run.series.seconds[:2] == (6.0, 12.0)
    assert len(run.series) == 60
    # Rates are not compressed.
    assert run.throughput.mbit == pytest.approx(200, rel=0.02)
    assert "time compressed 60 times" in repr(run)


def test_quick_pace_is_noted_in_the_result(path: LocalPath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_cloudbench.workloads.pace.QUICK_RUNTIME_S", 2)
    run = run_iperf3(path, Iperf3Job.of(duration=60, bitrate="10 Mbit/s"), pace=Pace.QUICK)
    assert run.conditions == ("quick pace: duration 60 s -> 2 s",)
    assert run.runtime_s == 2


def test_nothing_is_sampled_without_a_live_line(path: LocalPath, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts: list[bytes] = []
    start_job = SshHost.start_job

    def noted(self: SshHost, argv: Any, **more: Any) -> Any:
        scripts.extend(more["files"].values())
        return start_job(self, argv, **more)

    monkeypatch.setattr(SshHost, "start_job", noted)
    run_iperf3(path, Iperf3Job.of(duration=1, bitrate="1 Mbit/s"))
    assert len(scripts) == 2
    assert not any(b"/proc/net/dev" in script for script in scripts)


@dataclass
class _Snapshot:
    taken_s: float

    def since(self, earlier: _Snapshot) -> AllowancePair:
        return AllowancePair(AllowanceDelta(self.taken_s - earlier.taken_s, bw_out_exceeded=7), None)


def test_allowance_counters_are_read_before_and_after_the_run(path: LocalPath) -> None:
    path.read_counters = lambda: _Snapshot(time.monotonic())
    run = run_iperf3(path, Iperf3Job.of(duration=1, bitrate="1 Mbit/s"))
    assert run.counters is not None
    assert run.counters.client == AllowanceDelta(1, bw_out_exceeded=7)
    assert run.counters.server is None
    assert run.to_dict()["allowance_counters"]["client"]["bw_out_exceeded"] == 7


@dataclass
class _Pairs:
    pairs: list[LocalPath]
    label: str = "client -> server (2 pairs)"

    def envelope(self, **load: Any) -> None:
        return None

    def counters(self) -> _PairsSnapshot:
        return _PairsSnapshot([_Snapshot(time.monotonic()) for _ in self.pairs])


@dataclass
class _PairsSnapshot:
    each: list[_Snapshot]

    def since(self, earlier: _PairsSnapshot) -> list[AllowancePair]:
        return [now.since(then) for now, then in zip(self.each, earlier.each, strict=True)]


def test_several_pairs_run_at_once(path: LocalPath) -> None:
    seen: list[NetworkProgress] = []
    group = _Pairs([path, dataclasses.replace(path, label="the other pair")])
    run = run_iperf3(group, Iperf3Job.of(duration=2, bitrate="20 Mbit/s"), on_progress=seen.append)
    assert run.path == group.label
    assert list(run.pairs) == [each.label for each in group.pairs]
    assert all(each.throughput.mbit == pytest.approx(10, rel=0.1) for each in run.parts)
    assert run.throughput.bytes_per_second == sum(each.throughput.bytes_per_second for each in run.parts)
    assert run.start_skew_s is not None
    assert run.counters == AllowancePair(AllowanceDelta(2, bw_out_exceeded=7), None)
    assert seen
    assert all(progress.throughput is None for progress in seen)


def test_unreadable_counters_do_not_fail_the_run(path: LocalPath) -> None:
    taken: list[_Snapshot] = []

    def read() -> _Snapshot:
        if taken:
            raise OSError("the host has gone")
        taken.append(_Snapshot(0))
        return taken[0]

    path.read_counters = read
    assert run_iperf3(path, Iperf3Job.of(duration=1, bitrate="1 Mbit/s")).counters is None


def test_a_requested_port_is_used(path: LocalPath) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    run = run_iperf3(path, Iperf3Job.of(duration=1, bitrate="1 Mbit/s", port=port))
    assert f"-p {port} " in run.command


def test_a_busy_port_is_refused_before_anything_starts(path: LocalPath, sshd: LocalSshd) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            PortBusy, match=f"port {port} on instance i-0server is in use: another process listens there"
        ):
            run_iperf3(path, Iperf3Job.of(duration=1, port=port))
    assert iperf3s(sshd) == []


def test_a_port_taken_before_listening_is_replaced(
    path: LocalPath, sshd: LocalSshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_cloudbench.workloads.iperf3 import ends

    free_ports = ends.free_ports
    tried: list[Any] = []
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]

        def first_the_busy_port(host: Any, count: int, *, excluded: Any) -> tuple[int, ...]:
            tried.append(set(excluded))
            return (port,) if len(tried) == 1 else free_ports(host, count, excluded=excluded)

        monkeypatch.setattr(ends, "free_ports", first_the_busy_port)
        run = run_iperf3(path, Iperf3Job.of(duration=1, bitrate="1 Mbit/s"))
        assert tried == [set(), {port}]
        assert run.throughput.mbit > 0
        monkeypatch.setattr(ends, "free_ports", lambda host, count, *, excluded: (port,))
        with pytest.raises(PortBusy, match="free port found on instance i-0server was taken before iperf3"):
            run_iperf3(path, Iperf3Job.of(duration=1))
    assert iperf3s(sshd) == []


def test_an_unreachable_server_is_reported_with_the_likely_reason(
    path: LocalPath, sshd: LocalSshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_cloudbench.workloads.iperf3.run.SERVER_ENDS_WITHIN_S", 0.5)
    path.server_address = "255.255.255.255"  # TCP goes to no broadcast address: nothing leaves this machine
    with pytest.raises(Iperf3Refused) as caught:
        run_iperf3(path, Iperf3Job.of(duration=1))
    sentence = str(caught.value)
    assert sentence.startswith(
        "instance i-0client cannot reach iperf3 on instance i-0server at 255.255.255.255 (unable to "
    )
    assert sentence.endswith("check the security groups and firewalls between them")
    assert iperf3s(sshd) == []


def test_a_dropped_connection_starts_nothing_twice_and_keeps_the_result(
    path: LocalPath, sshd: LocalSshd
) -> None:
    seen: set[tuple[int, ...]] = set()

    def drop_while_it_runs() -> None:
        wait_for_iperf3s(sshd, 2)
        for _ in range(3):
            seen.add(tuple(sorted(iperf3s(sshd))))
            sshd.drop_connections()
            time.sleep(0.3)

    dropper = threading.Thread(target=drop_while_it_runs)
    dropper.start()
    run = run_iperf3(path, Iperf3Job.of(duration=3, bitrate="50 Mbit/s"))
    dropper.join()
    assert run.throughput.mbit == pytest.approx(50, rel=0.05)
    assert len(seen) == 1


@pytest.mark.timed
def test_the_recorded_commands_run_by_hand_give_the_same_figure(path: LocalPath, tmp_path: Path) -> None:
    run = run_iperf3(path, Iperf3Job.of(duration=2, streams=2, bitrate="80 Mbit/s"))
    with subprocess.Popen(shlex.split(run.server_commands[0]), stdout=subprocess.DEVNULL) as server:
        deadline = time.monotonic() + 10
        said = subprocess.run(shlex.split(run.command), capture_output=True, check=False)
        while b'"error"' in said.stdout and time.monotonic() < deadline:
            said = subprocess.run(shlex.split(run.command), capture_output=True, check=False)
        server.wait(10)
    bits_s = json.loads(said.stdout)["end"]["sum_received"]["bits_per_second"]
    assert run.throughput.bytes_per_second * 8 == pytest.approx(bits_s, rel=0.02)
