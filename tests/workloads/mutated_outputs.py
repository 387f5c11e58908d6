"""What tools really printed, changed at random: parsers must return figures or the documented error, nothing else.

``python tests/workloads/mutated_outputs.py [COUNT] [SEED]`` tries so many for each parser, and prints a line for each:
tried, refused, accepted with other figures, crashed.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import sys
import tarfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pytest_cloudbench.hosts.content import read_signature
from pytest_cloudbench.hosts.device_facts import inspect_devices
from pytest_cloudbench.hosts.errors import HostError
from pytest_cloudbench.hosts.network_counters import parse_statistics
from pytest_cloudbench.hosts.throttle_counters import EBS_MAGIC, DeviceCounters
from pytest_cloudbench.workloads.fio import output as fio_output
from pytest_cloudbench.workloads.fio.errors import FioError
from pytest_cloudbench.workloads.fio.fleet_logs import first_start_s, joined_logs, since
from pytest_cloudbench.workloads.fio.histogram_logs import HISTOGRAM_LOG, with_percentiles
from pytest_cloudbench.workloads.fio.output import PERCENTS
from pytest_cloudbench.workloads.fio.progress import parse_progress
from pytest_cloudbench.workloads.fio.series_logs import IOPS_LOG, LOGS, read_jobs, series_from_logs
from pytest_cloudbench.workloads.iperf3 import output as iperf3_output
from pytest_cloudbench.workloads.iperf3.errors import Iperf3Error
from pytest_cloudbench.workloads.ports import parse_sockets
from pytest_cloudbench.workloads.sweep.status import StatusReader

HERE = Path(__file__).parent
PIECES = (
    b"", b"0", b"-1", b"9", b"e9", b"1e999", b"NaN", b"null", b"true", b'""', b"{}", b"[]", b"[1, 2]", b",", b"\n",
    b":", b"\xff", b"[" * 3000, b"9" * 400, b"-", b".", b'"', b" ", b"=",
)  # fmt: skip


@dataclass(frozen=True)
class Parser:
    """A parser with real outputs and the errors that it documents."""

    name: str
    parse: Callable[[bytes], Any]
    errors: tuple[type[BaseException], ...]
    outputs: tuple[bytes, ...]


def kept(ending: str) -> tuple[bytes, ...]:
    """Return the files of kept evidence whose names end so."""
    found = []
    with tarfile.open(HERE.parent / "evidence" / "kept" / "0.1.tar.xz") as archive:
        for member in archive:
            if member.name.endswith(ending) and (stream := archive.extractfile(member)) is not None:
                found.append(gzip.decompress(stream.read()))
    return tuple(found)


def files(*patterns: str) -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for pattern in patterns for path in sorted(HERE.glob(pattern)))


def answering(output: bytes) -> Any:
    """Return a host that answers every command with this output."""
    text = output.decode("utf-8", "replace")
    result = SimpleNamespace(stdout=text, stderr="", exit_code=0, stdout_bytes=output)
    return SimpleNamespace(label="h", run=lambda *args, **more: result)


def iperf3(output: bytes) -> Any:
    return iperf3_output.parse_output(
        iperf3_output.ProcessFiles(output, "", 0), role=iperf3_output.CLIENT, reverse=False
    )


def iperf3_clients() -> tuple[bytes, ...]:
    """Return what clients of each version printed of runs over TCP, both ways, and UDP."""
    runs = [json.loads(each) for each in files("iperf3_outputs/*.json")]
    return tuple(
        json.dumps(run[name]["client"]["output"]).encode()
        for run in runs
        for name in ("tcp", "udp")
        if name in run
    )


def status(output: bytes) -> Any:
    return StatusReader(4096).feed(output.decode("utf-8", "replace"))


class LeftOut(Exception):
    """A histogram log is damaged, so its samples have no percentiles."""


def histograms(name: str, measured: str) -> Parser:
    """Return the parser of histogram logs, beside the undamaged other logs of a measurement in kept evidence."""
    logs = {log: kept(f"{measured}/{log}.gz")[0] for log in (*LOGS, HISTOGRAM_LOG)}
    series = series_from_logs(logs, runtime_s=6.0)

    def percentiles(log: bytes) -> Any:
        read = with_percentiles(series, log, sample_s=1.0, samples=1, submission_share=0.0)
        if read is series:
            raise LeftOut
        for sample in zip(*(read.percentiles_s[each] for each in PERCENTS), strict=True):
            assert sample == (None,) * 4 or 0 < sample[0] <= sample[1] <= sample[2] <= sample[3] < math.inf
        return read.percentiles_s

    return Parser(name, percentiles, (LeftOut,), (logs[HISTOGRAM_LOG],))


def fleet_log(output: bytes) -> Any:
    start_s = first_start_s({IOPS_LOG: output}, 1.0)
    return None if start_s is None else read_jobs(since({IOPS_LOG: output}, start_s)[IOPS_LOG], 1.0)


def fleet_logs() -> tuple[bytes, ...]:
    """Return the rates that fio's client wrote of a server with two jobs."""
    named = {path.name: path.read_bytes() for path in HERE.glob("fio_outputs/fleet_logs/*")}
    return (joined_logs(named, "127.0.0.1")[IOPS_LOG],)


PAGE = bytearray(4096)
PAGE[0:4] = EBS_MAGIC.to_bytes(4, "little")
for place in range(8, 96, 8):
    PAGE[place : place + 8] = (place * 1_000_003).to_bytes(8, "little")

