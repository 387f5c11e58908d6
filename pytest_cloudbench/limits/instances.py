"""The limits of an instance type, read from one entry of DescribeInstanceTypes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any

from pytest_cloudbench.limits.ceilings import INSTANCE, Ceiling
from pytest_cloudbench.limits.credits import EBS_BURST_S, per_second
from pytest_cloudbench.limits.instance_overrides import DATE_KEY, OVERRIDES, SOURCE_KEY
from pytest_cloudbench.limits.network_credits import (
    CASES_OF_2018,
    NetworkCard,
    NetworkCredits,
    ShapedRates,
    shaped_rates,
)
from pytest_cloudbench.limits.network_credits import DATE as MEASURED
from pytest_cloudbench.limits.network_credits import network_credits as full_bucket
from pytest_cloudbench.limits.quantities import Bandwidth, Iops, Rate, Throughput
from pytest_cloudbench.limits.recorded_limits import BadRecordedLimits, RecordedLimits

__all__ = ["OVERRIDES", "EbsCard", "EbsLimit", "InstanceLimits", "LocalDisk", "NetworkCard", "nearest_names"]

NETWORK_PEAK = "network bandwidth"
NETWORK_BASELINE = "network baseline"
"""Quantities of the two network ceilings."""


@dataclass(frozen=True)
class EbsLimit:
    """What an instance allows all its EBS volumes together."""

    iops: Iops
    throughput: Throughput


@dataclass(frozen=True)
class EbsCard:
    """One EBS card of an instance that has several, with its own limits."""

    index: int
    baseline: EbsLimit
    maximum: EbsLimit


@dataclass(frozen=True)
class LocalDisk:
    """Equal disks of the instance store: their count, size (GB, 1,000,000,000 bytes) and type."""

    count: int
    size_gb: int
    type: str


@dataclass(frozen=True)
class InstanceLimits:
    """What an instance type promises about storage and network.

    ``ebs_baseline`` holds for good, ``ebs_maximum`` for at least 30 minutes once in 24 hours; both are None for types
    without EBS figures (t2). ``ebs_optimised`` is "default", "supported" (the figures hold only if it is switched on)
    or "unsupported". ``recorded`` are limits that a test or a project states in place of the type's own.
    ``instance_store_nvme`` is True if the local disks are NVMe and therefore present without being requested.
    """

    name: str
    architectures: tuple[str, ...]
    bare_metal: bool
    nitro: bool
    ebs_baseline: EbsLimit | None
    ebs_maximum: EbsLimit | None
    ebs_optimised: str
    ebs_cards: tuple[EbsCard, ...]
    max_ebs_attachments: int | None
    nvme: bool
    network_cards: tuple[NetworkCard, ...]
    bandwidth_weightings: tuple[str, ...]
    instance_store: tuple[LocalDisk, ...]
    vcpus: int | None
    memory_mib: int | None
    source: str
    date: str
    recorded: RecordedLimits | None = None
    instance_store_nvme: bool = True

    @classmethod
    def from_describe(
        cls, entry: Mapping[str, Any], *, source: str = "EC2 DescribeInstanceTypes", date: str = ""
    ) -> InstanceLimits:
        """Read one element of ``InstanceTypes`` from a DescribeInstanceTypes answer.

        ``source`` and ``date`` say where and when it was read; an entry of `OVERRIDES` has its own.
        Raises ValueError if the entry names no instance type.
        """
        name = entry.get("InstanceType")
        if not name:
            raise ValueError("invalid entry of DescribeInstanceTypes: it has no InstanceType")
        ebs = entry.get("EbsInfo") or {}
        optimised = ebs.get("EbsOptimizedInfo")
        network = entry.get("NetworkInfo") or {}
        store = entry.get("InstanceStorageInfo") or {}
        bare_metal = bool(entry.get("BareMetal"))
        nvme = ebs.get("NvmeSupport") == "required"
        return cls(
            name=str(name),
            architectures=tuple((entry.get("ProcessorInfo") or {}).get("SupportedArchitectures") or ()),
            bare_metal=bare_metal,
            # Bare metal has no hypervisor; if its EBS is NVMe only, Nitro cards provide it.
            nitro=entry.get("Hypervisor") == "nitro" or (bare_metal and nvme),
            ebs_baseline=_ebs_limit(optimised, "Baseline"),
            ebs_maximum=_ebs_limit(optimised, "Maximum"),
            ebs_optimised=str(ebs.get("EbsOptimizedSupport") or "unsupported"),
            ebs_cards=tuple(_ebs_cards(ebs.get("EbsCards") or ())),
            max_ebs_attachments=ebs.get("MaximumEbsAttachments"),
            nvme=nvme,
            network_cards=tuple(_network_card(card) for card in _by_index(network.get("NetworkCards"))),
            bandwidth_weightings=tuple(network.get("BandwidthWeightings") or ()),
            instance_store=tuple(
                LocalDisk(int(disk["Count"]), int(disk["SizeInGB"]), str(disk["Type"]))
                for disk in store.get("Disks") or ()
            ),
            vcpus=(entry.get("VCpuInfo") or {}).get("DefaultVCpus"),
            memory_mib=(entry.get("MemoryInfo") or {}).get("SizeInMiB"),
            source=str(entry.get(SOURCE_KEY, source)),
            date=str(entry.get(DATE_KEY, date)),
            instance_store_nvme=store.get("NvmeSupport") != "unsupported",
        )

    @property
    def bursts(self) -> bool:
        """True if its EBS maximum lies above its baseline."""
        return self.ebs_maximum != self.ebs_baseline

    @property
    def ebs_iops(self) -> Ceiling | None:
        """The ceiling of IOPS over all its volumes; None if the type has no EBS figures."""
        if self.ebs_maximum is None:
            return None
        baseline = self.ebs_baseline or self.ebs_maximum
        stated = self.recorded is not None and self.recorded.iops is not None
        return self._ebs_ceiling("EBS IOPS", self.ebs_maximum.iops, baseline.iops, stated)

    @property
    def ebs_throughput(self) -> Ceiling | None:
        """The ceiling of throughput over all its volumes; None if the type has no EBS figures."""
        if self.ebs_maximum is None:
            return None
        baseline = self.ebs_baseline or self.ebs_maximum
        stated = self.recorded is not None and self.recorded.throughput is not None
        return self._ebs_ceiling("EBS throughput", self.ebs_maximum.throughput, baseline.throughput, stated)

    def with_recorded(self, recorded: RecordedLimits | None) -> InstanceLimits:
        """Return these limits with the recorded figures in place of the type's own.

        Raises BadRecordedLimits if only one of the two EBS figures was recorded and the type has none of its own.
        """
        if recorded is None:
            return self
        cards = self.network_cards
        if recorded.network is not None:
            peak = Bandwidth.of(recorded.network)
            baseline = Bandwidth.of(recorded.network_baseline or peak)
            cards = (NetworkCard(baseline, peak, performance=""), *cards[1:])
        return replace(
            self,
            ebs_baseline=self._recorded_ebs(
                self.ebs_baseline,
                recorded.iops_baseline or recorded.iops,
                recorded.throughput_baseline or recorded.throughput,
            ),
            ebs_maximum=self._recorded_ebs(self.ebs_maximum, recorded.iops, recorded.throughput),
            network_cards=cards,
            recorded=recorded,
        )

    def ebs_ceilings(self) -> tuple[Ceiling, ...]:
        """Return both EBS ceilings, IOPS first; none if the type has no EBS figures."""
        return tuple(ceiling for ceiling in (self.ebs_iops, self.ebs_throughput) if ceiling is not None)

    @property
    def network_rates(self) -> ShapedRates | None:
        """The rates of its first network card, headers included; None without network figures."""
        # An instance launched with one interface has it on its first card.
        return shaped_rates(self.network_cards[0], self.name) if self.network_cards else None

    @property
    def network_credits(self) -> NetworkCredits | None:
        """The full bucket of its network; None if the network does not burst."""
        rates = self.network_rates
        return None if rates is None else full_bucket(rates, self.vcpus or 1)

    @property
    def network_peak(self) -> Ceiling | None:
        """The ceiling of each direction of its network, while credits last if it bursts; None without a figure.

        If AWS describes the network of an old type by a word, the figure is the measured one.
        """
        rates = self.network_rates
        if rates is None:
            return None
        card = self.network_cards[0]
        base = rates.baseline if rates.bursts else None
        notes = [] if base is None else [f"while network credits last, then {base}"]
        source, date = self._network_source
        if card.peak is not None and rates.peak < card.peak:
            notes.append(
                f'AWS calls it "{card.performance}" and states a peak of {card.peak}, which was not measured'
            )
            source, date = CASES_OF_2018, MEASURED
        return Ceiling(
            self.name, NETWORK_PEAK, INSTANCE, rates.peak, source, date, base, note="; ".join(notes)
        )

    @property
    def network_baseline(self) -> Ceiling | None:
        """The ceiling of its network for good, equal to the peak if it does not burst; None without a figure."""
        card = self.network_cards[0] if self.network_cards else None
        if card is None or card.baseline is None:
            return None
        return Ceiling(self.name, NETWORK_BASELINE, INSTANCE, card.baseline, *self._network_source)

    @property
    def _network_source(self) -> tuple[str, str]:
        recorded = self.recorded
        if recorded is not None and recorded.network is not None:
            return recorded.source, recorded.date
        return self.source, self.date

    def _recorded_ebs(
        self, own: EbsLimit | None, iops: Iops | None, throughput: Throughput | None
    ) -> EbsLimit | None:
        if iops is None and throughput is None:
            return own
        if own is None and (iops is None or throughput is None):
            raise BadRecordedLimits(
                f"{self.name} has no EBS figures of its own, so recorded limits must give both: "
                f"got only {iops or throughput}"
            )
        return EbsLimit(
            iops or (own.iops if own else Iops(0)), throughput or (own.throughput if own else Throughput(0))
        )

    def _ebs_ceiling(self, quantity: str, maximum: Rate, baseline: Rate, stated: bool) -> Ceiling:
        recorded = self.recorded if stated else None
        bursts = maximum != baseline
        notes = [f"for at least 30 minutes once in 24 hours, then {baseline}"] if bursts else []
        if recorded is not None:
            notes.append("as recorded, in place of the type's own limit")
        return Ceiling(
            owner=self.name,
            quantity=quantity,
            scope=INSTANCE,
            limit=maximum,
            source=recorded.source if recorded else self.source,
            date=recorded.date if recorded else self.date,
            base=baseline if bursts else None,
            note="; ".join(notes),
            burst_credits=EBS_BURST_S * (per_second(maximum) - per_second(baseline)) if bursts else None,
        )


def nearest_names(name: str, known: Iterable[str], n: int = 3) -> list[str]:
    """Return the up to ``n`` known names most like ``name``, best first, for "did you mean" in an error.

    A name of the same family (before the dot) or size (after the dot) is preferred.
    """
    given = name.strip().lower()
    family, _, size = given.partition(".")

    def likeness(candidate: str) -> tuple[float, bool, str]:
        its_family, _, its_size = candidate.lower().partition(".")
        whole = SequenceMatcher(None, given, candidate.lower()).ratio()
        bonus = 0.3 * (its_family == family) + 0.2 * (its_size == size and bool(size))
        return (-(whole + bonus), its_family != family, candidate)

    ranked = sorted(likeness(candidate) for candidate in set(known))
    return [candidate for score, _, candidate in ranked[:n] if -score >= 0.6]


def _ebs_limit(info: Mapping[str, Any] | None, which: str) -> EbsLimit | None:
    if not info or info.get(f"{which}Iops") is None:
        return None
    mb_per_second = info.get(f"{which}ThroughputInMBps")
    if mb_per_second is not None:
        throughput = Throughput.from_mb(float(mb_per_second))
    else:
        throughput = Throughput.from_mbit(float(info[f"{which}BandwidthInMbps"]))
    return EbsLimit(Iops(int(info[f"{which}Iops"])), throughput)


def _ebs_cards(cards: Iterable[Mapping[str, Any]]) -> Iterable[EbsCard]:
    for card in cards:
        baseline, maximum = _ebs_limit(card, "Baseline"), _ebs_limit(card, "Maximum")
        if baseline and maximum:
            yield EbsCard(int(card.get("EbsCardIndex", 0)), baseline, maximum)


def _by_index(cards: Iterable[Mapping[str, Any]] | None) -> list[Mapping[str, Any]]:
    return sorted(cards or (), key=lambda card: int(card.get("NetworkCardIndex", 0)))


def _network_card(card: Mapping[str, Any]) -> NetworkCard:
    baseline, peak = card.get("BaselineBandwidthInGbps"), card.get("PeakBandwidthInGbps")
    return NetworkCard(
        baseline=Bandwidth.from_gbit(float(baseline)) if baseline is not None else None,
        peak=Bandwidth.from_gbit(float(peak)) if peak is not None else None,
        performance=str(card.get("NetworkPerformance", "")),
    )
