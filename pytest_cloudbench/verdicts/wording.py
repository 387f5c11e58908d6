"""The words of verdicts: figures, shares, times and ceilings as they appear in a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_cloudbench.limits.ceilings import VOLUME, Ceiling
from pytest_cloudbench.limits.envelope import Envelope, Level
from pytest_cloudbench.limits.quantities import Iops, Rate, Size, Throughput, figure
from pytest_cloudbench.verdicts.targets import ratio

_ID = re.compile(r"\s*\b(?:i|vol|snap)-[0-9a-f]+\b")


def percent(share: float, *bounds: float) -> str:
    """Return a share of 1 as per cent, with as many decimals as it takes not to round across a bound.

    Near 100 % at least one decimal is shown: "11 %", "100.0 %", "89.99 %" against a bound of 90.
    """
    start = 1 if abs(share - 1) <= 0.1 else 0
    for decimals in range(start, 7):
        text = f"{share * 100:,.{decimals}f}"
        shown = float(text.replace(",", "")) / 100
        if all((shown < bound) == (share < bound) and (shown > bound) == (share > bound) for bound in bounds):
            return f"{text} %"
    return f"{share * 100:,.{start}f} %"


def tolerance(share: float) -> str:
    """Return a tolerance as per cent without rounding noise: 0.9 is "90 %"."""
    return f"{figure(round(share * 100, 6), 4)} %"


def of(measured: Rate, asked: Rate) -> str:
    """Return both figures with one unit: "9,061 of 80,000 IOPS"."""
    if isinstance(measured, Throughput) and isinstance(asked, Throughput):
        return f"{measured.beside(asked)} of {asked}"
    return f"{measured.number} of {asked}"


def at_least(measured: Rate, asked: Rate, within: float) -> str:
    """Return a rate against its floor: "9,061 of 80,000 IOPS (11 %, at least 90 % required)"."""
    share = percent(ratio(measured, asked), 1 - within)
    return f"{of(measured, asked)} ({share}, at least {tolerance(1 - within)} required)"


def around(measured: Rate, asked: Rate, within: float) -> str:
    """Return a rate against a band: "45,120 of 80,000 IOPS (56 %, 95 to 105 % required)"."""
    share = percent(ratio(measured, asked), 1 - within, 1 + within)
    low, high = tolerance(1 - within).removesuffix(" %"), tolerance(1 + within)
    return f"{of(measured, asked)} ({share}, {low} to {high} required)"


@dataclass(frozen=True)
class Named:
    """A ceiling in a sentence, with the level at which it acted and a remark."""

    ceiling: Ceiling
    level: Level | None = None
    remark: str = ""

    def figure_at(self, block_size: Size) -> tuple[str, str]:
        """Return its figure, such as "2,264.98 MiB/s at 256 KiB", and the remarks about it."""
        limit, level = self.ceiling.limit, self.level
        rate = level.like(limit) if level is not None and level.how else limit
        text = f"{rate} at {block_size}" if isinstance(rate, Throughput) else f"{rate}"
        if level is not None and not level.how and isinstance(limit, Iops) and level.iops != limit:
            text = f"{limit} = {level.iops} at {block_size}"
        remarks = [level.how if level is not None else "", self.remark]
        return text, ", ".join(remark for remark in remarks if remark)


def named(found: Sequence[Named], block_size: Size) -> str:
    """Return ceilings with their figures.

    A single ceiling reads "c5.18xlarge EBS throughput, 2,264.98 MiB/s at 256 KiB" or "gp2 vol-0abc IOPS, 300 IOPS
    (burst spent)"; in a list, figures are in brackets.
    """
    if len(found) == 1:
        text, remark = found[0].figure_at(block_size)
        return f"{found[0].ceiling.label}, {text}" + (f" ({remark})" if remark else "")
    words = []
    for one in found:
        text, remark = one.figure_at(block_size)
        words.append(f"{one.ceiling.label} ({text}{', ' if remark else ''}{remark})")
    return listed(words)


def could_give(ceiling: Ceiling, envelope: Envelope, like: Rate) -> str:
    """Return what another ceiling would have allowed: "the volume (io2 80 GiB/80,000 IOPS) could give 4,000 MiB/s"."""
    allowed = envelope.iops_of(ceiling) if isinstance(like, Iops) else envelope.throughput_of(ceiling)
    if ceiling.scope == VOLUME:
        noun = "the volumes" if " x " in ceiling.detail or " + " in ceiling.detail else "the volume"
        return f"{noun} ({ceiling.detail or ceiling.owner}) could give {allowed}"
    return f"{ceiling.label} would allow {allowed}"


def listed(words: Iterable[str], last: str = "and") -> str:
    """Return words as a list in a sentence: "a", "a and b", "a, b and c"."""
    items = list(words)
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {last} {items[-1]}"


def without_ids(text: str) -> str:
    """Return a text without the ids of instances, volumes and snapshots, which differ from run to run."""
    return _ID.sub("", text).strip()


def duration(seconds: float) -> str:
    """Return a time in a sentence: "7.6 us", "0.42 ms", "12 ms", "300 s"."""
    if seconds < 0.0001:
        return f"{figure(seconds * 1e6, 1)} us"
    if seconds < 1:
        return f"{figure(seconds * 1000, 2 if seconds < 0.01 else 0)} ms"
    return f"{figure(seconds, 1 if seconds < 100 else 0)} s"


def moment(seconds: float) -> str:
    """Return a time of the test: "45.3 s", "1,260 s (21 min)"."""
    text = f"{figure(seconds, 1 if seconds < 100 else 0)} s"
    if seconds < 120:
        return text
    return f"{text} ({figure(seconds / 60, 0 if abs(seconds / 60 - round(seconds / 60)) < 0.05 else 1)} min)"
