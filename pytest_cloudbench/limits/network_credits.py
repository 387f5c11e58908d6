"""Network rates and burst credits of an instance type, as an embedded region shapes them, as data with sources.

AWS publishes the peak and the baseline (DescribeInstanceTypes), and that a burst lasts "typically from 5 to 60 minutes,
depending on the instance size" (EC2 user guide, "Amazon EC2 instance network bandwidth"). It publishes neither the size
of the bucket nor how it drains and refills. Others published measurements, in 2018 and 2019:

* M5 and C5, "Up to 10 Gigabit": bursts of 15 to 40 minutes, longer for larger sizes (`CASES_OF_2018`); c5.xlarge
  13 minutes, c5.2xlarge 26 minutes, full again after a stop and start (`THREAD_OF_2019`).
* M4 and C4, "Moderate" or "High": constant at the baseline, no burst (`CASES_OF_2018`).
* T2, "Low to Moderate" or "Moderate": between the baseline and about twice that, at most about 1 Gbit/s (t2.medium
  0.2-0.5).
* Token buckets, drained by traffic above the baseline and refilled by unused baseline ("Is Big Data Performance
  Reproducible in Modern Cloud Networks?", NSDI 2020).

Choices of this project: one duration per number of vCPUs (`BURST_MINUTES`), within what was measured; a full bucket
lasts exactly that long at the full peak; the busier direction drains it; the peak of T2 is twice the baseline.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cloudbench.limits.quantities import Bandwidth

CASES_OF_2018 = "iperf3 between equal instances of T2, M4, M5, C4 and C5, 30 minutes each, published 2018"
THREAD_OF_2019 = "https://threadreaderapp.com/thread/1120171727399448576.html (D. Vassallo, April 2019)"
DATE = "2026-11"

COARSE_WORDS = frozenset({"Very Low", "Low", "Low to Moderate", "Moderate", "High"})
"""AWS's words for a network without a figure. Such types do not burst, except T2 (`T2_PEAK_OVER_BASELINE`)."""

T2_PEAK_OVER_BASELINE = 2.0

BURST_MINUTES = ((2, 15.0), (4, 20.0), (8, 26.0))
"""(vCPUs up to, minutes of a full burst), from "large", "xlarge" and "2xlarge" of M5 and C5."""

LONGEST_BURST_MINUTES = 40.0
"""Minutes of a full burst of sizes with more than 8 vCPUs."""


@dataclass(frozen=True)
class NetworkCard:
    """One network card. ``performance`` is AWS's own wording, such as "Up to 10 Gigabit"."""

    baseline: Bandwidth | None
    peak: Bandwidth | None
    performance: str


@dataclass(frozen=True)
class ShapedRates:
    """The rates in each direction, headers included: ``peak`` while network credits last, then ``baseline``."""

    peak: Bandwidth
    baseline: Bandwidth

    @property
    def bursts(self) -> bool:
        """True if the peak lies above the baseline."""
        return self.peak > self.baseline


@dataclass(frozen=True)
class NetworkCredits:
    """A full bucket, in bytes sent or received above the baseline, with its source."""

    capacity_bytes: float
    source: str
    date: str


def shaped_rates(card: NetworkCard, type_name: str) -> ShapedRates | None:
    """Return the rates of an instance with this card; None if it has no figures."""
    peak = card.peak or card.baseline
    if peak is None:
        return None
    baseline = min(card.baseline or peak, peak)
    if card.performance in COARSE_WORDS:
        over = T2_PEAK_OVER_BASELINE if type_name.startswith("t2.") else 1.0
        peak = min(peak, baseline * over)
    return ShapedRates(Bandwidth.of(peak), Bandwidth.of(baseline))


def burst_minutes(vcpus: int) -> float:
    """Return how long a full bucket lasts at the full peak."""
    return next((minutes for most, minutes in BURST_MINUTES if vcpus <= most), LONGEST_BURST_MINUTES)


def network_credits(rates: ShapedRates, vcpus: int) -> NetworkCredits | None:
    """Return the full bucket of an instance with these rates; None if it does not burst."""
    if not rates.bursts:
        return None
    above = (rates.peak - rates.baseline).bytes_per_second
    return NetworkCredits(
        capacity_bytes=above * burst_minutes(vcpus) * 60,
        source=f"not published by AWS; chosen to last as measured: {CASES_OF_2018}; {THREAD_OF_2019}",
        date=DATE,
    )
