from __future__ import annotations

import dataclasses
import shlex
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from network_paths import LocalPath

from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.workloads.iperf3.errors import BadIperf3Job, Iperf3Refused, Iperf3TooOld
from pytest_cloudbench.workloads.iperf3.job import Iperf3Job
from pytest_cloudbench.workloads.iperf3.load_script import client_command, server_command
from pytest_cloudbench.workloads.iperf3.plan import (
    Processes,
    plan_processes,
    plan_run,
    share_out,
)
from pytest_cloudbench.workloads.iperf3.tool import HostIperf3, check_versions, parse_version
from pytest_cloudbench.workloads.pace import Pace


@dataclass
class _Said:
    stdout: str
    stderr: str = ""
    exit_code: int = 0


class _Host:
    """A host with a given iperf3 version."""

    def __init__(self, version: str, *, label: str = "instance i-0test", cpus: int = 8) -> None:
        self.label = label
        self._said = f"iperf {version} (cJSON 1.7.15)\n{cpus}\n{label}\nreno cubic\n6.1.5\n"

    def ensure_tool(self, name: str) -> str:
        return f"/usr/bin/{name}"

    def run(self, argv: object, **_: object) -> _Said:
        return _Said(self._said)


def _tool(version: str, label: str = "instance i-0test") -> HostIperf3:
    return HostIperf3(_Host(version, label=label))  # type: ignore[arg-type]


def _plan(
    job: Iperf3Job, version: str = "3.12", *, cpus: int = 8, limit_gbit: float | None = None, server: str = ""
) -> Processes:
    limit = None if limit_gbit is None else Bandwidth.from_gbit(limit_gbit)
    return plan_processes(job, min(_tool(version).version, _tool(server or version).version), cpus, limit)


def test_one_process_is_used_if_its_thread_drives_the_rate() -> None:
    plan = _plan(Iperf3Job.of(streams=5), limit_gbit=10)
    assert len(plan) == 1
    assert plan.why == "one thread of iperf3 3.12 drives 10 Gbit/s"
    assert _plan(Iperf3Job.of(streams=5)).why == "the rate to reach is unknown"


def test_several_processes_are_used_if_one_cannot_drive_the_rate() -> None:
    plan = _plan(Iperf3Job.of(streams=5), limit_gbit=25)
    assert [share.streams for share in plan.shares] == [2, 2, 1]
    assert plan.why == "iperf3 3.12 has one thread, which drives about 12 Gbit/s, and 25 Gbit/s may flow"


def test_processors_and_streams_limit_the_processes() -> None:
    plan = _plan(Iperf3Job.of(streams=5), limit_gbit=25, cpus=2)
    assert len(plan) == 2
    assert plan.why.endswith("and 25 Gbit/s may flow; limited by 2 CPUs")
    plan = _plan(Iperf3Job.of(streams=2), limit_gbit=100)
    assert len(plan) == 2
    assert plan.why.endswith("; limited by the number of streams")
    assert len(_plan(Iperf3Job.of(streams=5), limit_gbit=25, cpus=1)) == 1


def test_a_requested_rate_below_the_limit_counts() -> None:
    assert len(_plan(Iperf3Job.of(streams=5, bitrate="8 Gbit/s"), limit_gbit=100)) == 1
    assert len(_plan(Iperf3Job.of(streams=5, bitrate="40 Gbit/s"))) == 4
    assert len(_plan(Iperf3Job.of(streams=5, bitrate="8 Gbit/s", bidirectional=True))) == 2
    assert len(_plan(Iperf3Job.of(streams=5, bitrate="8 Gbit/s", udp=True))) == 4


def test_a_threaded_iperf3_needs_one_process() -> None:
    plan = _plan(Iperf3Job.of(streams=5), "3.16", limit_gbit=100)
    assert len(plan) == 1
    assert plan.why == "iperf3 3.16 has a thread for each stream"
    # The older end decides.
    assert len(_plan(Iperf3Job.of(streams=9), "3.18", server="3.9", limit_gbit=100)) == 8


def test_a_requested_number_of_processes_is_used() -> None:
    plan = _plan(Iperf3Job.of(streams=5, processes=4), "3.18")
    assert [share.streams for share in plan.shares] == [2, 1, 1, 1]
    assert plan.why == "as the test asks"


def test_streams_beyond_one_process_need_more_processes() -> None:
    plan = _plan(Iperf3Job.of(streams=300), "3.18")
    assert [share.streams for share in plan.shares] == [100, 100, 100]
    assert plan.why == "iperf3 runs up to 128 streams per process"


def test_every_process_needs_a_port() -> None:
    with pytest.raises(BadIperf3Job, match="port=65535 leaves no room for 3 processes"):
        _plan(Iperf3Job.of(streams=300, port=65535), "3.18")


@given(
    streams=st.integers(1, 600),
    processes=st.integers(1, 64),
    bits=st.none() | st.floats(1, 4e11),
)
def test_shares_add_up_to_the_job(streams: int, processes: int, bits: float | None) -> None:
    processes = min(processes, streams)
    rate = None if bits is None else Bandwidth(bits / 8)
    try:
        shares = share_out(streams, processes, rate)
    except BadIperf3Job:
        assert bits is not None
        assert bits / streams < 1
        return
    assert len(shares) == processes
    assert sum(share.streams for share in shares) == streams
    assert max(share.streams for share in shares) - min(share.streams for share in shares) <= 1
    if bits is None:
        assert all(share.stream_bits is None for share in shares)
    else:
        # To iperf3 0 is no limit at all.
        assert all(share.stream_bits is not None and share.stream_bits >= 1 for share in shares)
        total = sum(share.streams * (share.stream_bits or 0) for share in shares)
        assert total == pytest.approx(bits, abs=streams * 0.5 + 1e-3)


