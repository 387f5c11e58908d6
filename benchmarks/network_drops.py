"""Check whether `drops_to` finds the end of a network burst: its time, and the level after it.

    python benchmarks/network_drops.py [--drops 20] [--time 60] [--seed 1]

Needs root and iperf3. Every drop is a new pair of instances with a bucket of random size, one run of the iperf3
workload, and the verdict `drops_to` on it. The region knows when the bucket was empty; the load began when the first
bytes passed the switch. With `--time 60` credits run 60 times faster than the clock and samples are 0.1 s apart, as in
the scenarios; with `--time 1` they are 1 s apart. Required: no miss, the time within 1 s, the level within 2 %.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import random
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from region_under_test import Region, region

from pytest_cloudbench.hosts.login import HostLogin
from pytest_cloudbench.hosts.ssh import SshHost
from pytest_cloudbench.limits.network_credits import NetworkCredits, ShapedRates
from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.verdicts.verdict import Outcome
from pytest_cloudbench.workloads.iperf3.job import Iperf3Job
from pytest_cloudbench.workloads.iperf3.run import run_iperf3

PEAK, BASELINE = Bandwidth.from_gbit(10), Bandwidth.from_gbit(2.5)
STREAMS = 5
MOMENT_S, LEVEL = 1.0, 0.02
_EBS = {"iops": 3_000, "mbit": 1_000}
_POLL_S = 0.005
_LOADED = 1_000_000  # bytes between two polls of the switch


@dataclass
class Path:
    """The path of the workload: two hosts, without promises about the network between them."""

    client_host: SshHost
    server_host: SshHost
    server_address: str
    time_compression: float
    label: str = "client -> server"
    client_cpus: int | None = None
    server_cpus: int | None = None

    def envelope(self, *, streams: int, reverse: bool) -> None:
        """Return None: no ceiling is known."""

    def counters(self) -> None:
        """Return None: no counters are read."""


class LoadWatch(threading.Thread):
    """Records the time at which a load begins to pass the switch, in seconds since the epoch."""

    def __init__(self, under_test: Region) -> None:
        super().__init__(daemon=True)
        self.began_at: float | None = None
        self._counters = under_test.plane.network.open_counters()
        self._end = threading.Event()

    def run(self) -> None:
        """Poll until the load begins."""
        before = None
        while not self._end.wait(_POLL_S):
            self._counters.seek(0)
            lines = self._counters.read().splitlines()[2:]
            moved = sum(int(line.partition(b":")[2].split()[0]) for line in lines)
            if before is not None and moved - before > _LOADED:
                self.began_at = time.time()
                return
            before = moved

    def close(self) -> None:
        """Stop the thread."""
        self._end.set()
        self.join()
        self._counters.close()


@contextlib.contextmanager
def path(under_test: Region, number: int, burst_s: float, compression: float) -> Iterator[Path]:
    """Launch a pair whose full bucket lasts ``burst_s`` real seconds at the full peak."""
    names = f"i-{number}-a", f"i-{number}-b"
    rates = ShapedRates(PEAK, BASELINE)
    credits = NetworkCredits(
        (PEAK - BASELINE).bytes_per_second * burst_s * compression, "benchmark", "2026-11"
    )
    with contextlib.ExitStack() as undo:
        hosts = []
        for name in names:
            under_test.launch(name, **_EBS, network=rates, network_credits=credits)
            undo.callback(under_test.plane.instances.terminate, name)
            key = under_test.ssh(name, "cat /etc/ssh/ssh_host_ed25519_key.pub").strip()
            private_key = pathlib.Path(under_test._key).read_text()
            host = SshHost(HostLogin(under_test.address(name), "ec2-user", private_key, key))
            undo.callback(host.close)
            hosts.append(host)
        yield Path(*hosts, under_test.address(names[1]), compression)


def drop(under_test: Region, number: int, burst_s: float, compression: float) -> tuple[str, bool]:
    """Load a pair until well after its bucket is empty; return the finding, and True if it meets the requirement."""
    after_s = 5.0 if compression > 1 else 22.0
    with path(under_test, number, burst_s, compression) as pair:
        watch = LoadWatch(under_test)
        watch.start()
        try:
            duration = round((burst_s + after_s) * compression)
            measured = run_iperf3(pair, Iperf3Job(streams=STREAMS, duration=duration))
        finally:
            watch.close()
        slowed_at = under_test.plane.governor.slowed_at(f"i-{number}-a")
    verdict = measured.drops_to(BASELINE, within=0.05)
    if slowed_at is None or watch.began_at is None:
        return f"the bucket was never empty: {verdict}", False
    emptied_s = slowed_at - watch.began_at
    falls = verdict.details["falls"]
    if verdict.outcome is not Outcome.HELD or len(falls) != 1:
        return f"bucket empty after {emptied_s:.2f} s: MISSED: {verdict}", False
    off_s = falls[0]["at_s"] / compression - emptied_s
    level = falls[0]["after"] / BASELINE.bytes_per_second - 1
    text = f"bucket empty after {emptied_s:6.3f} s, found {off_s:+.3f} s later, level {level:+.2%}"
    return text, abs(off_s) <= MOMENT_S and abs(level) <= LEVEL


def main() -> int:
    """Run the drops and print each; return 1 if one misses the requirement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drops", type=int, default=20)
    parser.add_argument("--time", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    numbers = random.Random(arguments.seed)
    shortest, longest = (2.0, 5.0) if arguments.time > 1 else (7.0, 12.0)
    good = 0
    with region(arguments.time) as under_test:
        for number in range(arguments.drops):
            text, met = drop(under_test, number, numbers.uniform(shortest, longest), arguments.time)
            good += met
            print(f"{number + 1:2}: {text}{'' if met else '  <-- missed'}", flush=True)
    print(f"{good} of {arguments.drops} as required: time within {MOMENT_S:g} s, level within {LEVEL:.0%}")
    return 0 if good == arguments.drops else 1


if __name__ == "__main__":
    sys.exit(main())
