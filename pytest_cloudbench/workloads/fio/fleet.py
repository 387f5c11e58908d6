"""One fio job on several hosts at once, by fio's own client and servers (`fio --server`, `fio --client`).

Each host runs a server during the job, and the first host runs the client, which starts all of them together
and collects their results and logs. What fio 3.33 really does:

- A job that a host refuses is only a line of text: the client ends with 0, and the host is missing in its JSON.
- With per_job_logs=0 the logs of a host's jobs overwrite each other on the client. So every job has a log of its own.
- Servers put the client's address before the names of a job's files, unless unique_filename=0.
- The client shows no progress together with JSON.
- The logs have absolute times on request (log_unix_epoch). Their first sample says when a host started.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import random
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise
from typing import Any

from pytest_cloudbench.hosts.host import Host, Job
from pytest_cloudbench.limits.fleet import fleet_envelope
from pytest_cloudbench.limits.quantities import Iops, Throughput
from pytest_cloudbench.verdicts.counters import ThrottleDelta
from pytest_cloudbench.verdicts.observation import GeneratorLoad, MachineDelay
from pytest_cloudbench.workloads.fio.errors import FioError, FioRefused, FioTimedOut
from pytest_cloudbench.workloads.fio.fleet_logs import HOST_LOGS, first_start_s, joined_logs, since
from pytest_cloudbench.workloads.fio.histogram_logs import HISTOGRAM_LOG, with_percentiles
from pytest_cloudbench.workloads.fio.job import RESULT_FILE, FioJob
from pytest_cloudbench.workloads.fio.options import fio_words
from pytest_cloudbench.workloads.fio.output import FioResult, explained, parse_client_output
from pytest_cloudbench.workloads.fio.run import (
    LARGEST_KEPT,
    SLOWEST_LAYOUT,
    SPARE_S,
    Ready,
    measurement_of,
    prepare,
)
from pytest_cloudbench.workloads.fio.series_logs import LOGS, series_from_logs, with_series_means
from pytest_cloudbench.workloads.fio.space import envelope_of
from pytest_cloudbench.workloads.measurement import Measurement
from pytest_cloudbench.workloads.pace import Pace
from pytest_cloudbench.workloads.ports import FIRST_PORT, LAST_PORT, choose_ports, read_sockets
from pytest_cloudbench.workloads.target import FleetTarget, Gained, gained_by_load
from pytest_cloudbench.workloads.tool_run import cleaned_up, started_apart, text_of

_LISTENS_WITHIN_S = 15
_SERVER_ENDS_S = 0.2
_OF_A_LOCAL_RUN = ("output", "output-format", "eta", "eta-newline", "per_job_logs")

_LISTENS = """\
left=$3
while :; do
    [ -f "$1/exit_code" ] && exit 2
    grep -q "^ *[0-9]*: [0-9A-F]*:$2 [0-9A-F:]* 0A " /proc/net/tcp && exit 0
    [ "$left" -gt 0 ] || exit 1
    left=$((left - 1))
    sleep 0.1
done
"""


@dataclass(frozen=True)
class FleetProgress:
    """The progress of a running fleet by the clock: fio's client shows none together with JSON."""

    percent: float
    eta_s: float

    def __str__(self) -> str:
        return f"{self.percent:.0f} %, {self.eta_s:.0f} s left"


