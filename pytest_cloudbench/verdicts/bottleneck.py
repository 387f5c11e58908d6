"""What held a run back: a list of suspects, each with the evidence for and against it, the most likely first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import Enum, IntEnum
from typing import Any

from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.verdicts.run_view import Bound
from pytest_cloudbench.verdicts.verdict import Evidence
from pytest_cloudbench.verdicts.wording import listed


class Kind(Enum):
    """What a suspect is. Suspects of equal standing are listed in this order."""

    LOAD = "load"
    CEILING = "ceiling"
    CREDITS = "credits"
    GENERATOR = "generator"
    MACHINE = "machine"
    UNKNOWN = "unknown"


class Standing(IntEnum):
    """How far the evidence goes: a figure rules the suspect out, allows it, points at it, or shows that it acted."""

    EXCLUDED = 0
    POSSIBLE = 1
    LIKELY = 2
    SHOWN = 3


@dataclass(frozen=True)
class Suspect:
    """Something that may have held a run back.

    ``sentence`` says how. ``ceiling`` is None for anything but a ceiling or its spent credits.
    """

    kind: Kind
    name: str
    standing: Standing
    sentence: str
    evidence_for: tuple[Evidence, ...] = ()
    evidence_against: tuple[Evidence, ...] = ()
    bound: Bound | None = None

    @property
    def ceiling(self) -> Ceiling | None:
        """The ceiling that is suspected."""
        return self.bound.ceiling if self.bound is not None else None

    @property
    def because(self) -> str:
        """What follows "held it back" in a sentence that names several suspects; "" if the name says it all."""
        start = f"{self.name} was the limit"
        return self.sentence.removeprefix(start) if self.sentence.startswith(start) else f": {self.sentence}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "kind": self.kind.value,
            "name": self.name,
            "standing": self.standing.name.lower(),
            "sentence": self.sentence,
            "for": [asdict(each) for each in self.evidence_for],
            "against": [asdict(each) for each in self.evidence_against],
        }


@dataclass(frozen=True, repr=False)
class Bottleneck:
    """The suspects of one run, the most likely first.

    ``leading`` are those that the evidence cannot tell apart: one if the bottleneck is known.
    """

    suspects: tuple[Suspect, ...]
    leading: tuple[Suspect, ...]
    sentence: str

    @property
    def name(self) -> str:
        """The name of the bottleneck; several with "or" if the evidence cannot tell them apart."""
        return listed((suspect.name for suspect in self.leading), "or")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "name": self.name,
            "sentence": self.sentence,
            "suspects": [suspect.to_dict() for suspect in self.suspects],
        }

    def __repr__(self) -> str:
        return self.sentence


def ranked(suspects: Iterable[Suspect]) -> tuple[Suspect, ...]:
    """Return suspects by their standing, those of equal standing in the order of `Kind`."""
    order = list(Kind)
    return tuple(sorted(suspects, key=lambda each: (-each.standing, order.index(each.kind))))


def leading(suspects: tuple[Suspect, ...]) -> tuple[Suspect, ...]:
    """Return the leading suspects of a ranked list: all of the highest standing if one is a ceiling, else the first.

    A ceiling may hold a rate together with another suspect. Without a ceiling, the first suspect explains the others: a
    load that requests too little keeps neither its generator nor the machine busy.
    """
    first = suspects[0]
    equal = tuple(each for each in suspects if each.standing == first.standing)
    return equal if any(each.bound is not None for each in equal) else (first,)
