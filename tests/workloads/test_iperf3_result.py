"""Results of both ends' outputs together: the generator's load, conditions, failures."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from iperf3_recordings import as_written, document, files
from network_paths import LocalPath

from pytest_cloudbench.workloads.iperf3.errors import (
    Iperf3Interrupted,
    Iperf3OutputError,
    Iperf3Refused,
    Iperf3TimedOut,
)
from pytest_cloudbench.workloads.iperf3.failures import failure_of, stall_of
from pytest_cloudbench.workloads.iperf3.job import Iperf3Job
from pytest_cloudbench.workloads.iperf3.output import CLIENT, SERVER, ProcessFiles
from pytest_cloudbench.workloads.iperf3.plan import Plan, Processes, network_time, share_out
from pytest_cloudbench.workloads.iperf3.result import Gathered, measurement_of, read_end
from pytest_cloudbench.workloads.iperf3.tool import HostIperf3, parse_version
from pytest_cloudbench.workloads.pace import Pace


def _tool(version: str, label: str, machine: str) -> HostIperf3:
    tool = HostIperf3.__new__(HostIperf3)
    tool.label, tool.path, tool.machine = label, "/usr/bin/iperf3", machine
    tool.version_line = f"iperf {version}"
    tool.version = parse_version(tool.version_line, label)
    tool.kernel = "6.1.5"
    return tool


def _plan(version: str = "3.12", *, processes: int = 1, same_machine: bool = False, **fields: Any) -> Plan:
    job = Iperf3Job.of(**({"streams": 2, "duration": 3} | fields))
    return Plan(
        path=LocalPath(None, None),  # type: ignore[arg-type]
        job=job,
        time=network_time(job.duration, job.omit, Pace.FULL, 1.0),
        client=_tool(version, "instance i-0client", "one"),
        server=_tool(version, "instance i-0server", "one" if same_machine else "other"),
        client_cpus=4,
        server_cpus=2,
        processes=Processes(share_out(job.streams, processes, None), "as the test asks"),
        envelope=None,
        conditions=(),
    )


def _gathered(client: list[ProcessFiles], server: list[ProcessFiles], *, reverse: bool = False) -> Gathered:
    return Gathered(
        client=read_end(client, role=CLIENT, reverse=reverse),
        server=read_end(server, role=SERVER, reverse=reverse),
        client_commands=(("iperf3", "-c"),),
        server_commands=(("iperf3", "-s"),),
        raw={},
        counters=None,
        started_at="2026-11-20T12:00:00+00:00",
    )


def _with_cpu(version: str, client_percent: float, server_percent: float) -> Gathered:
    outputs = []
    for role, mine, other in (
        (CLIENT, client_percent, server_percent),
        (SERVER, server_percent, 0.0),
    ):
        changed = document(version, "tcp", role)
        changed["end"]["cpu_utilization_percent"].update(host_total=mine, remote_total=other)
        outputs.append(ProcessFiles(as_written(changed)))
    return _gathered([outputs[0]], [outputs[1]])


def test_a_saturated_single_thread_is_detected() -> None:
    generator = measurement_of(_plan(), _with_cpu("3.12", 40.0, 97.0)).generator
    assert generator is not None
    assert generator.cpu_percent_busiest == 97
    # The server's two processors are the busier ones.
    assert (generator.cpu_percent_total, generator.cpus) == (97, 2)


def test_the_busiest_thread_of_a_threaded_iperf3_counts() -> None:
    generator = measurement_of(_plan("3.22"), _with_cpu("3.22", 190.0, 60.0)).generator
    assert generator is not None
    assert generator.cpu_percent_busiest == pytest.approx(95, rel=0.01)
    assert (generator.cpu_percent_total, generator.cpus) == (190, 4)


def test_hosts_on_one_machine_share_its_processors() -> None:
    generator = measurement_of(_plan(same_machine=True), _with_cpu("3.12", 90.0, 95.0)).generator
    assert generator is not None
    assert (generator.cpu_percent_total, generator.cpus) == (185, 4)


def test_a_server_without_output_has_the_cpu_load_that_the_client_reports() -> None:
    whole = _with_cpu("3.12", 40.0, 55.0)
    alone = dataclasses.replace(whole, server=read_end([ProcessFiles(None)], role=SERVER, reverse=False))
    run = measurement_of(_plan(), alone)
    assert (run.cpu_client_percent, run.cpu_server_percent) == (40, 55)


def test_two_processes_are_summed() -> None:
    one, other = files("3.12", "tcp", CLIENT), files("3.12", "reverse", SERVER)
    assert one != other
    client, server = files("3.12", "tcp", CLIENT), files("3.12", "tcp", SERVER)
    run = measurement_of(_plan(processes=2), _gathered([client, client], [server, server]))
    assert run.throughput.mbit == pytest.approx(800, rel=0.01)
    assert len(run.streams) == 4
    assert [rate.mbit for rate in run.series.throughput] == pytest.approx([800] * 3, rel=0.02)
    single = measurement_of(_plan(), _gathered([client], [server]))
    assert run.cpu_client_percent == pytest.approx(2 * (single.cpu_client_percent or 0))


def test_a_short_run_is_noted() -> None:
    run = measurement_of(
        _plan(duration=10), _gathered([files("3.12", "tcp", CLIENT)], [files("3.12", "tcp", SERVER)])
    )
    assert run.conditions == ("iperf3 measured 3 s of 10 s",)


def test_a_completed_run_is_no_failure() -> None:
    gathered = _gathered([files("3.12", "tcp", CLIENT)], [files("3.12", "tcp", SERVER)])
    assert failure_of(_plan(), gathered, None) is None
    assert stall_of(_plan(), measurement_of(_plan(), gathered)) is None


@pytest.mark.parametrize("version", ["3.1.3", "3.7", "3.9", "3.12", "3.16", "3.22"])
def test_a_killed_server_is_named_for_every_version(version: str) -> None:
    gathered = _gathered([files(version, "server-killed", CLIENT)], [files(version, "server-killed", SERVER)])
    failure = failure_of(_plan(version, duration=20), gathered, None)
    assert isinstance(failure, Iperf3Interrupted)
    assert str(failure).startswith("the server's iperf3 on instance i-0server ended during the run ")
    assert "killed by signal 9; 3 s of 20 s were measured" in str(failure)


@pytest.mark.parametrize("version", ["3.1.3", "3.7", "3.9", "3.12", "3.16", "3.22"])
def test_an_unreachable_server_is_named_for_every_version(version: str) -> None:
    gathered = _gathered([files(version, "refused", CLIENT)], [ProcessFiles(None, "", None)])
    failure = failure_of(_plan(version), gathered, None)
    assert isinstance(failure, Iperf3Refused)
    assert "iperf3 on instance i-0server at 127.0.0.1 (unable to " in str(failure)
    assert str(failure).startswith("instance i-0client cannot reach ")


def test_an_error_about_unreadable_output_names_the_host() -> None:
    broken = ProcessFiles(b'{"start": {')
    failure = failure_of(_plan(), _gathered([broken], [files("3.12", "tcp", SERVER)]), None)
    assert isinstance(failure, Iperf3Interrupted)
    assert "iperf3 on instance i-0client ended early: iperf3's JSON is damaged or cut off" in str(failure)
    failure = failure_of(_plan(), _gathered([broken], [ProcessFiles(None)]), None)
    assert isinstance(failure, Iperf3OutputError)


def test_a_timeout_is_an_interruption_if_anything_was_measured() -> None:
    nothing = _gathered([ProcessFiles(None)], [ProcessFiles(None)])
    failure = failure_of(_plan(), nothing, TimeoutError("x"))
    assert isinstance(failure, Iperf3TimedOut)
    something = _gathered([files("3.12", "client-interrupted", CLIENT)], [ProcessFiles(None)])
    failure = failure_of(_plan(duration=20), something, TimeoutError("x"))
    assert isinstance(failure, Iperf3Interrupted)
    assert failure.measurement.throughput.mbit == pytest.approx(20, rel=0.1)


def test_a_lost_host_keeps_the_other_ends_output() -> None:
    lost = _gathered([ProcessFiles(None, "", None)], [files("3.12", "client-killed", SERVER)])
    failure = failure_of(_plan(duration=20), lost, OSError("instance i-0client is out of reach."))
    assert isinstance(failure, Iperf3Interrupted)
    assert str(failure).startswith("instance i-0client is out of reach; 3 s of 20 s were measured")


def test_the_stalled_direction_is_named() -> None:
    gathered = _gathered([files("3.12", "bidir", CLIENT)], [files("3.12", "bidir", SERVER)])
    run = measurement_of(_plan(bidirectional=True), gathered)
    assert stall_of(_plan(bidirectional=True), run) is None
    still = dataclasses.replace(
        run.directions[1].series, throughput=tuple(rate * 0 for rate in run.series.throughput)
    )
    backward = dataclasses.replace(run.directions[1], series=still)
    stalled = stall_of(
        _plan(bidirectional=True), dataclasses.replace(run, directions=(run.directions[0], backward))
    )
    assert stalled is not None
    assert str(stalled).startswith(
        "no data flowed on client -> server, server to client, from 0.0 s to 3.0 s of the test: the network "
    )
