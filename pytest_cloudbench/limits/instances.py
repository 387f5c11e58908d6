"""The limits of an instance type, read from one entry of DescribeInstanceTypes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any

from pytest_cloudbench.limits.bandwidth_weighting import DEFAULT, EBS_FIRST, Span, UnsupportedOption, weighted
from pytest_cloudbench.limits.ceilings import INSTANCE, Ceiling
from pytest_cloudbench.limits.credits import EBS_BURST_S
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
from pytest_cloudbench.limits.quantities import Bandwidth, Iops, Rate, Throughput, plain
from pytest_cloudbench.limits.recorded_limits import BadRecordedLimits, RecordedLimits

__all__ = ["OVERRIDES", "EbsCard", "EbsLimit", "InstanceLimits", "LocalDisk", "NetworkCard", "nearest_names"]

NETWORK_PEAK = "network bandwidth"
NETWORK_BASELINE = "network baseline"
"""Quantities of the two network ceilings."""
NOT_OPTIMISED = "off"
"""`InstanceLimits.ebs_optimised` of an instance launched without EBS optimisation, which its EBS figures require."""


@dataclass(frozen=True)
class EbsLimit:
    """What an instance allows all its EBS volumes together."""

    iops: Iops
    throughput: Throughput

    def __mul__(self, times: float) -> EbsLimit:
        return EbsLimit(self.iops * times, self.throughput * times)

    def resized(self, old: EbsLimit, new: EbsLimit) -> EbsLimit:
        """Return these limits in the proportion of ``new`` to ``old``."""
        return EbsLimit(
            self.iops * (new.iops / old.iops), self.throughput * (new.throughput / old.throughput)
        )

    @classmethod
    def lowest(cls, limits: Sequence[EbsLimit]) -> EbsLimit:
        """Return the lowest IOPS and the lowest throughput of these limits."""
        return cls(min(limit.iops for limit in limits), min(limit.throughput for limit in limits))


@dataclass(frozen=True)
class EbsCard:
    """One EBS card of an instance that has several. It limits the volumes that are attached to it."""

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

    ``ebs_baseline`` holds permanently, ``ebs_maximum`` for at least 30 minutes once in 24 hours; both are None for
    types without EBS figures (t2). ``ebs_optimised`` is "default", "supported" (the figures hold only if it is switched
    on), "unsupported", or "off" for an instance launched without it. ``recorded`` are limits that a test or a project
    states in place of the type's own.
    ``instance_store_nvme`` is True if the local disks are NVMe and therefore present without being requested.
    ``ena_express`` is True if the type supports ENA Express, ``weighting`` is the bandwidth weighting of the figures.
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
    ena_express: bool = False
    weighting: str = DEFAULT

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
            nitro=nvme if bare_metal else entry.get("Hypervisor", "nitro") == "nitro",
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
            ena_express=bool(network.get("EnaSrdSupported")),
        )

    @property
    def bursts(self) -> bool:
        """True if its EBS maximum lies above its baseline."""
        return self.ebs_maximum != self.ebs_baseline

    @property
    def ebs_iops(self) -> Ceiling | None:
        """The ceiling of IOPS over volumes on all its EBS cards; None if the type has no EBS figures."""
        return next(iter(self.ebs_ceilings()), None)

    @property
    def ebs_throughput(self) -> Ceiling | None:
        """The ceiling of throughput over volumes on all its EBS cards; None if the type has no EBS figures."""
        return next(iter(self.ebs_ceilings()[1:]), None)

    def ebs_ceilings(self, cards: Sequence[int] = ()) -> tuple[Ceiling, ...]:
        """Return both EBS ceilings, IOPS first; none if the type has no EBS figures.

        ``cards`` has the EBS card of each volume of a load, which is spread evenly over the volumes; empty means all
        cards alike. A card with more than its share of the volumes holds the whole load back. Raises ValueError for a
        card that the type does not have.
        """
        if self.ebs_maximum is None:
            return ()
        baseline, maximum = self.ebs_baseline or self.ebs_maximum, self.ebs_maximum
        owner, note = self.name, ""
        if self.ebs_cards and cards:
            volumes = {index: cards.count(index) for index in sorted(set(cards))}
            used = [(self.ebs_card(index), len(cards) / count) for index, count in volumes.items()]
            on_cards = EbsLimit.lowest([card.maximum * times for card, times in used])
            if on_cards != maximum:
                baseline = EbsLimit.lowest([card.baseline * times for card, times in used])
                maximum = on_cards
                owner += f" card{'s' if len(volumes) > 1 else ''} {' and '.join(map(str, volumes))}"
                each = ", ".join(f"{count} on card {index}" for index, count in volumes.items())
                note = f"volumes: {each} of {len(self.ebs_cards)} EBS cards"
        return (
            self._ebs_ceiling(owner, "EBS IOPS", maximum.iops, baseline.iops, note),
            self._ebs_ceiling(owner, "EBS throughput", maximum.throughput, baseline.throughput, note),
        )

    def spread_over_cards(self, count: int, used: Sequence[int] = ()) -> list[int]:
        """Return the EBS cards for ``count`` new volumes: for each the card with the fewest.

        ``used`` has the card of each existing volume.
        """
        if not self.ebs_cards:
            return [0] * count
        cards = list(used)
        for _ in range(count):
            cards.append(min((cards.count(card.index), card.index) for card in self.ebs_cards)[1])
        return cards[len(used) :]

    def ebs_card(self, index: int) -> EbsCard:
        """Return one of its EBS cards. Raises UnsupportedOption (a ValueError) if the type does not have it."""
        for card in self.ebs_cards:
            if card.index == index:
                return card
        has = ", ".join(str(card.index) for card in self.ebs_cards) or "0 only"
        raise UnsupportedOption(f"{self.name} has no EBS card {index}: use one of its cards ({has})")

    def check_options(self, *, weighting: str = DEFAULT, ena_express: bool = False, card: int = 0) -> None:
        """Raise UnsupportedOption (a ValueError) for an option of a launch or attachment that the type lacks."""
        if weighting != DEFAULT and weighting not in self.bandwidth_weightings:
            has = ", ".join(self.bandwidth_weightings) or "no weighting at all"
            raise UnsupportedOption(
                f"{self.name} does not support the bandwidth weighting {weighting!r}: it supports {has}; families "
                "such as m8g, c8g and r8g support vpc-1 and ebs-1"
            )
        if ena_express and not self.ena_express:
            raise UnsupportedOption(
                f"{self.name} does not support ENA Express (EnaSrdSupported of DescribeInstanceTypes): leave "
                "ena_express out, or use a type that supports it, such as m6i.8xlarge"
            )
        if card:
            self.ebs_card(card)

    def with_weighting(self, weighting: str) -> InstanceLimits:
        """Return the limits after a launch with this bandwidth weighting.

        Raises UnsupportedOption (a ValueError) for one that the type does not support.
        """
        self.check_options(weighting=weighting)
        rates = self.network_rates
        if weighting == DEFAULT or rates is None or self.ebs_maximum is None:
            return self
        maximum = self.ebs_maximum
        baseline = self.ebs_baseline or maximum
        network = Span(rates.baseline, rates.peak)
        ebs = Span(baseline.throughput, maximum.throughput)
        if weighting == EBS_FIRST:
            ebs, network = weighted(ebs, network, self.name)
        else:
            network, ebs = weighted(network, ebs, self.name)
        first, *others = self.network_cards
        card = replace(first, baseline=Bandwidth.of(network.baseline), peak=Bandwidth.of(network.peak))
        limits = self._with_ebs(EbsLimit(baseline.iops, ebs.baseline), EbsLimit(maximum.iops, ebs.peak))
        return replace(limits, network_cards=(card, *others), weighting=weighting)

    def not_optimised(self) -> InstanceLimits:
        """Return the limits of an instance without EBS optimisation, for which AWS states no EBS figures."""
        return replace(self, ebs_baseline=None, ebs_maximum=None, ebs_cards=(), ebs_optimised=NOT_OPTIMISED)

    def with_recorded(self, recorded: RecordedLimits | None) -> InstanceLimits:
        """Return these limits with the recorded figures in place of the type's own.

        If the type has several EBS cards, each card keeps its share of the figures. Raises BadRecordedLimits if only
        one of the two EBS figures was recorded and the type has none of its own.
        """
        if recorded is None:
            return self
        cards = self.network_cards
        if recorded.network is not None:
            peak = Bandwidth.of(recorded.network)
            baseline = Bandwidth.of(recorded.network_baseline or peak)
            cards = (NetworkCard(baseline, peak, performance=""), *cards[1:])
        limits = self._with_ebs(
            self._recorded_ebs(
                self.ebs_baseline,
                recorded.iops_baseline or recorded.iops,
                recorded.throughput_baseline or recorded.throughput,
            ),
            self._recorded_ebs(self.ebs_maximum, recorded.iops, recorded.throughput),
        )
        return replace(limits, network_cards=cards, recorded=recorded)

    def _with_ebs(self, baseline: EbsLimit | None, maximum: EbsLimit | None) -> InstanceLimits:
        cards = self.ebs_cards
        if cards and baseline and maximum and self.ebs_baseline and self.ebs_maximum:
            cards = tuple(
                EbsCard(
                    card.index,
                    card.baseline.resized(self.ebs_baseline, baseline),
                    card.maximum.resized(self.ebs_maximum, maximum),
                )
                for card in cards
            )
        return replace(self, ebs_baseline=baseline, ebs_maximum=maximum, ebs_cards=cards)

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
        if self.weighting != DEFAULT:
            notes.append(f"bandwidth weighting {self.weighting}")
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
        """The lasting ceiling of its network, equal to the peak if it does not burst; None without a figure."""
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

    def _ebs_ceiling(self, owner: str, quantity: str, maximum: Rate, baseline: Rate, note: str) -> Ceiling:
        stated = self.recorded and (
            self.recorded.iops if isinstance(maximum, Iops) else self.recorded.throughput
        )
        recorded = self.recorded if stated is not None else None
        bursts = maximum != baseline
        notes = [f"for at least 30 minutes once in 24 hours, then {baseline}"] if bursts else []
        if recorded is not None:
            notes.append("as recorded, in place of the type's own limit")
        elif self.weighting != DEFAULT:
            notes.append(f"bandwidth weighting {self.weighting}")
        if note:
            notes.append(note)
        return Ceiling(
            owner=owner,
            quantity=quantity,
            scope=INSTANCE,
            limit=maximum,
            source=recorded.source if recorded else self.source,
            date=recorded.date if recorded else self.date,
            base=baseline if bursts else None,
            note="; ".join(notes),
            burst_credits=EBS_BURST_S * (plain(maximum) - plain(baseline)) if bursts else None,
        )


def nearest_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the up to three known names most like ``name``, best first, for "did you mean" in an error.

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
    return [candidate for score, _, candidate in ranked[:3] if -score >= 0.6]


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
