"""Parser of fio's JSON output, with its traps: text before the JSON, errors inside it, histograms to merge."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from pytest_cloudbench.workloads.errors import StorageLost, WorkloadFailed
from pytest_cloudbench.workloads.fio.errors import FioOutputError, FioRefused
from pytest_cloudbench.workloads.fio.options import fio_words
from pytest_cloudbench.workloads.measurement import Direction, Latency
from pytest_cloudbench.workloads.space import shortage
from pytest_cloudbench.workloads.target import Target

LOST_STORAGE = (errno.EIO, errno.ENXIO, errno.ENODEV, errno.ENOMEDIUM)
"""The kernel's error numbers for I/O on a device that failed or is gone."""
_NO_DEVICE = re.compile(
    r"you need to specify size=|file creation disallowed by allow_file_create=0|zero sized block device"
    r"|open\(/dev/\S+\), error=No such|failed with No such file"
)
"""fio's messages at its start if a raw device does not exist or has lost its disk (filesetup.c)."""
PERCENTS = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
"""The percentiles of a `Latency`, by name."""

_SUM_OF_CLIENTS = "All clients"
_MIB = 2.0**20
_NS = 1e-9
_JSON_START = re.compile(r"^\{", re.MULTILINE)


@dataclass(frozen=True)
class FioResult:
    """fio's report on a whole run: all jobs together, means over its run time.

    `cpu_percent` is in per cent of one core, the mean over the jobs. `submission_share` is the share of submission to
    the kernel in the mean latency; the rest is completion.
    """

    version: str
    read: Direction | None
    write: Direction | None
    latency: Latency | None
    runtime_s: float
    cpu_percent: float
    submission_share: float = 0.0

    @property
    def iops(self) -> float:
        """Reads and writes together."""
        return sum(each.iops for each in (self.read, self.write) if each is not None)

    @property
    def throughput_mib(self) -> float:
        """Reads and writes together, in MiB/s."""
        return sum(each.throughput_mib for each in (self.read, self.write) if each is not None)


_DISAGREES = 0.05
"""Rates that differ from the counted amounts by more than this share are wrong; in real runs they agree to 1 %."""
_LONG_ENOUGH_S = 0.1


def parse_output(output: bytes | None, *, exit_code: int = 0, stderr: str = "") -> FioResult:
    """Parse the file that fio wrote with --output-format=json or json+.

    Raises FioRefused with fio's own words if fio reports an error or ended with one, FioOutputError if there is no
    readable JSON or no I/O in it.
    """
    whole, _ = _parsed(output, "jobs", exit_code=exit_code, stderr=stderr)
    return whole


def parse_client_output(
    output: bytes | None, *, exit_code: int = 0, stderr: str = ""
) -> tuple[FioResult, dict[str, FioResult]]:
    """Parse the file that `fio --client` wrote: all hosts together, and each by the address given to the client.

    Raises as `parse_output` does.
    """
    return _parsed(output, "client_stats", exit_code=exit_code, stderr=stderr)


def _parsed(
    output: bytes | None, listed: str, *, exit_code: int, stderr: str
) -> tuple[FioResult, dict[str, FioResult]]:
    """Return the result of all jobs under the key `listed`, and those of each host that the jobs name."""
    text = (output or b"").decode("utf-8", "replace")
    notes, document = _split(text, exit_code=exit_code, stderr=stderr)
    said = f"{notes}\n{stderr}"
    jobs = document.get(listed)
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise FioOutputError(f"fio's JSON has no list of {listed}: its keys are {', '.join(document)}")
    # fio's client may add this sum of all hosts.
    jobs = [job for job in jobs if job.get("jobname") != _SUM_OF_CLIENTS]
    by_host: dict[str, list[Mapping[str, Any]]] = {}
    try:
        for job in jobs:
            host = str(job.get("hostname", ""))
            by_host.setdefault(host, []).append(job)
            check_job(job, where=f" on {host}" if host else "", said=said)
        if exit_code != 0:
            raise FioRefused(f"fio ended with exit code {exit_code}: {fio_words(said)}")
        if not jobs:
            raise FioOutputError("fio's JSON lists no job")
        whole = _result(document, jobs, said=said)
        return whole, {host: _result(document, its, said=said) for host, its in by_host.items() if host}
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise FioOutputError(f"fio's JSON has an invalid value: {error}") from None


