"""A ceiling: one limit of one owner, with its source and date."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cloudbench.limits.quantities import Iops, Rate, Size, Throughput, plain

INSTANCE = "instance"
FLOW = "flow"
VOLUME = "volume"
MACHINE = "machine"
GIVEN = "given"

MACHINE_OWNER = "the machine under the embedded region"


@dataclass(frozen=True)
class Ceiling:
    """One limit: its owner, quantity and figure, with its source and date.

    ``scope`` is "instance", "volume", "flow" (one connection between two instances), "machine" (the machine under an
    embedded region, which promises nothing) or "given" (a figure of the user). ``base`` is the level of a bursting
    limit once its credits are spent. ``burst_credits`` is the capacity of a full bucket, in I/Os or bytes as the
    limit counts, None if unknown. ``detail`` describes the owner further, such as a volume's provisioned figures or
    the end of a network. ``of_reads`` is True for a limit of reads alone, False for one of writes alone, None for
    both.
    """

    owner: str
    quantity: str
    scope: str
    limit: Rate
    source: str = ""
    date: str = ""
    base: Rate | None = None
    detail: str = ""
    note: str = ""
    of_reads: bool | None = None
    burst_credits: float | None = None

    @property
    def label(self) -> str:
        """The ceiling's name in a sentence: "c5.18xlarge EBS throughput", "io2 vol-0abc IOPS"."""
        quantity = self.quantity.removeprefix(f"{self.scope} ")
        return f"{self.owner} {quantity}".strip()

    @property
    def burst_s(self) -> float | None:
        """How long a full bucket lasts at the limit, in seconds; None if the limit does not burst or it is unknown."""
        if self.base is None or self.burst_credits is None:
            return None
        return self.burst_credits / (plain(self.limit) - plain(self.base))

    @property
    def promised(self) -> bool:
        """True if a provider promises this limit: all but the machine's own."""
        return self.scope != MACHINE

    @property
    def of_iops(self) -> bool:
        """True if it limits I/Os, False if it limits bytes."""
        return isinstance(self.limit, Iops)

    def same_as(self, other: Ceiling) -> bool:
        """Return True if both are the same limit of the same owner; their figures may differ."""
        return (self.owner, self.quantity, self.scope) == (other.owner, other.quantity, other.scope)

    def __str__(self) -> str:
        return f"{self.label}, {self.limit}"


@dataclass(frozen=True)
class MachineLimits:
    """What the machine under an embedded region can serve, without any limit on its disks and network.

    ``room`` is how much more volume data it can hold. ``network`` is what it carries between two instances, unshaped
    and driven by one client process. Each is None if unknown.
    """

    iops: Iops
    throughput: Throughput
    source: str = ""
    date: str = ""
    room: Size | None = None
    network: Throughput | None = None

    def ceilings(self) -> tuple[Ceiling, Ceiling]:
        """Return the two ceilings of its disks. They are not promised, but no measurement can exceed them."""
        return (
            Ceiling(MACHINE_OWNER, "machine IOPS", MACHINE, self.iops, self.source, self.date),
            Ceiling(MACHINE_OWNER, "machine throughput", MACHINE, self.throughput, self.source, self.date),
        )