def run_on_fleet(
    fleet: FleetTarget,
    job: FioJob,
    *,
    pace: Pace = Pace.FULL,
    on_progress: Callable[[Any], None] | None = None,
) -> Measurement:
    """Run `job` on every host of a fleet at once, and return what all of them measured together.

    Raises as `run_fio` does; FioRefused names the host. In every case, also on Ctrl-C, no server is left running.
    """
    ready = _prepared(fleet, job, pace)
    _lay_out(ready)
    ran = _run(fleet, ready, on_progress)
    labels = [each.target.host.label for each in ready]
    with contextlib.ExitStack() as stack:
        for each in ready:
            stack.enter_context(explained(each.target, ran.files.get(RESULT_FILE)))
        whole, results = parse_client_output(
            ran.files.get(RESULT_FILE), exit_code=ran.exit_code, stderr=text_of(ran.files, "stderr")
        )
        check_all_ran(dict(zip(fleet.addresses, labels, strict=True)), results, ran.files[RESULT_FILE])
    logs = [joined_logs(ran.files, address) for address in fleet.addresses]
    starts_s = [first_start_s(its, each.job.sample_s) for its, each in zip(logs, ready, strict=True)]
    relative = [
        its if start_s is None else since(its, start_s) for its, start_s in zip(logs, starts_s, strict=True)
    ]
    parts = tuple(
        dataclasses.replace(
            measurement_of(
                each,
                results[address],
                files=files,
                counters=counters,
                started_at=ran.started_at,
                envelope=envelope_of(each.target, each.job),
            ),
            raw={},
        )
        for each, address, files, counters in zip(ready, fleet.addresses, relative, ran.gained, strict=True)
    )
    known = [start_s for start_s in starts_s if start_s is not None]
    kept = {
        f"{name}.{address}": content
        for address, its in zip(fleet.addresses, logs, strict=True)
        for name, content in its.items()
        if len(content) <= LARGEST_KEPT
    }
    return _together(
        ready,
        parts,
        whole,
        {name: b"".join(its.get(name, b"") for its in relative) for name in (*LOGS, HISTOGRAM_LOG)},
        skew_s=max(known) - min(known) if len(known) == len(ready) else None,
        host=fleet.hosts_label,
        target=fleet.label,
        command=shlex.join(ran.argv),
        asked=dataclasses.replace(ready[0].job, rate_iops=job.rate_iops, rate=job.rate).asked(),
        rate_asked=job.rate_iops or job.rate,
        raw={RESULT_FILE: ran.files[RESULT_FILE], **ran.job_files, **kept},
    )


def shares(job: FioJob, devices: Sequence[int]) -> list[FioJob]:
    """Return each host's job: its rates are shares of the total in proportion to its number of devices."""

    def split(total: float) -> list[int]:
        marks = [round(total * sum(devices[:index]) / sum(devices)) for index in range(len(devices) + 1)]
        return [after - before for before, after in pairwise(marks)]

    found = [job] * len(devices)
    if (iops := job.rate_iops) is not None:
        rates = split(iops.per_second)
        found = [dataclasses.replace(one, rate_iops=Iops(n)) for one, n in zip(found, rates, strict=True)]
    if (rate := job.rate) is not None:
        rates = split(rate.bytes_per_second)
        found = [dataclasses.replace(one, rate=Throughput(n)) for one, n in zip(found, rates, strict=True)]
    return found


def job_file(argv: Sequence[str]) -> bytes:
    """Convert the command line of a local fio into the job file of one of several hosts."""
    lines = ["[global]", "per_job_logs=1", "log_unix_epoch=1", "unique_filename=0"]
    for word in argv[1:]:
        name, _, value = word.removeprefix("--").partition("=")
        if name not in _OF_A_LOCAL_RUN:
            lines.append(f"[{value}]" if name == "name" else f"{name}={value}")
    return "\n".join([*lines, ""]).encode()


@dataclass(frozen=True)
class _Ran:
    """A client that has ended: its command, its files, and the increase of each host's counters."""

    argv: list[str]
    job_files: dict[str, bytes]
    exit_code: int
    files: dict[str, bytes]
    gained: list[Gained]
    started_at: str


def _run(fleet: FleetTarget, ready: Sequence[Ready], on_progress: Callable[[Any], None] | None) -> _Ran:
    """Run the servers and the client until the client ends."""
    length_s = ready[0].job.runtime + ready[0].job.ramp_time
    with contextlib.ExitStack() as stack:
        ports = [
            stack.enter_context(_server(each, address, length_s * 1.2 + 2 * SPARE_S))
            for each, address in zip(ready, fleet.addresses, strict=True)
        ]
        job_files = {f"host-{number}.fio": job_file(each.argv) for number, each in enumerate(ready, 1)}
        argv = _client_argv(ready[0], zip(fleet.addresses, ports, job_files, strict=True))
        before = [each.target.counters() for each in ready]
        started_at = datetime.now(timezone.utc).isoformat(timespec="seconds")
        client = ready[0].target.host.start_job(argv, files=job_files, name="fio-client")
        with cleaned_up(client):
            exit_code = _watch(client, length_s, on_progress)
            gained = [
                gained_by_load(each.target, then, length_s) for each, then in zip(ready, before, strict=True)
            ]
            files = client.fetch([RESULT_FILE, "stderr", *HOST_LOGS])
    return _Ran(argv, job_files, exit_code, files, gained, started_at)