def lost_at(second: float, why: str, where: str = "") -> str:
    """Return the sentence about storage that was lost ``second`` seconds after the load began."""
    return (
        f"the volume was lost at second {second:.0f}{where}: fio's I/O failed with {why}; there is no figure"
    )


@contextlib.contextmanager
def explained(target: Target, output: bytes | None = None) -> Iterator[None]:
    """Raise StorageLost in place of FioRefused if a device has vanished since it was checked.

    If the machine ran out of space, append that to fio's message about refused data. ``output``: fio's whole output,
    if its error has only the last lines.
    """
    try:
        yield
    except WorkloadFailed as error:
        said = f"{error}\n{(output or b'').decode('utf-8', 'replace')}"
        if isinstance(error, FioRefused) and target.kind == "block" and _NO_DEVICE.search(said):
            raise StorageLost.before_load(str(error)) from error
        if why := shortage(target, str(error)):
            error.args = (f"{error}; {why}",)
        raise


def check_job(job: Mapping[str, Any], *, where: str = "", said: str | None = None) -> None:
    """Raise StorageLost or FioRefused if a job of fio's JSON has an error; ``said`` is fio's other text."""
    # A job that continues after errors counts them in total_err; its figures are not valid either.
    number = int(amount(job, "error")) or (amount(job, "total_err") > 0 and int(amount(job, "first_error")))
    if not number:
        return
    why = f"{os.strerror(number)} (errno {number})"
    if number in LOST_STORAGE:
        ran_s = max(amount(job.get(way), "runtime") for way in ("read", "write")) / 1000.0
        raise StorageLost(lost_at(ran_s, why, where))
    words = "" if said is None else f": {fio_words(said)}"
    raise FioRefused(f"fio's job {job.get('jobname', '?')!r}{where} failed with {why}{words}")


def _result(document: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]], *, said: str) -> FioResult:
    read, read_stats = _direction(jobs, "read")
    write, write_stats = _direction(jobs, "write")
    if read is None and write is None:
        raise FioOutputError(f"fio did no I/O: {fio_words(said)}")
    return FioResult(
        version=str(document.get("fio version", "fio of unknown version")),
        read=read,
        write=write,
        latency=_latency([*read_stats, *write_stats]),
        runtime_s=max(amount(job.get(way), "runtime") for job in jobs for way in ("read", "write")) / 1000.0,
        cpu_percent=sum(amount(job, name) for job in jobs for name in ("usr_cpu", "sys_cpu")) / len(jobs),
        submission_share=_submission_share(jobs),
    )


def _split(text: str, *, exit_code: int, stderr: str) -> tuple[str, dict[str, Any]]:
    found = _JSON_START.search(text)
    if found is None:
        said = f"{text}\n{stderr}".strip()
        if exit_code != 0 or said:
            raise FioRefused(f"fio ended with exit code {exit_code} and no result: {fio_words(said)}")
        raise FioOutputError("fio left no output at all")
    notes = text[: found.start()]
    try:
        document, _ = json.JSONDecoder().raw_decode(text, found.start())
    except (ValueError, RecursionError) as error:
        if exit_code != 0:
            said = fio_words(f"{notes}\n{stderr}")
            raise FioRefused(f"fio ended with exit code {exit_code}: {said}") from None
        raise FioOutputError(
            f"fio's JSON is damaged or cut off after {len(text):,} characters: {error}"
        ) from None
    return notes, document


def _direction(
    jobs: Sequence[Mapping[str, Any]], way: str
) -> tuple[Direction | None, list[Mapping[str, Any]]]:
    """Return a direction summed over jobs, and its latency statistics; None if it had no I/O."""
    parts = [part for job in jobs if isinstance(part := job.get(way), dict) and amount(part, "total_ios") > 0]
    if not parts:
        return None, []
    for part in parts:
        _check_agreement(part)
    stats = [_latency_stats(part) for part in parts]
    bytes_per_s = sum(_bytes_per_second(part) for part in parts)
    direction = Direction(
        iops=sum(amount(part, "iops") for part in parts),
        throughput_mib=bytes_per_s / _MIB,
        ios=sum(int(amount(part, "total_ios")) for part in parts),
        bytes=sum(int(amount(part, "io_bytes")) for part in parts),
        latency=_latency(stats),
    )
    return direction, stats


