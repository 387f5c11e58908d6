"""The errors of fio runs."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_cloudbench.workloads.errors import WorkloadFailed, WorkloadRefused


class FioError(WorkloadFailed):
    """fio could not make a measurement."""


class BadFioJob(FioError, WorkloadRefused, ValueError):
    """The job cannot be run as written. Nothing was started."""


class UnknownFioOption(BadFioJob):
    """The fio on the host has no such option."""

    def __init__(self, option: str, version: str, nearest: Sequence[str]) -> None:
        self.option = option
        self.nearest = tuple(nearest)
        hint = f"; nearest: {', '.join(nearest)}" if nearest else ""
        super().__init__(f"{version} has no option {option!r}{hint}")


class FioRefused(FioError, WorkloadRefused):
    """fio refused the job or ended with an error; the message has its own words."""


class FioOutputError(FioError):
    """fio succeeded but its output cannot be read."""


class FioKilled(FioError):
    """fio was killed while it ran; the message has the cause that the host shows."""


class FioTimedOut(FioError):
    """fio was still running long after its run time and was ended."""
