"""How far a run is. iperf3 writes its JSON at the end only, so the client's interface is looked at instead."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.workloads.iperf3.job import Iperf3Job


@dataclass(frozen=True)
class NetworkProgress:
    """Where a running load stands, over its whole length, what is omitted included.

    `throughput` is of the last second, everything that its interface carried, headers too; None where it
    cannot be seen. `eta_s` are real seconds left.
    """

    percent: float
    throughput: Bandwidth | None
    eta_s: float

    def __str__(self) -> str:
        rate = f" {self.throughput}" if self.throughput is not None else ""
        return f"{self.percent:.0f} %{rate}, {self.eta_s:.0f} s left"


class ProgressReader:
    """Takes the load script's samples in pieces as they arrive ("UPTIME RECEIVED SENT", or the
    uptime alone), gives the progress."""

    def __init__(self, job: Iperf3Job, length_s: float) -> None:
        self._ways = (job.reverse or job.bidirectional, not job.reverse)
        self._length_s = max(1.0, length_s)
        self._rest = ""
        self._first_s = 0.0
        self._last: tuple[float, int | None] | None = None

    def feed(self, text: str) -> list[NetworkProgress]:
        """Progress of every line completed by `text`; a line that is no sample is passed over."""
        *lines, self._rest = (self._rest + text).split("\n")
        return [progress for line in lines if (progress := self._read(line)) is not None]

    def _read(self, line: str) -> NetworkProgress | None:
        words = line.split()
        try:
            at_s = float(words[0])
            moved = [int(word) for word in words[1:3]]
        except (IndexError, ValueError):
            return None
        before, self._last = self._last, (at_s, self._carried(moved))
        if before is None:
            self._first_s = at_s
            return None
        passed_s = at_s - before[0]
        if not 0 < passed_s < float("inf"):
            return None
        done_s = min(max(0.0, at_s - self._first_s), self._length_s)
        carried = self._last[1] - before[1] if self._last[1] is not None and before[1] is not None else None
        return NetworkProgress(
            percent=100.0 * done_s / self._length_s,
            throughput=None if carried is None else Bandwidth(max(0, carried) / passed_s),
            eta_s=self._length_s - done_s,
        )

    def _carried(self, moved: list[int]) -> int | None:
        """Bytes received and sent, of the direction of the load; None where the sample has none."""
        if len(moved) < 2:
            return None
        return sum(each for each, ours in zip(moved, self._ways, strict=True) if ours)