def _check_agreement(part: Mapping[str, Any]) -> None:
    """Raise ValueError if the rates of a job contradict its I/Os, bytes and time, or its latencies each other.

    fio divides by the milliseconds of the run. Values that occur only once (a percentile, CPU) cannot be checked.
    """
    runtime_s = amount(part, "runtime") / 1000.0
    for rate, total in (("iops", "total_ios"), ("bw_bytes", "io_bytes")):
        if rate not in part or total not in part or runtime_s < _LONG_ENOUGH_S:
            continue
        counted, expected = amount(part, total), amount(part, rate) * runtime_s
        if abs(counted - expected) > _DISAGREES * max(counted, expected) + 2 * amount(part, rate) / 1000.0:
            raise ValueError(f"{rate} is {part[rate]!r}, but {total} is {part[total]!r} in {runtime_s:g} s")
    stats = _latency_stats(part)
    if stats and not amount(stats, "min") <= amount(stats, "mean") * 1.001 <= amount(stats, "max") * 1.002:
        raise ValueError(
            f"the mean latency {stats.get('mean')!r} is not between {stats.get('min')!r} and {stats.get('max')!r} ns"
        )
    for each in (stats, part.get("clat_ns")):
        percentiles = each.get("percentile") if isinstance(each, dict) else None
        if isinstance(percentiles, dict):
            values = [amount(percentiles, key) for key in sorted(percentiles, key=float)]
            if values != sorted(values):
                raise ValueError("its percentiles of the latency do not ascend")


def _bytes_per_second(part: Mapping[str, Any]) -> float:
    """Return bw_bytes, which is in B/s. Versions of fio without it have only "bw", in KiB/s."""
    return amount(part, "bw_bytes") if "bw_bytes" in part else amount(part, "bw") * 1024.0


def _latency_stats(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the total latency, with submission, or the completion latency if fio timed only that."""
    for key in ("lat_ns", "clat_ns"):
        stats = part.get(key)
        if isinstance(stats, dict) and amount(stats, "N") > 0:
            return stats
    return {}


def _latency(stats: Sequence[Mapping[str, Any]]) -> Latency | None:
    counted = [(each, amount(each, "N")) for each in stats if amount(each, "N") > 0]
    total = sum(count for _, count in counted)
    if not total:
        return None
    percentile_ns = _percentiles_ns([each for each, _ in counted])
    return Latency(
        mean_s=sum(amount(each, "mean") * count for each, count in counted) / total * _NS,
        min_s=min(amount(each, "min") for each, _ in counted) * _NS,
        max_s=max(amount(each, "max") for each, _ in counted) * _NS,
        **{f"{name}_s": _seconds(percentile_ns, percent) for name, percent in PERCENTS.items()},
    )


def _submission_share(jobs: Sequence[Mapping[str, Any]]) -> float:
    submitted, whole = (
        sum(
            amount(stats := (job.get(way) or {}).get(key), "mean") * amount(stats, "N")
            for job in jobs
            for way in ("read", "write")
        )
        for key in ("slat_ns", "lat_ns")
    )
    return submitted / whole if whole else 0.0


def _percentiles_ns(stats: Sequence[Mapping[str, Any]]) -> dict[float, float]:
    """Return fio's own percentiles if there is one set of them, else those of the merged histograms."""
    if len(stats) == 1:
        percentiles = stats[0].get("percentile") or {}
        return {float(key): amount(percentiles, key) for key in percentiles}
    merged: Counter[int] = Counter()
    for each in stats:
        bins = each.get("bins")
        if not bins:
            return {}
        merged.update({int(value_ns): int(amount(bins, value_ns)) for value_ns in bins})
    return {percent: percentile_of_bins(merged, percent) for percent in PERCENTS.values()}


def percentile_of_bins(bins: Mapping[int, float], percent: float) -> float:
    """Return the value of the first bin at which `percent` of all counts are reached, as fio does."""
    values = sorted(bins)
    reached = list(accumulate(bins[value] for value in values))
    return float(values[bisect_left(reached, reached[-1] * percent / 100.0)])


def _seconds(percentile_ns: Mapping[float, float], percent: float) -> float | None:
    for known, value_ns in percentile_ns.items():
        if abs(known - percent) < 1e-6:
            return value_ns * _NS
    return None


def amount(values: Any, key: str) -> float:
    """Return an amount from fio's JSON; 0 if it is missing. Raises ValueError unless it is finite and at least 0."""
    value = values.get(key) if isinstance(values, dict) else None
    if value is None:
        return 0.0
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{key} is {value!r}")
    return float(value)
