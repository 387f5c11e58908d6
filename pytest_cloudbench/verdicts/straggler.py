"""The slowest of the hosts or pairs that one load ran on: what a sum hides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean

from pytest_cloudbench.limits.quantities import plain
from pytest_cloudbench.verdicts.attribution import bottleneck_of
from pytest_cloudbench.verdicts.run_view import NEAR, Run
from pytest_cloudbench.verdicts.verdict import Verdict
from pytest_cloudbench.verdicts.wording import percent


def with_slowest(verdict: Verdict, parts: Mapping[str, Run]) -> Verdict:
    """Return a verdict on the sum with the rate of each part in its details, and the slowest part.

    A part well below the mean of all is named in the sentence too, with what held it back.
    """
    rates = {name: plain(run.rate) for name, run in parts.items()}
    mean = fmean(rates.values())
    slowest = min(rates, key=lambda name: rates[name])
    share = rates[slowest] / mean if mean > 0 else 1.0
    reason = bottleneck_of(parts[slowest]).sentence
    details = {
        "rates_of_parts": rates,
        "slowest_part": slowest,
        "slowest_share_of_mean": share,
        "slowest_because": reason,
    }
    verdict = replace(verdict, details={**verdict.details, **details})
    if share >= 1 - NEAR:
        return verdict
    text = f"the slowest of {len(parts)} is {slowest} with {percent(share)} of the mean: {reason}"
    return replace(verdict, sentence=f"{verdict.sentence}; {text}")