DEVICE = b"""device=
path=/dev/nvme1n1
kind=block
number=259:3
sectors=20971520
serial=vol0123456789abcdef0
model=Amazon Elastic Block Store
ro=0
link=nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0
device=
mount=29 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
swap=/dev/sda2
"""

ETHTOOL = b"""NIC statistics:
     tx_timeout: 0
     bw_in_allowance_exceeded: 12
     bw_out_allowance_exceeded: 345
     pps_allowance_exceeded: 0
     conntrack_allowance_exceeded: 0
     linklocal_allowance_exceeded: 0
"""

BLKID = (
    b"DEVNAME=/dev/nvme1n1\nUUID=0f3a\nBLOCK_SIZE=512\nTYPE=xfs\nUSAGE=filesystem\nexit code=0\nnext device\n"
)


def parsers() -> tuple[Parser, ...]:
    """Return every parser of a tool's output."""
    fio = (FioError,)
    return (
        Parser("fio JSON", fio_output.parse_output, fio, kept("result.json.gz")),
        Parser(
            "fio client JSON",
            fio_output.parse_client_output,
            fio,
            files("fio_outputs/fleet-*.json"),
        ),
        Parser("fio logs", lambda data: read_jobs(data, 1.0), fio, files("fio_outputs/*/*.log")),
        histograms("fio histograms", "file_system-da0ab7fb73/1/measurement-1"),
        histograms("4-job histograms", "stripe-1c99bb601e/1/measurement-2"),
        Parser("fio fleet logs", fleet_log, fio, fleet_logs()),
        Parser("fio status", status, fio, files("fio_outputs/status_of_a_mix.txt")),
        Parser(
            "fio progress",
            lambda data: parse_progress(data.decode("utf-8", "replace")),
            (),
            (b"Jobs: 4 (f=4): [r(4)][45.0%][r=117MiB/s,w=1024KiB/s][r=30.0k,w=256 IOPS][eta 00m:11s]",),
        ),
        Parser("iperf3 JSON", iperf3, (Iperf3Error,), iperf3_clients()),
        Parser("log page 0xD0", DeviceCounters.parse, (ValueError,), (bytes(PAGE),)),
        Parser(
            "ethtool -S",
            lambda data: parse_statistics(data.decode("utf-8", "replace")),
            (ValueError,),
            (ETHTOOL,),
        ),
        Parser(
            "devices",
            lambda data: inspect_devices(answering(data), ["/dev/nvme1n1"]),
            (HostError,),
            (DEVICE,),
        ),
        Parser(
            "sockets", lambda data: parse_sockets(data.decode("utf-8", "replace")), (), files("sockets.txt")
        ),
        Parser("blkid", lambda data: read_signature(answering(data), "/dev/nvme1n1"), (HostError,), (BLKID,)),
    )


def changed(data: bytes, rng: random.Random) -> bytes:
    """Return the output with bytes changed, or with a value of its JSON changed."""
    if rng.random() < 0.5 and data[:1] == b"{":
        try:
            return json.dumps(_changed_value(json.loads(data), rng)).encode()
        except ValueError:
            pass
    found = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(found) + 1)
        length = rng.choice((0, 1, 1, 2, 8, 64, 10**6))
        found[at : at + length] = rng.choice(PIECES)
    return bytes(found)


def _changed_value(value: Any, rng: random.Random, depth: int = 0) -> Any:
    if isinstance(value, dict) and value and (depth < 2 or rng.random() < 0.9):
        key = rng.choice(sorted(value))
        if rng.random() < 0.1:
            return {name: each for name, each in value.items() if name != key}
        return {**value, key: _changed_value(value[key], rng, depth + 1)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        return [*value[:at], _changed_value(value[at], rng, depth + 1), *value[at + 1 :]]
    if isinstance(value, int | float) and not isinstance(value, bool) and rng.random() < 0.4:
        return value * rng.choice((2, 10, 1000, 0.5, -1))
    return rng.choice(
        (None, True, 0, -1, 2**70, 1e308, math.nan, math.inf, "", "x", "9" * 5000, [], [1, 2], {}, {"a": 1})
    )


@dataclass
class Outcome:
    """What came of a parser's changed outputs."""

    tried: int = 0
    refused: int = 0
    other: int = 0
    crashes: int = 0
    first: str = ""


def try_parser(parser: Parser, count: int, first: int) -> Outcome:
    """Let a parser read so many changed outputs, one for each seed from ``first``."""
    found = Outcome()
    originals = [repr(parser.parse(data)) for data in parser.outputs]
    for seed in range(first, first + count):
        rng = random.Random(f"{parser.name} {seed}")
        number = rng.randrange(len(parser.outputs))
        data = changed(parser.outputs[number], rng)
        found.tried += 1
        try:
            found.other += repr(parser.parse(data)) != originals[number]
        except parser.errors:
            found.refused += 1
        except Exception:
            found.crashes += 1
            found.first = found.first or f"seed {seed}: {data[:200]!r}\n{traceback.format_exc()}"
    return found


def main() -> int:
    """Print a line for each parser."""
    count, first = (int(each) for each in (*sys.argv[1:], *("1000", "0")[len(sys.argv) - 1 :])[:2])
    crashes = 0
    for parser in parsers():
        found = try_parser(parser, count, first)
        crashes += found.crashes
        print(
            f"{parser.name:16} {found.tried:9,} tried {found.refused:9,} refused {found.other:9,} with other figures "
            f"{found.crashes:6} crashes",
            flush=True,
        )
        if found.first:
            print(found.first)
    return crashes


if __name__ == "__main__":
    sys.exit(main() > 0)
