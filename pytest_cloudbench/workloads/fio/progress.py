"""Parser of fio's progress lines (`--eta=always --eta-newline=1`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PERCENT = re.compile(r"\[(\d+(?:\.\d+)?)%\]")
_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_NUMBER = re.compile(r"(?:^|[,\s])([rwt])=([0-9]+(?:\.[0-9]+)?)([kKMGT]?i?)(B/s|b/s)?")
_ETA = re.compile(r"\[eta (?:(\d+)d:)?(?:(\d+)h:)?(\d+)m:(\d+)s\]")

_BYTE_UNITS = {
    "": 1.0,
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "Ki": 2.0**10,
    "ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
}
_MIB = 2.0**20


@dataclass(frozen=True)
class Progress:
    """The progress of a running fio, over its whole length with the ramp.

    `iops` and `mib_s` are rates of the last second, reads and writes together; `eta_s` is the time left in seconds.
    """

    percent: float
    iops: float
    mib_s: float
    eta_s: float | None = None

    def __str__(self) -> str:
        left = f", {self.eta_s:.0f} s left" if self.eta_s is not None else ""
        return f"{self.percent:.0f} % {self.iops:,.0f} IOPS {self.mib_s:,.1f} MiB/s{left}"


class ProgressReader:
    """Finds the progress in fio's standard output, which arrives in pieces."""

    def __init__(self) -> None:
        self._rest = ""

    def feed(self, text: str) -> list[Progress]:
        """Return the progress of every line that `text` completes; fio ends lines with CR, LF or both."""
        self._rest += text
        *lines, self._rest = re.split(r"[\r\n]", self._rest)
        return [progress for line in lines if (progress := parse_progress(line)) is not None]


def parse_progress(line: str) -> Progress | None:
    """Parse a line such as "Jobs: 3 (f=3): [m(3)][60.0%][r=6000KiB/s][r=1500 IOPS][eta 00m:02s]".

    Return None for any other line. Never raises.
    """
    percent = _PERCENT.search(line)
    if not line.startswith("Jobs:") or percent is None:
        return None
    iops = 0.0
    bytes_s = 0.0
    for inside in _BRACKET.findall(line):
        counts_ios = inside.endswith(" IOPS")
        for _, number, scale, rate in _NUMBER.findall(inside.removesuffix(" IOPS")):
            value = float(number) * _BYTE_UNITS.get(scale, 0.0)
            if counts_ios:
                iops += value
            elif rate == "B/s":
                bytes_s += value
            elif rate == "b/s":
                bytes_s += value / 8.0
    return Progress(min(100.0, float(percent.group(1))), iops, bytes_s / _MIB, _eta_s(line))


_DIGITS = 6
"""A number with more digits is not part of a time."""


def _eta_s(line: str) -> float | None:
    match = _ETA.search(line)
    if match is None or any(len(part or "") > _DIGITS for part in match.groups()):
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
