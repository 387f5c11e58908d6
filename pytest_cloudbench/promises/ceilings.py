"""A ceiling: one limit of one owner, with its source and the date it was read."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cloudbench.promises.quantities import Iops, Rate, Size, Throughput

INSTANCE = "instance"
VOLUME = "volume"
MACHINE = "machine"
GIVEN = "given"


@dataclass(frozen=True)
class Ceiling:
    """One limit: who sets it, of what, how high, and who says so.

    ``scope`` is "instance", "volume", "machine" (the machine under an embedded region: no promise of
    anybody) or "given" (a plain figure of the user). ``base`` is what remains of a limit that bursts
    once its credits are spent. ``detail`` says more about the owner, such as a volume's provisioned
    figures.
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

    @property
    def label(self) -> str:
        """The ceiling's name in a sentence: "c5.18xlarge EBS throughput", "io2 vol-0abc IOPS"."""
        quantity = self.quantity.removeprefix(f"{self.scope} ")
        return f"{self.owner} {quantity}".strip()

    @property
    def promised(self) -> bool:
        """Whether a provider promises this limit (all but the machine's own)."""
        return self.scope != MACHINE

    @property
    def of_iops(self) -> bool:
        """Whether it limits I/O operations (else bytes)."""
        return isinstance(self.limit, Iops)

    def same_as(self, other: Ceiling) -> bool:
        """Whether both are the same limit of the same owner, whatever their figures."""
        return (self.owner, self.quantity, self.scope) == (other.owner, other.quantity, other.scope)

    def __str__(self) -> str:
        return f"{self.label}, {self.limit}"


@dataclass(frozen=True)
class MachineLimits:
    """What the disks of the machine under an embedded region serve when nothing throttles them.

    ``room`` is how much more volume data that machine can hold; None where it does not say.
    """

    iops: Iops
    throughput: Throughput
    source: str = ""
    date: str = ""
    room: Size | None = None

    def ceilings(self) -> tuple[Ceiling, Ceiling]:
        """Its two ceilings; nobody promised them, but nothing can be measured above them."""
        owner = "the machine under the embedded region"
        return (
            Ceiling(owner, "machine IOPS", MACHINE, self.iops, self.source, self.date),
            Ceiling(owner, "machine throughput", MACHINE, self.throughput, self.source, self.date),
        )