def test_commands_carry_the_job() -> None:
    job = Iperf3Job.of(
        streams=3,
        bitrate="3 Gbit/s",
        mss=1448,
        window="4m",
        length="128k",
        congestion="cubic",
        dscp="ef",
        no_delay=True,
        zerocopy=True,
        bidirectional=True,
        omit=2,
    )
    host = _Host("3.12")
    path = LocalPath(host, host, server_address="198.18.0.5")  # type: ignore[arg-type]
    plan = plan_run(path, job, Pace.FULL)
    command = client_command(plan, plan.processes.shares[0], 20001)
    assert shlex.join(command) == (
        "/usr/bin/iperf3 -c 198.18.0.5 -p 20001 -t 10 -i 1 -P 3 --json --connect-timeout 10000 -O 2 --bidir -N -Z "
        "-b 1000000000 -M 1448 -w 4194304 -l 131072 -C cubic -S 184"
    )
    assert server_command(plan, 20001) == (
        ("/usr/bin/iperf3", "-s", "-1", "-p", "20001", "-i", "1", "--json")
    )
    udp = Iperf3Job.of(udp=True, bitrate="1 Mbit/s", reverse=True)
    old = _Host("3.1.3")
    path = LocalPath(old, old, server_address="h", time_compression=60.0)  # type: ignore[arg-type]
    plan = plan_run(path, dataclasses.replace(udp, duration=600), Pace.FULL)
    command = client_command(plan, plan.processes.shares[0], 1024)
    assert shlex.join(command) == "/usr/bin/iperf3 -c h -p 1024 -t 10 -i 0.1 -P 1 --json -u -R -b 1000000"


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("iperf 3.12 (cJSON 1.7.15)", (3, 12)),
        ("iperf 3.1.3", (3, 1, 3)),
        ("iperf 3.17.1+ (cJSON 1.7.15)", (3, 17, 1)),
    ],
)
def test_versions_are_parsed(line: str, version: tuple[int, ...]) -> None:
    assert parse_version(line, "h") == version


def test_an_unknown_version_is_refused_with_its_text() -> None:
    with pytest.raises(Iperf3Refused, match=r"iperf3 on h .* 'segfault'"):
        parse_version("segfault", "h")


def test_iperf3_that_cannot_run_is_refused() -> None:
    class Silent(_Host):
        def run(self, argv: object, **_: object) -> _Said:
            return _Said("", "sh: /usr/bin/iperf3: Exec format error", 126)

    with pytest.raises(Iperf3Refused, match=r"version of /usr/bin/iperf3 on .* Exec format error"):
        HostIperf3(Silent("3.12"))  # type: ignore[arg-type]


def test_too_old_a_version_is_refused_with_the_host() -> None:
    both = Iperf3Job.of(bidirectional=True)
    new, old = _tool("3.12"), _tool("3.1.3", "instance i-0old")
    sentence = r"iperf3 3\.1\.3 on instance i-0old is too old: bidirectional=True needs 3\.7 at both ends"
    for client, server in ((new, old), (old, new)):
        with pytest.raises(Iperf3TooOld, match=sentence):
            check_versions(both, client, server)
    assert check_versions(both, new, _tool("3.12")) == ()
    with pytest.raises(Iperf3TooOld, match=r"iperf3 3\.0\.11 on .* is too old: .* at least 3\.1"):
        check_versions(Iperf3Job.of(), _tool("3.0.11"), new)


def test_versions_that_matter_become_conditions() -> None:
    assert check_versions(Iperf3Job.of(), _tool("3.12"), _tool("3.18")) == (
        "iperf3 3.12 on the client, 3.18 on the server",
    )
    udp = Iperf3Job.of(udp=True, bitrate="1 Gbit/s")
    for version in ("3.16", "3.17", "3.17.1"):
        (condition,) = check_versions(udp, _tool(version), _tool(version))
        assert condition.startswith(f"UDP with iperf3 {version}: its senders spin")
        assert check_versions(Iperf3Job.of(), _tool(version), _tool(version)) == ()
    for version in ("3.12", "3.18"):
        assert check_versions(udp, _tool(version), _tool(version)) == ()


def test_a_missing_congestion_control_is_refused_before_the_run() -> None:
    with pytest.raises(
        BadIperf3Job, match="congestion='bbr' is not available on instance i-0test: it has reno, cub"
    ):
        check_versions(Iperf3Job.of(congestion="bbr"), _tool("3.12"), _tool("3.12"))
    assert check_versions(Iperf3Job.of(congestion="cubic"), _tool("3.12"), _tool("3.12")) == ()


def test_a_plan_notes_the_number_of_processes_and_the_reason() -> None:
    path = LocalPath(_Host("3.12"), _Host("3.12"))  # type: ignore[arg-type]
    job = Iperf3Job.of(streams=5, bitrate="20 Gbit/s", duration=1800)
    plan = plan_run(path, job, Pace.QUICK)
    assert plan.conditions == (
        "quick pace: duration 1,800 s -> 40 s",
        "2 iperf3 processes at each end: iperf3 3.12 has one thread, which drives about 12 Gbit/s, and 20 "
        "Gbit/s may flow",
    )
    assert plan.length_s == 40
    assert (plan.client_cpus, plan.server_cpus) == (8, 8)
    path.client_cpus = 1
    assert len(plan_run(path, job, Pace.QUICK).processes) == 1
