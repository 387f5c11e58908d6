"""The plain values behind a verdict on a network, as a report keeps them, and runs that gave no rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.verdicts.change_point import METHOD, PARAMETERS, Fall, Falls
from pytest_cloudbench.verdicts.network.observation import (
    NetworkObservation,
    bitrate_asked,
    header_share,
    lost_share,
    network_rate,
)
from pytest_cloudbench.verdicts.observation import GeneratorLoad
from pytest_cloudbench.verdicts.steadiness import full_samples, steadiness


def network_not_measured(measured: Bandwidth) -> str | None:
    """The sentence of a run that gave no rate: a failed measurement is no broken promise."""
    value = measured.bytes_per_second
    if math.isfinite(value) and value > 0:
        return None
    if value == 0:
        return "nothing arrived, so nothing was measured: look at the workload's own output"
    return f"the measurement has no rate ({value} bytes per second): look at the workload's own output"


def network_details(
    obs: NetworkObservation,
    *,
    within: float,
    asked: Bandwidth | None = None,
    measured: Bandwidth | None = None,
) -> dict[str, Any]:
    """Everything a verdict was drawn from, as text, numbers and lists (rates in bytes per second)."""
    rate = network_rate(obs)
    halves = steadiness(full_samples(obs.series, rate), within)
    load, own, counters = getattr(obs, "generator", None), bitrate_asked(obs), obs.counters
    return {
        "quantity": "bytes per second",
        "asked": asked.bytes_per_second if asked is not None else None,
        "measured": (measured if measured is not None else rate).bytes_per_second,
        "mean": rate.bytes_per_second,
        "within": within,
        "header_share": header_share(obs),
        "runtime_s": obs.runtime_s,
        "streams": [stream.throughput.bytes_per_second for stream in obs.streams],
        "rate_asked": str(own) if own is not None else None,
        "lost_share": lost_share(obs),
        "first_half": halves.first_half,
        "second_half": halves.second_half,
        "samples": halves.samples,
        "counters": asdict(counters) if counters is not None else None,
        "generator": asdict(load) if isinstance(load, GeneratorLoad) else None,
        "envelope": obs.envelope.explain() if obs.envelope is not None else [],
        **conditions_of(obs),
    }


def conditions_of(obs: object) -> dict[str, Any]:
    """What else a run was made under, where it says."""
    factor = getattr(obs, "time_compression", None)
    return {
        "conditions": [str(one) for one in getattr(obs, "conditions", ())],
        "time_compression": float(factor) if factor is not None else 1.0,
    }


def falls_details(found: Falls) -> dict[str, Any]:
    """The falls of a series, and how they were looked for."""
    unproven: Sequence[Fall] = [found.unproven] if found.unproven is not None else []
    return {
        "method": METHOD,
        "method_parameters": dict(PARAMETERS),
        "falls": [_fall(fall) for fall in found.lasting],
        "unproven_falls": [_fall(fall) for fall in unproven],
    }


def _fall(fall: Fall) -> dict[str, Any]:
    errors = fall.standard_errors
    return {
        "at_s": fall.at_s,
        "before": fall.before,
        "after": fall.after,
        "standard_errors": errors if math.isfinite(errors) else None,
    }
