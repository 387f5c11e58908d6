"""Compare the ways to a host: the first command, a command on an open connection, and 16 MiB of output.

The host and the bastion are two sshd on this machine, so what is compared is the work of each way, without any network.
"""

from __future__ import annotations

import getpass
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "hosts"))

from local_sshd import LocalSshd
from own_ssh import own_key, trust

from pytest_cloudbench.hosts.host import Host

ROUNDS, COMMANDS, OUTPUT_BYTES = 7, 40, 16 << 20
MOST_PER_COMMAND = 3.0
"""How many times longer than directly a command may take through a bastion or a proxy command."""


def main() -> int:
    with tempfile.TemporaryDirectory() as name, ExitStack() as ends:
        home = Path(name)
        os.environ["HOME"] = name
        os.environ.pop("SSH_AUTH_SOCK", None)
        folders = {each: home / each for each in (".ssh", "host", "bastion")}
        for folder in folders.values():
            folder.mkdir()
        host = ends.enter_context(LocalSshd.running(folders["host"]))
        bastion = ends.enter_context(LocalSshd.running(folders["bastion"]))
        trust(folders[".ssh"], bastion)
        key = own_key(folders[".ssh"], bastion)
        to = f"-p {bastion.port} {getpass.getuser()}@127.0.0.1"
        options = f"-F none -i {key} -o UserKnownHostsFile={folders['.ssh'] / 'known_hosts'}"
        return compare(
            {
                "direct": host.connect,
                "bastion": lambda: host.connect(jump=f"{getpass.getuser()}@127.0.0.1:{bastion.port}"),
                "proxy command (ssh -W)": lambda: host.connect(proxy_command=f"ssh {options} -W %h:%p {to}"),
            }
        )


def compare(ways: Mapping[str, Callable[[], Host]]) -> int:
    """Measure all ways in turns, print a table, and return the exit code."""
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            found[name].append(measure(way()))
    rows = {name: [statistics.median(each) for each in zip(*found[name], strict=True)] for name in ways}
    first, command, output = rows["direct"]
    print(f"{'way':24} {'first command':>20} {'command':>20} {'output':>22}")
    for name, (its_first, its_command, its_output) in rows.items():
        print(
            f"{name:24} {its_first * 1000:8.1f} ms ({its_first / first:4.1f}x)"
            f" {its_command * 1000:8.1f} ms ({its_command / command:4.1f}x)"
            f" {its_output / 1e6:8.1f} MB/s ({its_output / output:4.2f}x)"
        )
    worst = max(row[1] / command for row in rows.values())
    print(f"worst: {worst:.2f} times the time of a direct command, at most {MOST_PER_COMMAND:g} required")
    return int(worst > MOST_PER_COMMAND)


def measure(host: Host) -> tuple[float, float, float]:
    """Return seconds of the first command, seconds of a later one (median), and bytes per second of output."""
    first = timed(lambda: host.run(["true"]))
    later = statistics.median(timed(lambda: host.run(["true"])) for _ in range(COMMANDS))
    size = str(OUTPUT_BYTES)
    taken = timed(lambda: host.run(["head", "-c", size, "/dev/zero"]))
    host.close()
    return first, later, OUTPUT_BYTES / taken


def timed(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


if __name__ == "__main__":
    raise SystemExit(main())
