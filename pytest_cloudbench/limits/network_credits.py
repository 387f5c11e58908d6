"""Network rates and burst credits of an instance type, as an embedded region shapes them. Data with sources.

AWS publishes the peak and the baseline (DescribeInstanceTypes) and that a burst lasts "typically from 5 to 60
minutes, depending on the instance size" (`USER_GUIDE`). It publishes neither the size of the bucket nor the
law behind it. Measured and published by others, in 2018 and 2019:

* M5 and C5 "Up to 10 Gigabit": bursts of 15 to 40 minutes, longer for larger sizes (`CASES_OF_2018`); c5.xlarge
  13 minutes, c5.2xlarge 26 minutes, full again after a stop and start (`THREAD_OF_2019`).
* M4 and C4, whose network AWS calls "Moderate" or "High": flat at the baseline, no burst (`CASES_OF_2018`).
* T2, "Low to Moderate" or "Moderate": between the baseline and about twice that, at most about 1 Gbit/s (t2.medium
  0.2-0.5).
* Token buckets, drained by what goes above the baseline and refilled by what stays below it (`NSDI_2020`).

Chosen by us: one duration per number of vCPUs (`BURST_MINUTES`), within what was measured; that a full bucket
holds just that long at the full peak; that the busier direction drains it; twice the baseline as T2's peak.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.quantities import Bandwidth

USER_GUIDE = 'EC2 user guide, "Amazon EC2 instance network bandwidth"'
CASES_OF_2018 = "iperf3 between equal instances of T2, M4, M5, C4 and C5, 30 minutes each, published 2018"
THREAD_OF_2019 = "https://threadreaderapp.com/thread/1120171727399448576.html (D. Vassallo, April 2019)"
NSDI_2020 = '"Is Big Data Performance Reproducible in Modern Cloud Networks?", NSDI 2020'
DATE = "2026-11"

COARSE_WORDS = frozenset({"Very Low", "Low", "Low to Moderate", "Moderate", "High"})
"""How AWS describes a network without a figure; types described so do not burst beyond what is said here."""

T2_PEAK_OVER_BASELINE = 2.0

BURST_MINUTES = ((2, 15.0), (4, 20.0), (8, 26.0))
"""(vCPUs up to, minutes of a full burst): "large", "xlarge" and "2xlarge" of M5 and C5."""

LONGEST_BURST_MINUTES = 40.0
"""For all larger ones."""


@dataclass(frozen=True)
class ShapedRates:
    """What an instance may send, and as much receive: ``peak`` while its credits last, then ``baseline``."""

    peak: Bandwidth
    baseline: Bandwidth

    @property
    def bursts(self) -> bool:
        """Whether the peak lies above what is held for good."""
        return self.peak > self.baseline


@dataclass(frozen=True)
class NetworkCredits:
    """A bucket of bytes that are sent or received above the baseline, and who says how large it is."""

    capacity_bytes: float
    source: str
    date: str


def shaped_rates(limits: InstanceLimits) -> ShapedRates | None:
    """The rates of an instance's first network card; None for a type without network figures.

    Both are what passes on the wire, headers included, as the service counts.
    """
    card = limits.network_cards[0] if limits.network_cards else None
    if card is None:
        return None
    peak = card.peak or card.baseline
    if peak is None:
        return None
    baseline = min(card.baseline or peak, peak)
    if card.performance in COARSE_WORDS:
        over = T2_PEAK_OVER_BASELINE if limits.name.startswith("t2.") else 1.0
        peak = min(peak, baseline * over)
    return ShapedRates(Bandwidth.of(peak), Bandwidth.of(baseline))


def burst_minutes(limits: InstanceLimits) -> float:
    """How long a full bucket lasts at the full peak, by the type's size."""
    vcpus = limits.vcpus or 1
    return next((minutes for most, minutes in BURST_MINUTES if vcpus <= most), LONGEST_BURST_MINUTES)


def network_credits(limits: InstanceLimits) -> NetworkCredits | None:
    """The full bucket of an instance of this type; None where nothing bursts."""
    rates = shaped_rates(limits)
    if rates is None or not rates.bursts:
        return None
    above = (rates.peak - rates.baseline).bytes_per_second
    return NetworkCredits(
        capacity_bytes=above * burst_minutes(limits) * 60,
        source=f"not published by AWS; chosen to last as measured: {CASES_OF_2018}; {THREAD_OF_2019}",
        date=DATE,
    )