def check_all_ran(labels: Mapping[str, str], results: Mapping[str, FioResult], output: bytes) -> None:
    """Raise FioRefused with fio's words unless each host, by its address, has a result."""
    for address, label in labels.items():
        if address not in results:
            text = output.decode("utf-8", "replace").partition("\n{")[0]
            raise FioRefused(f"fio ran no job on {label}: {fio_words(_errors_in(text))}")


def _prepared(fleet: FleetTarget, job: FioJob, pace: Pace) -> list[Ready]:
    devices = [len(part.paths) if part.kind == "block" else 1 for part in fleet.parts]
    ready = [
        prepare(part, share, pace, sharing=len(fleet.parts))
        for part, share in zip(fleet.parts, shares(job, devices), strict=True)
    ]
    versions = {each.fio.version: each.target.host.label for each in ready}
    if len(versions) > 1:
        listed = ", ".join(f"{version} on {host}" for version, host in versions.items())
        raise FioRefused(f"fio's client and servers must be of one version, and there are {listed}")
    return ready


def _lay_out(ready: Sequence[Ready]) -> None:
    """Write the files of all hosts first: otherwise each host would start its load as soon as its own exist."""
    with contextlib.ExitStack() as stack:
        running = []
        for each in ready:
            if each.target.kind != "directory" or each.job.size is None:
                continue
            job = each.target.host.start_job(
                [each.argv[0], "--create_only=1", *each.argv[1:]], sudo=each.as_root, name="fio-files"
            )
            stack.enter_context(cleaned_up(job))
            running.append((job, each.job.size.bytes * each.job.numjobs / SLOWEST_LAYOUT + SPARE_S))
        for job, limit_s in running:
            try:
                state = job.wait(limit_s)
            except TimeoutError as error:
                raise FioTimedOut(
                    f"fio did not lay out its files on {job.host_label} in {limit_s:.0f} s"
                ) from error
            if state.exit_code != 0:
                said = text_of(job.fetch(["stderr"]), "stderr")
                raise FioRefused(f"fio could not lay out its files on {job.host_label}: {fio_words(said)}")


def bounded(argv: Sequence[str], limit_s: float) -> list[str]:
    """Return the command that runs a fio server and ends it, with its children, at SIGINT or after ``limit_s``.

    The server itself ignores SIGINT. The inner timeout leads a process group of its own and kills all of it. The outer
    one, in the job's group, only passes the job's SIGINT on.
    """
    inner = ["timeout", f"--kill-after={_SERVER_ENDS_S}", f"{limit_s:.0f}"]
    return ["timeout", "--foreground", "0", *inner, *argv]


@contextlib.contextmanager
def _server(ready: Ready, address: str, limit_s: float) -> Iterator[int]:
    """Run a server on the host for the block, and yield its port. It ends itself after `limit_s` in any case."""
    host = ready.target.host
    used, _ = read_sockets(host)
    # A random start keeps two simultaneous runs from choosing the same port.
    start = random.randint(FIRST_PORT, LAST_PORT)  # noqa: S311 - no secret
    (port,) = choose_ports(used, 1, start=start)
    argv = [ready.fio.path, f"--server=ip:{address},{port}"]
    server = host.start_job(bounded(argv, limit_s), sudo=ready.as_root, name="fio-server")
    with cleaned_up(server):
        _wait_until_listening(host, server, port)
        yield port
        server.kill()


