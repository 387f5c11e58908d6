"""The fio command of one run of a sweep: a closed loop, or Poisson arrivals at a rate."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.workloads.fio.job import escaped_path
from pytest_cloudbench.workloads.sweep.arrivals import Arrivals
from pytest_cloudbench.workloads.sweep.layout import Layout
from pytest_cloudbench.workloads.sweep.mixes import Mix
from pytest_cloudbench.workloads.sweep.plan import TICK_S, StepTimes

SizedPath = tuple[str, Size]
"""A device or file, and how much of it is gone over."""

_PUNCTUAL = 'chrt -R -f 1 true 2> /dev/null && exec chrt -R -f 1 "$@"; exec "$@"'


def punctual(argv: Sequence[str]) -> tuple[str, ...]:
    """The command, started so that its first moments are not disturbed, where the host lets us.

    fio finds out at its start how finely this host sleeps, and from then on burns processor time for what is
    shorter. On a busy host it finds a bad figure and burns so much that it disturbs the I/O it times. In the
    real-time class (with reset on fork, so that its jobs are ordinary ones) it finds the right one.
    """
    return ("sh", "-c", _PUNCTUAL, "sh", *argv)


def step_argv(
    mix: Mix,
    layout: Layout,
    paths: Sequence[SizedPath],
    times: StepTimes,
    *,
    arrivals: Sequence[Arrivals] | None,
    fio: str = "fio",
) -> tuple[str, ...]:
    """The command line. ``arrivals`` has the rates of each job, device by device; None is a closed loop.

    All jobs are one group, so fio adds up their histograms itself. They are threads, which start sooner than processes.
    """
    argv = [
        fio, "--output-format=json+", f"--status-interval={TICK_S:g}", "--eta=never", "--group_reporting",
        "--lat_percentiles=1", "--allow_file_create=0", *([] if mix.writes else ["--readonly"]),
        f"--rw={mix.pattern}", *_blocks(mix), *_shares(mix),
        "--ioengine=libaio", "--direct=1", "--thread", f"--iodepth={layout.depth}",
        f"--runtime={times.length_s}", "--time_based",
        *([] if arrivals is None else ["--rate_process=poisson"]),
    ]  # fmt: skip
    number = 0
    for path, size in paths:
        for _ in range(layout.jobs if arrivals is not None else 1):
            argv += [f"--name=job{number}", f"--filename={escaped_path(path)}", f"--size={size.bytes}"]
            if arrivals is not None:
                argv.append(f"--rate_iops={arrivals[number].fio_text}")
            elif layout.jobs > 1:
                argv.append(f"--numjobs={layout.jobs}")
            number += 1
    return tuple(argv)


def _blocks(mix: Mix) -> list[str]:
    if len(mix.blocks) == 1:
        return [f"--bs={mix.block_size.bytes}"]
    return ["--bssplit=" + ":".join(f"{size.bytes}/{share}" for size, share in mix.blocks)]


def _shares(mix: Mix) -> list[str]:
    found = []
    if 0 < mix.read_percent < 100:
        found.append(f"--rwmixread={mix.read_percent}")
    if not mix.sequential:
        # Without a map of what was drawn before: it would cost memory and time, and real loads have none.
        found.append("--norandommap")
        if mix.random_percent < 100:
            found.append(f"--percentage_random={mix.random_percent}")
        if mix.skew is not None:
            found.append(f"--random_distribution={mix.skew.fio_text}")
    return found
