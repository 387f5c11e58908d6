"""Watch a running fio of a sweep: collect its totals, end it when it is steady, and wait for its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from pytest_cloudbench.hosts.host import Job
from pytest_cloudbench.verdicts.sample_statistics import steadiness
from pytest_cloudbench.workloads.fio.errors import FioOutputError, FioRefused, FioTimedOut
from pytest_cloudbench.workloads.fio.options import fio_words
from pytest_cloudbench.workloads.sweep.plan import TICK_S, StepTimes
from pytest_cloudbench.workloads.sweep.status import NOTHING, StatusReader, Totals
from pytest_cloudbench.workloads.tool_run import cleaned_up

STEADY_RATE = 0.05
STEADY_LATENCY = 0.10
"""A run is steady if its two halves differ by at most this share."""
TIME_UP = "its time was up"
_SPARE_S = 60.0
_AFTER_INTERRUPT_S = 30.0


@dataclass(frozen=True)
class Watched:
    """The output of a run.

    ``totals`` begin with the end of the ramp. ``document`` is fio's last JSON. ``ended`` is the reason for the end.
    ``condition`` is a sentence if the run could not be measured as intended.
    """

    totals: tuple[Totals, ...]
    document: str
    ended: str
    condition: str | None = None

    @property
    def measured(self) -> Totals:
        """The totals between the end of the ramp and the last totals of the run."""
        return self.totals[-1].since(self.totals[0])


class _IsSteady(Exception):
    """Raised inside the wait to end it: the run is steady."""


class Watch:
    """Waits for the end of a run, and ends it early once it is steady."""

    def __init__(
        self,
        times: StepTimes,
        on_second: Callable[[Totals], None] | None = None,
        block_bytes: int | None = None,
    ) -> None:
        """on_second: called about once a second with the change of the totals. block_bytes: see `StatusReader`."""
        self._times = times
        self._on_second = on_second
        self._reader = StatusReader(block_bytes)
        self._totals: list[Totals] = []
        self._document = ""

    def until_end(self, running: Job) -> Watched:
        """Wait for the run's end. After an error nothing is left running.

        Raises FioRefused with fio's message, FioOutputError, FioTimedOut, and the host's errors.
        """
        with cleaned_up(running):
            exit_code, ended = self._wait(running)
            notes = list(self._reader.notes)
            if exit_code != 0 or not self._document:
                running.kill()  # the workers of a killed fio keep running
                notes += running.fetch(["stderr"]).get("stderr", b"").decode("utf-8", "replace").splitlines()
        if exit_code != 0:
            raise FioRefused(f"fio ended with exit code {exit_code}: {fio_words(chr(10).join(notes))}")
        if not self._totals or not self._totals[-1].both.ios:
            raise FioOutputError(f"fio did no I/O: {fio_words(chr(10).join(notes))}")
        return self._result(ended)

    def _wait(self, running: Job) -> tuple[int, str]:
        try:
            state = running.wait(self._times.length_s * 1.2 + _SPARE_S, on_output=self._take)
        except _IsSteady:
            seconds = self._measured()[-1].seconds
            running.kill()
            running.wait(_AFTER_INTERRUPT_S, on_output=self._take_end)
            return 0, f"steady after {seconds:.0f} s"
        except TimeoutError as error:
            raise FioTimedOut(
                f"fio on {running.host_label} was still running long after its {self._times.length_s} s and was ended"
            ) from error
        return state.exit_code if state.exit_code is not None else 0, TIME_UP

    def _take(self, output: str) -> None:
        for totals, document in self._reader.feed(output):
            self._document = document
            if self._on_second is not None:
                latest = totals.since(self._totals[-1] if self._totals else NOTHING)
                # The last totals may follow the previous ones by a few milliseconds, too short for a rate.
                if latest.seconds >= TICK_S / 2:
                    self._on_second(latest)
            self._totals.append(totals)
        if self._times.steady_after_s is not None and self._is_steady(self._times.steady_after_s):
            raise _IsSteady

    def _take_end(self, output: str) -> None:
        """Keep the result of an interrupted fio, but not its totals: the load has already ended."""
        for _, document in self._reader.feed(output):
            self._document = document

    def _measured(self) -> list[Totals]:
        """Return the totals from the end of the ramp while the load ran; empty if there are none yet."""
        begin_s = self._times.ramp_s - TICK_S / 2
        found = [NOTHING] if self._times.ramp_s == 0 else []
        return [*found, *(each for each in self._totals if begin_s <= each.seconds < self._times.length_s)]

    def _result(self, ended: str) -> Watched:
        measured = self._measured()
        if len(measured) > 1 and measured[-1].both.ios > measured[0].both.ios:
            return Watched(tuple(measured), self._document, ended)
        # On a very busy host fio printed totals too rarely, so the figures must include the ramp.
        whole = (NOTHING, self._totals[-1])
        return Watched(
            whole,
            self._document,
            ended,
            "fio printed its totals only at its end: the figures include the ramp",
        )

    def _is_steady(self, after_s: int) -> bool:
        measured = self._measured()
        if len(measured) < 2 or measured[-1].seconds - measured[0].seconds < after_s:
            return False
        rates, latencies = [], []
        for before, now in pairwise(measured):
            between = now.since(before)
            if between.both.ios > 0:
                rates.append(between.both.ios / between.seconds)
                latencies.append(between.both.sum_ns / between.both.ios)
        steady_rate = steadiness(rates, STEADY_RATE).steady
        return bool(steady_rate and steadiness(latencies, STEADY_LATENCY).steady)
