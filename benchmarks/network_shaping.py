"""Measure how exactly the region's network is shaped: iperf3's rate between two instances over the configured rate.

    python benchmarks/network_shaping.py [--seconds 5] [--rounds 3] [--only rates|flows|unshaped|governor]

Needs root and iperf3. Configured rates count the bytes on the wire, as EC2 does, but iperf3 reports the payload. With
frames of 9,001 bytes that is 0.73 % less, so a ratio of 0.9927 is exact. The 25 Gbit/s type is compared with an
unshaped pair in every round, because a machine's bandwidth depends on its other load and on the scheduler. The ratio
is that of the medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import time

from region_under_test import Region, region

from pytest_cloudbench.limits.network_credits import NetworkCredits, ShapedRates
from pytest_cloudbench.limits.quantities import Bandwidth

RATES_GBIT = (0.1, 0.3, 1.0, 2.5, 5.0, 10.0)
STREAMS = (1, 5)
IDLE_INSTANCES = 30
_EBS = {"iops": 3_000, "mbit": 1_000}
_ports = iter(range(5300, 6000))


def launch(region: Region, name: str, gbit: float | None, group: str | None = None) -> None:
    """Boot an instance with this network rate, or without a limit."""
    rate = None if gbit is None else Bandwidth.from_gbit(gbit)
    rates = None if rate is None else ShapedRates(rate, rate)
    region.launch(name, **_EBS, network=rates, placement_group=group)


def iperf3(
    region: Region, client: str, server: str, *, streams: int, seconds: int, processes: int = 1
) -> float:
    """Run iperf3 with its streams spread over the processes; return the received rate in Gbit/s."""
    ports = [next(_ports) for _ in range(processes)]
    serve = " & ".join(f"iperf3 -s -1 -p {port} >/dev/null" for port in ports)
    listening = " && ".join(f"ss -ltn | grep -q ':{port} '" for port in ports)
    serving = subprocess.Popen(
        region.command(server, f"{serve} & until {listening}; do sleep 0.02; done; echo up; wait"),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert serving.stdout is not None
    assert serving.stdout.readline() == "up\n"
    shares = [streams // processes + (number < streams % processes) for number in range(processes)]
    clients = [
        subprocess.Popen(
            region.command(
                client, f"iperf3 -c {region.address(server)} -p {port} -P {share} -t {seconds} -O 1 -J"
            ),
            stdout=subprocess.PIPE,
            text=True,
        )
        for port, share in zip(ports, shares, strict=True)
    ]
    results = [json.loads(process.communicate()[0]) for process in clients]
    serving.wait()
    return sum(one["end"]["sum_received"]["bits_per_second"] for one in results) / 1e9


def show_rates(seconds: int, rounds: int) -> None:
    """Print the ratios of several rates, in a cluster placement group, where one flow may have 10 Gbit/s."""
    with region() as under_test:
        for gbit in RATES_GBIT:
            names = f"i-{gbit}-a", f"i-{gbit}-b"
            for name in names:
                launch(under_test, name, gbit, "group")
            for streams in STREAMS:
                got = [iperf3(under_test, *names, streams=streams, seconds=seconds) for _ in range(rounds)]
                ratios = sorted(one / gbit for one in got)
                print(
                    f"{gbit:5.1f} Gbit/s, {streams} streams: ratio {statistics.median(ratios):.4f} "
                    f"({ratios[0]:.4f} to {ratios[-1]:.4f} in {rounds} rounds)",
                    flush=True,
                )
            for name in names:
                under_test.plane.instances.terminate(name)


def show_flows(seconds: int, rounds: int) -> None:
    """Print the rate of one flow between instances that are faster than the limit of a flow."""
    with region() as under_test:
        for name, group in (("i-a", "group"), ("i-b", "group"), ("i-c", None)):
            launch(under_test, name, 25, group)
        for where, server, limit in (("outside", "i-c", 5), ("inside a cluster group", "i-b", 10)):
            got = sorted(iperf3(under_test, "i-a", server, streams=1, seconds=seconds) for _ in range(rounds))
            print(
                f"one flow {where}: {statistics.median(got):.3f} Gbit/s of {limit} "
                f"({got[0]:.3f} to {got[-1]:.3f} in {rounds} rounds)",
                flush=True,
            )


def show_unshaped(seconds: int, rounds: int) -> None:
    """Compare five flows of a 25 Gbit/s type with an unshaped pair."""
    with region() as under_test:
        for name, gbit in (("i-25-a", 25), ("i-25-b", 25), ("i-any-a", None), ("i-any-b", None)):
            launch(under_test, name, gbit)
        for processes in (1, 2, 5):
            shaped, unshaped = [], []
            for _ in range(rounds):
                load = {"streams": 5, "seconds": seconds, "processes": processes}
                unshaped.append(iperf3(under_test, "i-any-a", "i-any-b", **load))
                shaped.append(iperf3(under_test, "i-25-a", "i-25-b", **load))
            median, free = statistics.median(shaped), statistics.median(unshaped)
            print(
                f"25 Gbit/s type, 5 flows, {processes} processes: {median:.2f} Gbit/s; unshaped {free:.2f}, of which "
                f"at most 25 count: ratio {median / min(free, 25):.3f} "
                f"(shaped {[round(one, 1) for one in shaped]}, unshaped {[round(one, 1) for one in unshaped]})",
                flush=True,
            )


def show_governor(seconds: int, rounds: int) -> None:
    """Print the CPU load of the network's governor."""
    rates = ShapedRates(Bandwidth.from_gbit(5), Bandwidth.from_gbit(1))
    credits = NetworkCredits(1e15, "benchmark", "2026-11")
    with region() as under_test:
        for number in range(IDLE_INSTANCES):
            under_test.launch(f"i-{number}", **_EBS, network=rates, network_credits=credits)

        def share(what: str, during: float) -> None:
            cpu, wall = under_test.plane.governor.cpu_s, time.monotonic()
            if during:
                time.sleep(during)
            else:
                iperf3(under_test, "i-0", "i-1", streams=5, seconds=seconds * rounds)
            used = (under_test.plane.governor.cpu_s - cpu) / (time.monotonic() - wall)
            print(f"governor, {IDLE_INSTANCES} instances, {what}: {used:.2%} of a core", flush=True)

        share("idle", seconds * rounds)
        share("two busy", 0)


SHOWN = {"rates": show_rates, "flows": show_flows, "unshaped": show_unshaped, "governor": show_governor}


def main() -> None:
    """Run the selected parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=SHOWN)
    arguments = parser.parse_args()
    for name, show in SHOWN.items():
        if arguments.only in (None, name):
            show(arguments.seconds, arguments.rounds)


if __name__ == "__main__":
    main()