def _wait_until_listening(host: Host, server: Job, port: int) -> None:
    words = ["sh", "-c", _LISTENS, "sh", server.directory, f"{port:04X}", str(_LISTENS_WITHIN_S * 10)]
    ended = host.run(words, check=False, timeout_s=_LISTENS_WITHIN_S + 30.0, idempotent=True)
    if ended.exit_code == 0:
        return
    said = server.fetch(["stdout", "stderr"])
    text = fio_words("\n".join(each.decode("utf-8", "replace") for each in said.values()))
    raise FioError(f"fio --server on {host.label} does not listen on port {port}: {text}")


def _client_argv(first: Ready, servers: Iterator[tuple[str, int, str]]) -> list[str]:
    argv = [first.fio.path, f"--output={RESULT_FILE}", "--output-format=json+"]
    for address, port, job_file_name in servers:
        argv += [f"--client=ip:{address},{port}", job_file_name]
    return argv


def _watch(client: Job, length_s: float, on_progress: Callable[[Any], None] | None) -> int:
    began, limit_s = time.monotonic(), length_s * 1.2 + SPARE_S
    while True:
        passed_s = time.monotonic() - began
        try:
            return client.wait(1.0).exit_code or 0
        except TimeoutError as error:
            if passed_s > limit_s:
                raise FioTimedOut(
                    f"fio --client on {client.host_label} was still running after {limit_s:.0f} s, with a run time of "
                    f"{length_s:g} s, and was ended"
                ) from error
        if on_progress is not None:
            left_s = max(0.0, length_s - passed_s)
            on_progress(FleetProgress(100 * min(1.0, passed_s / length_s), math.ceil(left_s)))


def _errors_in(text: str) -> str:
    """Return the error lines of a client's text, without the host name that begins each."""
    lines = (line.partition("> ")[2] or line for line in text.splitlines())
    return "\n".join(line for line in lines if re.search(r"fio:|[Bb]ad|fail|error", line))


def _together(
    ready: Sequence[Ready],
    parts: tuple[Measurement, ...],
    whole: FioResult,
    logs: dict[str, bytes],
    *,
    skew_s: float | None,
    **more: Any,
) -> Measurement:
    """Return the measurement of all hosts: their sums, and the latency of all their I/Os."""
    first, job = parts[0], ready[0].job
    series = series_from_logs(
        logs, runtime_s=whole.runtime_s, sample_s=job.sample_s, compression=first.time_compression
    )
    whole = with_series_means(whole, series, sample_s=job.sample_s)
    series = with_percentiles(
        series,
        logs[HISTOGRAM_LOG],
        sample_s=job.sample_s,
        samples=job.histogram_samples(ready[0].devices),
        submission_share=whole.submission_share,
    )
    envelopes = [part.envelope for part in parts if part.envelope is not None]
    counters = [part.counters for part in parts if part.counters is not None]
    delays = [part.machine_delay for part in parts if part.machine_delay is not None]
    shared = any(each.machine for each in envelopes)
    loads = [("" if shared else part.host, part.generator) for part in parts if part.generator is not None]
    everywhere = len(parts)
    return dataclasses.replace(
        first,
        iops=whole.iops,
        throughput_mib=whole.throughput_mib,
        read=whole.read,
        write=whole.write,
        latency=whole.latency,
        series=series,
        outstanding_asked=sum(part.outstanding_asked for part in parts),
        runtime_s=whole.runtime_s * first.time_compression,
        envelope=fleet_envelope(envelopes) if len(envelopes) == everywhere else None,
        counters=ThrottleDelta.of_hosts(counters) if len(counters) == everywhere else None,
        machine_delay=MachineDelay.of_hosts(delays) if delays else None,
        generator=GeneratorLoad.of_hosts(loads),
        kernel=", ".join(dict.fromkeys(part.kernel for part in parts)),
        reads_nothing=next((part.reads_nothing for part in parts if part.reads_nothing), ""),
        conditions=(
            *dict.fromkeys(each for part in parts for each in part.conditions),
            *started_apart("hosts", skew_s),
        ),
        parts=parts,
        start_skew_s=skew_s,
        **more,
    )
