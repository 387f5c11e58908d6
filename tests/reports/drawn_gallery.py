"""Every kind of picture that the package draws, with the cases that are hardest to lay out.

``python tests/reports/drawn_gallery.py FOLDER`` writes them as PNG, to look at.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "verdicts"))

from drawn_runs import C5, VOLUME, files, histogram, instance, mixed, network, noisy, storage
from synthetic_curves import curve_of
from synthetic_runs import STRONG_MACHINE

from pytest_cloudbench import gp2, gp3, io1, io2
from pytest_cloudbench.reports.plots.comparison import bars, plot_comparison
from pytest_cloudbench.reports.plots.curve import curves_picture
from pytest_cloudbench.reports.plots.kinds import creation_plots, line_plot, network_plots, storage_plots

SMALL = instance("m5.large", iops=3_600, mb=81.25)
GP3 = ((VOLUME, gp3(size_gib=20, iops=3_000)),)
GP3_TARGET = f"gp3 20 GiB/3,000 IOPS/125 MiB/s {VOLUME}"
QUICK = ("storage latency modelled by the embedded region", "quick pace: runtime 60 s -> 6 s")
ON_30: dict[str, Any] = {
    "on": instance("i3.metal", iops=64_000, mb=1_137.7),
    "volumes": tuple((f"vol-{number}", gp2(size_gib=1_000)) for number in range(30)),
    "machine": STRONG_MACHINE,
}
LONG_TARGET = (
    "xfs on mdadm stripe of 4 volumes of io2 Block Express 16,384 GiB/256,000 IOPS on /srv/database/data"
)


def _tail(run: Any, bins: dict[str, int]) -> Any:
    """Return the run with this histogram of its latencies."""
    read = {"lat_ns": {"N": sum(bins.values()), "bins": bins}}
    return dataclasses.replace(run, raw={"result.json": json.dumps({"jobs": [{"read": read}]}).encode()})


def _percentiles(run: Any) -> Any:
    count = len(run.series.seconds)
    lines = {"p50": 0.0107, "p95": 0.017, "p99": 0.021, "p999": 0.030}
    found = {name: tuple(noisy(value, count, 0.05, seed=7)) for name, value in lines.items()}
    return dataclasses.replace(run, series=dataclasses.replace(run.series, percentiles_s=found))


def _small(seconds: int = 6, **changes: Any) -> Any:
    changes = {
        "block": "16k",
        "volumes": GP3,
        "on": SMALL,
        "target": GP3_TARGET,
        "conditions": QUICK,
        **changes,
    }
    return storage(noisy(2_980, seconds, 0.01), **changes)


def _burst() -> Any:
    rates = [*noisy(3_000, 200, 0.002), *noisy(300, 100, 0.002)]
    return storage(rates, volumes=((VOLUME, gp2(size_gib=100)),), time_compression=60.0)


def _of_30(block: str = "4k") -> Any:
    volumes = tuple((f"vol-{number:017x}", gp2(size_gib=1_000 + number)) for number in range(30))
    return storage(noisy(63_000, 60), block=block, volumes=volumes, on=ON_30["on"], target="30 gp2 volumes")


def _moment() -> Any:
    run = files(40, 205, to_device_s=70, mib=125, target="xfs")
    run = dataclasses.replace(run, written_s=0.07, on_device_s=1.68)
    return dataclasses.replace(run, series=dataclasses.replace(run.series, seconds=(), files_per_second=()))


def _stripes(count: int = 3) -> list[Any]:
    return [
        storage(
            noisy(1_000 * number, 10),
            volumes=[(f"vol-{each}", io1(size_gib=200, iops=1_000)) for each in range(number)],
        )
        for number in range(1, count + 1)
    ]


FALLING = [*noisy(9.93, 100, 0.003), *noisy(2.48, 60, 0.003)]
_CORNERS = [
    ("4k-random-read", 64_000, 3_840), ("4k-random-write", 64_000, 1_920),
    ("64k-sequential-read", 17_360, 480), ("64k-sequential-write", 17_360, 240),
]  # fmt: skip


def _corners(**changes: Any) -> list[Any]:
    return [
        curve_of(limit, mix=mix, outstanding=outstanding, **ON_30, **changes)
        for mix, limit, outstanding in _CORNERS
    ]


def _drawn(plots: Callable[[Any], Any], run: Any) -> list[Any]:
    return [picture for picture in plots(run) if picture is not None]


STEEP = {str(64_000_000 + 300_000 * number): max(1, 900 - number * 45) for number in range(60)}
STEEP |= {"118000000": 3, "124000000": 3}
"""The histogram of a small gp3 volume at its throughput: level, then steep at the end."""

GALLERY: dict[str, Callable[[], list[Any]]] = {
    "storage at its ceiling": lambda: _drawn(storage_plots, storage(noisy(80_000, 60))),
    "short and small": lambda: _drawn(storage_plots, _percentiles(_small())),
    "large blocks": lambda: _drawn(storage_plots, storage(noisy(9_060, 10), block="256k", sequential=True)),
    "steep tail": lambda: _drawn(storage_plots, _tail(_small(block="256k"), STEEP)),
    "few I/Os": lambda: _drawn(storage_plots, _tail(_small(), {"2000000": 150, "9000000": 10})),
    "one latency": lambda: _drawn(storage_plots, _tail(_small(), {"2000000": 5_000, "2010000": 50})),
    "wide latency": lambda: _drawn(
        storage_plots, _tail(_small(), {"60000": 90_000, "400000": 900, "9000000": 90, "2000000000": 5})
    ),
    "reads and writes": lambda: _drawn(storage_plots, mixed(noisy(16_000, 20))),
    "reads and writes alike": lambda: _drawn(
        storage_plots,
        dataclasses.replace(
            mixed(noisy(16_000, 20)),
            raw={
                "result.json": json.dumps(
                    {"jobs": [{"read": histogram(0.0065), "write": histogram(0.0066)}]}
                ).encode()
            },
        ),
    ),
    "spent burst": lambda: _drawn(storage_plots, _burst()),
    "thirty volumes": lambda: _drawn(storage_plots, _of_30()),
    "thirty volumes, large blocks": lambda: _drawn(storage_plots, _of_30("256k")),
    "slow run": lambda: _drawn(
        storage_plots, storage(noisy(40, 10), target=LONG_TARGET, conditions=QUICK * 3)
    ),
    "long run": lambda: _drawn(storage_plots, _percentiles(storage(noisy(80_000, 3_600)))),
    "no promises": lambda: _drawn(storage_plots, dataclasses.replace(storage(noisy(500, 10)), envelope=None)),
    "network burst": lambda: _drawn(network_plots, network(FALLING)),
    "network both ways": lambda: _drawn(
        network_plots,
        network(noisy(8.7, 20), directions=(network(noisy(4.9, 20)), network(noisy(3.8, 20), reverse=True))),
    ),
    "slow network": lambda: _drawn(network_plots, network(noisy(0.32, 30))),
    "files and device": lambda: _drawn(
        creation_plots, files(40, 205, to_device_s=70, mib=125, target="xfs on gp3 500 GiB")
    ),
    "files, device at once": lambda: _drawn(
        creation_plots, files(40, 205, to_device_s=41, mib=125, target="xfs on gp3 500 GiB")
    ),
    "files of a moment": lambda: _drawn(creation_plots, _moment()),
    "bars": lambda: [
        plot_comparison(_stripes(), ["1 volume", "2 volumes", "3 volumes"], "Stripe of io1 volumes")
    ],
    "bars, long names": lambda: [
        plot_comparison(
            _stripes(4),
            [
                f"io1 200 GiB/1,000 IOPS, {number} of them striped by mdadm with chunks of 256 KiB"
                for number in range(4)
            ],
            "A stripe of io1 volumes on one c5.18xlarge, with more and more volumes, until the instance limits it",
        )
    ],
    "many bars": lambda: [
        bars([network(FALLING)] * 12, [f"m5 {number}" for number in range(12)], "families")
    ],
    "bars of files": lambda: [
        bars(
            [
                files(20, 400, to_device_s=80, mib=125, target="gp3"),
                files(25, 320, to_device_s=26, mib=340, target="nvme"),
            ],
            ["gp3", "nvme"],
            "EBS against instance store",
        )
    ],
    "lines of networks": lambda: [
        plot_comparison(
            [network(FALLING), network(noisy(4.96, 160))], ["m5.2xlarge", "m4.10xlarge"], "families"
        )
    ],
    "six lines alike": lambda: [
        plot_comparison(
            [network([*noisy(9.9, 100, 0.01, seed=each), *noisy(2.48, 60)]) for each in range(6)],
            [f"m5.2xlarge to m5.2xlarge, placement group {each}" for each in range(6)],
            "six pairs",
        )
    ],
    "lines of files": lambda: [
        plot_comparison(
            [
                files(40, 205, to_device_s=70, mib=125, target="gp3"),
                files(25, 340, to_device_s=26, mib=340, target="nvme"),
            ],
            ["gp3", "instance store"],
            "EBS against instance store",
        )
    ],
    "a curve": lambda: [curves_picture([curve_of(**ON_30)])],
    "a curve of one io2": lambda: [curves_picture([curve_of(80_000, outstanding=1_024)])],
    "two curves": lambda: [
        curves_picture(
            [curve_of(), curve_of(32_000, outstanding=960)], labels=["gp3", "gp2"], title="gp3 or gp2?"
        )
    ],
    "two volume types": lambda: [
        curves_picture(
            [
                curve_of(16_000, outstanding=256, volumes=((VOLUME, gp3(size_gib=500, iops=16_000)),)),
                curve_of(32_000, outstanding=256, volumes=((VOLUME, io2(size_gib=500, iops=32_000)),)),
            ],
            labels=["gp3 500 GiB/16,000 IOPS/125 MiB/s", "io2 500 GiB/32,000 IOPS"],
        )
    ],
    "four corners": lambda: [curves_picture(_corners())],
    "six curves": lambda: [
        curves_picture(
            [curve_of(16_000 + 9_000 * each, outstanding=256) for each in range(6)],
            labels=[f"instance type number {each} with a long name" for each in range(6)],
        )
    ],
    "a curve in throughput": lambda: [
        curves_picture([curve_of(17_360, mix="64k-sequential-read", outstanding=480, **ON_30)])
    ],
    "huge curve": lambda: [curves_picture([curve_of(12_802_904, outstanding=4_470, on=C5)])],
    "own lines": lambda: [
        line_plot(
            "slowest 1 %",
            {"p99 of all reads in the second half": [1.5, 2.5, 2.0], "mean": [0.5, 0.5, 0.5]},
            seconds=[1, 2, 3],
            unit="latency, ms",
        )
    ],
}

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for case, draw in GALLERY.items():
        for number, each in enumerate(draw()):
            (folder / f"{case.replace('/', ' ')} {number}.png").write_bytes(each.png)
            (folder / f"{case.replace('/', ' ')} {number}.svg").write_bytes(each.svg)
