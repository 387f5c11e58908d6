"""The plain values behind a verdict, as a report keeps them, and runs that gave no rate to judge."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from pytest_cloudbench.limits.quantities import Iops, Rate
from pytest_cloudbench.verdicts.little import in_flight
from pytest_cloudbench.verdicts.machine_delay import delay_of, machine_share
from pytest_cloudbench.verdicts.observation import Observation, generator_load, rate_asked
from pytest_cloudbench.verdicts.steadiness import full_samples, steadiness
from pytest_cloudbench.verdicts.targets import plain


def not_measured(measured: Rate) -> str | None:
    """The sentence of a run that gave no rate: a failed measurement is no broken promise."""
    value = plain(measured)
    if math.isfinite(value) and value > 0:
        return None
    if value == 0:
        return "inconclusive: no I/O completed, so nothing was measured: look at the workload's own output"
    unit = "IOPS" if isinstance(measured, Iops) else "MiB/s"
    return f"inconclusive: the measurement has no rate ({value} {unit}): look at the workload's own output"


def details_of(obs: Observation, *, within: float, asked: Rate, measured: Rate) -> dict[str, Any]:
    """Everything a verdict was drawn from, as text, numbers and lists (rates in I/Os or bytes a second)."""
    halves = steadiness(full_samples(obs.series, asked), within)
    load, own = generator_load(obs), rate_asked(obs)
    latency = obs.latency_mean_s
    known = isinstance(latency, (int, float)) and math.isfinite(latency)
    return {
        "quantity": "IOPS" if isinstance(asked, Iops) else "bytes per second",
        "asked": plain(asked),
        "measured": plain(measured),
        "within": within,
        "block_size_bytes": obs.block_size.bytes,
        "sequential": obs.sequential,
        "runtime_s": obs.runtime_s,
        "outstanding_asked": obs.outstanding_asked,
        "outstanding_mean": obs.iops * latency if known else None,
        "outstanding": check.text if (check := in_flight(obs)) is not None else None,
        "rate_asked": str(own) if own is not None else None,
        "first_half": halves.first_half,
        "second_half": halves.second_half,
        "samples": halves.samples,
        "counters": asdict(obs.counters) if obs.counters is not None else None,
        "machine_delay": asdict(delay) if (delay := delay_of(obs)) is not None else None,
        "machine_share": machine_share(obs),
        "generator": asdict(load) if load is not None else None,
        "envelope": obs.envelope.explain() if obs.envelope is not None else [],
    }
