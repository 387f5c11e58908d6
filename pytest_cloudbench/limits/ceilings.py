"""A ceiling: one limit of one owner, with its source and the date it was read."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cloudbench.limits.quantities import Iops, Rate, Size, Throughput

INSTANCE = "instance"
FLOW = "flow"
VOLUME = "volume"
MACHINE = "machine"
GIVEN = "given"

MACHINE_OWNER = "the machine under the embedded region"


@dataclass(frozen=True)
class Ceiling:
    """One limit: who sets it, of what, how high, and who says so.

    ``scope`` is "instance", "volume", "flow" (one connection between two instances), "machine" (the
    machine under an embedded region: no promise of anybody) or "given" (a plain figure of the user).
    ``base`` is what remains of a limit that bursts once its credits are spent. ``detail`` says more about
    the owner, such as a volume's provisioned figures or the end of a network that an instance is.
    ``burst_credits`` is what a full bucket holds, in I/Os or bytes as the limit counts them, where it is known.
    ``of_reads`` is True for a limit of reads alone, False for one of writes alone, None for one of both.
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
        """How long a full bucket lasts at the limit, in seconds; None where it does not burst or is not known."""
        if self.base is None or self.burst_credits is None:
            return None
        above = self.limit - self.base  # type: ignore[operator]  # both of one quantity
        return self.burst_credits / (above.per_second if isinstance(above, Iops) else above.bytes_per_second)

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
    """What the machine under an embedded region serves when nothing throttles its disks and its network.

    ``room`` is how much more volume data that machine can hold, ``network`` what it carries between two
    instances, unshaped, driven by one client process; each None where it does not say.
    """

    iops: Iops
    throughput: Throughput
    source: str = ""
    date: str = ""
    room: Size | None = None
    network: Throughput | None = None

    def ceilings(self) -> tuple[Ceiling, Ceiling]:
        """The two of its disks; nobody promised them, but nothing can be measured above them."""
        return (
            Ceiling(MACHINE_OWNER, "machine IOPS", MACHINE, self.iops, self.source, self.date),
            Ceiling(MACHINE_OWNER, "machine throughput", MACHINE, self.throughput, self.source, self.date),
        )
