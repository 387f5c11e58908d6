"""What an instance type promises, read from one entry of DescribeInstanceTypes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any

from pytest_cloudbench.limits.ceilings import INSTANCE, Ceiling
from pytest_cloudbench.limits.credits import EBS_BURST_S, per_second
from pytest_cloudbench.limits.instance_overrides import DATE_KEY, OVERRIDES, SOURCE_KEY
from pytest_cloudbench.limits.quantities import Bandwidth, Iops, Rate, Throughput
from pytest_cloudbench.limits.recorded_limits import BadRecordedLimits, RecordedLimits

__all__ = [
    "OVERRIDES",
    "EbsCard",
    "EbsLimit",
    "InstanceLimits",
    "LocalDisk",
    "NetworkCard",
    "nearest_names",
]


@dataclass(frozen=True)
class EbsLimit:
    """What an instance grants all its EBS volumes together."""

    iops: Iops
    throughput: Throughput


@dataclass(frozen=True)
class EbsCard:
    """One of several EBS cards, each with limits of its own."""

    index: int
    baseline: EbsLimit
    maximum: EbsLimit


@dataclass(frozen=True)
class NetworkCard:
    """One network card. ``performance`` is AWS's own wording, such as "Up to 10 Gigabit"."""

    baseline: Bandwidth | None
    peak: Bandwidth | None
    performance: str


@dataclass(frozen=True)
class LocalDisk:
    """Disks of the instance store: how many of one size (GB, 1,000,000,000 bytes) and type."""

    count: int
    size_gb: int
    type: str


@dataclass(frozen=True)
class InstanceLimits:
    """Everything an instance type promises about storage and network.

    ``ebs_baseline`` holds for good, ``ebs_maximum`` at least 30 minutes once in 24 hours; both are
    None for types without figures of their own (t2). ``ebs_optimised`` is "default", "supported" (the
    figures hold only when it is switched on) or "unsupported". ``recorded`` are EBS limits that a test states
    in place of the type's own. ``instance_store_nvme`` is whether its local disks are NVMe, and so are there unasked.
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

        ``source`` and ``date`` say where and when it was read; an entry of `OVERRIDES` brings its own.
        Raises ValueError for an entry without an instance type.
        """
        name = entry.get("InstanceType")
        if not name:
            raise ValueError("this is no entry of DescribeInstanceTypes: it has no InstanceType")
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
            # Bare metal names no hypervisor; its EBS comes through Nitro cards when it is NVMe only.
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
        """Whether its EBS maximum lies above what it holds for good."""
        return self.ebs_maximum != self.ebs_baseline

    @property
    def ebs_iops(self) -> Ceiling | None:
        """The ceiling of IOPS over all its volumes; None where the type has no EBS figures."""
        if self.ebs_maximum is None:
            return None
        return self._ceiling("EBS IOPS", self.ebs_maximum.iops, (self.ebs_baseline or self.ebs_maximum).iops)

    @property
    def ebs_throughput(self) -> Ceiling | None:
        """The ceiling of throughput over all its volumes; None where the type has no EBS figures."""
        if self.ebs_maximum is None:
            return None
        baseline = self.ebs_baseline or self.ebs_maximum
        return self._ceiling("EBS throughput", self.ebs_maximum.throughput, baseline.throughput)

    def with_recorded(self, recorded: RecordedLimits | None) -> InstanceLimits:
        """These limits with the EBS figures that were recorded in place of the type's own, for good.

        Raises BadRecordedLimits where only one of the two was recorded and the type has none of its own.
        """
        if recorded is None:
            return self
        own = self.ebs_maximum
        if own is None and (recorded.iops is None or recorded.throughput is None):
            raise BadRecordedLimits(
                f"{self.name} has no EBS figures of its own, so recorded limits must give both: {recorded} is one"
            )
        limit = EbsLimit(
            recorded.iops or (own.iops if own else Iops(0)),
            recorded.throughput or (own.throughput if own else Throughput(0)),
        )
        return replace(self, ebs_baseline=limit, ebs_maximum=limit, recorded=recorded)

    def ebs_ceilings(self) -> tuple[Ceiling, ...]:
        """Both EBS ceilings, IOPS first; empty where the type has no EBS figures."""
        return tuple(ceiling for ceiling in (self.ebs_iops, self.ebs_throughput) if ceiling is not None)

    @property
    def network_peak(self) -> Ceiling | None:
        """The ceiling of its network while burst credits last, if it bursts; None without a figure."""
        from pytest_cloudbench.limits.network import network_peak

        return network_peak(self)

    @property
    def network_baseline(self) -> Ceiling | None:
        """The ceiling of its network for good; None without a figure."""
        from pytest_cloudbench.limits.network import network_baseline

        return network_baseline(self)

    def _ceiling(self, quantity: str, maximum: Rate, baseline: Rate) -> Ceiling:
        bursts = maximum != baseline
        recorded = self.recorded
        stated = recorded is not None and maximum in (recorded.iops, recorded.throughput)
        note = f"for at least 30 minutes once in 24 hours, then {baseline}" if bursts else ""
        return Ceiling(
            owner=self.name,
            quantity=quantity,
            scope=INSTANCE,
            limit=maximum,
            source=recorded.source if recorded and stated else self.source,
            date=recorded.date if recorded and stated else self.date,
            base=baseline if bursts else None,
            note="as recorded, in place of what the type has today" if stated else note,
            burst_credits=EBS_BURST_S * (per_second(maximum) - per_second(baseline)) if bursts else None,
        )


def nearest_names(name: str, known: Iterable[str], n: int = 3) -> list[str]:
    """The ``n`` known names most like ``name``, best first; for "did you mean" in an error.

    Names of the same family (before the dot) or of the same size (after it) come first among equals.
    Empty when nothing is like it.
    """
    wanted = name.strip().lower()
    family, _, size = wanted.partition(".")

    def likeness(candidate: str) -> tuple[float, bool, str]:
        its_family, _, its_size = candidate.lower().partition(".")
        whole = SequenceMatcher(None, wanted, candidate.lower()).ratio()
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
