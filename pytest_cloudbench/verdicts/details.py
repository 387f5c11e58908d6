"""The plain values behind a verdict, as a report keeps them, and the check for runs on which no verdict can rest."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pytest_cloudbench.limits.quantities import Iops, Rate, plain
from pytest_cloudbench.verdicts.change_point import falls_details
from pytest_cloudbench.verdicts.little import in_flight, inconsistent
from pytest_cloudbench.verdicts.machine_delay import machine_share, machine_text, machine_to_blame
from pytest_cloudbench.verdicts.run_view import Run
from pytest_cloudbench.verdicts.sample_statistics import half_means
from pytest_cloudbench.verdicts.timeline import Timeline
from pytest_cloudbench.verdicts.verdict import Doubt
from pytest_cloudbench.verdicts.wording import percent

OTHERS = 0.10
"""A load has its devices to itself if others moved at most this share of the bytes: the tolerance of `reaches`."""


def unusable(run: Run, measured: Rate) -> Doubt | None:
    """Return what makes a run unusable; None if nothing does.

    It has no rate, its data are damaged, its reads did not reach the storage, other loads used its devices, or its
    figures contradict each other.
    """
    if missing := run.missing(measured):
        return Doubt(missing)
    if run.damage:
        return _damaged(run)
    if run.reads_nothing:
        return Doubt(run.reads_nothing)
    return _other_loads(run) or inconsistent(run)


def _damaged(run: Run) -> Doubt:
    """Return the doubt about a run whose data are damaged.

    If the machine under an embedded region lets a load's processes wait, they collect I/Os late: in another second, or
    after the last sample.
    """
    text = f"the measurement is damaged: {run.damage}"
    if run.damage_of_totals and machine_to_blame(run):
        return Doubt(f"{text}; {machine_text(run)} may be why", machine_limited=True)
    return Doubt(text)


def _other_loads(run: Run) -> Doubt | None:
    """Return what is wrong if other loads were at work on the same devices: they took part of what was promised."""
    share = run.share_of_others
    if share is None or share <= OTHERS:
        return None
    return Doubt(
        f"other loads were at work on the same volume: at least {percent(share)} of the bytes that it moved during the "
        "run were not of this load: run them one after the other"
    )


def details_of(
    run: Run, *, within: float, asked: Rate | None, measured: Rate, line: Timeline | None = None
) -> dict[str, Any]:
    """Return everything a verdict was drawn from, as text, numbers and lists (rates in I/Os or bytes a second).

    ``line`` adds the falls of the series.
    """
    samples = run.samples(asked or measured)
    first_half, second_half = half_means(samples)
    check = in_flight(run)
    return {
        "quantity": "IOPS" if isinstance(asked or measured, Iops) else "bytes per second",
        "asked": plain(asked) if asked is not None else None,
        "measured": plain(measured),
        "within": within,
        "runtime_s": run.runtime_s,
        "rate_asked": str(run.job_limit) if run.job_limit is not None else None,
        "outstanding": check.text if check is not None else None,
        "first_half": first_half,
        "second_half": second_half,
        "samples": len(samples),
        "counters": asdict(run.counters) if run.counters is not None else None,
        "machine_share": machine_share(run),
        "generator": asdict(run.generator) if run.generator is not None else None,
        "envelope": run.envelope.explain(),
        "conditions": list(run.conditions),
        "time_compression": run.time_compression,
        **run.own_details(),
        **(falls_details(line.falls) if line is not None else {}),
    }
