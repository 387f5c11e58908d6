"""Where a running creation of files stands, from the lines it says."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cloudbench.workloads.create_files.job import FilesJob
from pytest_cloudbench.workloads.create_files.record import Sample, parse_sample

_MIB = 2.0**20


@dataclass(frozen=True)
class Progress:
    """How far it is, with the rates of the last second.

    First files are created: `percent` of them are, `eta_s` seconds are left for the rest. Once all are, their
    data is on its way to the device: `percent` of it is there, and `mib_s` is what arrives; both figures are None,
    and `mib_s` 0, where the device's counters are not known or nothing arrived yet.
    """

    percent: float | None
    files: int
    files_s: float
    mib_s: float
    all_created: bool = False
    eta_s: float | None = None

    def __str__(self) -> str:
        if self.all_created:
            reached = "" if self.percent is None else f", {self.percent:.0f} % on the device"
            return f"all {self.files:,} files created{reached} {self.mib_s:,.1f} MiB/s"
        return f"{self.percent:.0f} % {self.files_s:,.0f} files/s {self.mib_s:,.1f} MiB/s"


class ProgressReader:
    """Takes the job's standard output in pieces as it arrives, gives the progress found in it."""

    def __init__(self, job: FilesJob) -> None:
        self._job = job
        self._rest = ""
        self._before = Sample(0.0, 0, 0, 0, 0)

    def feed(self, text: str) -> list[Progress]:
        """The progress of every line that `text` completes. Never raises."""
        *lines, self._rest = (self._rest + text).split("\n")
        return [self._progress(sample) for line in lines if (sample := parse_sample(line)) is not None]

    def end_in_s(self, progress: Progress) -> float | None:
        """When the job will probably have ended, seconds from then; None where that cannot be told yet."""
        return progress.eta_s if progress.all_created or self._job.sync == "none" else None

    def _progress(self, now: Sample) -> Progress:
        before, self._before = self._before, now
        past_s = now.seconds - before.seconds
        files_s = _rate(now.files - before.files, past_s)
        if now.files < self._job.count:
            written_s = _rate(now.bytes - before.bytes, past_s)
            part = now.bytes / self._job.data.bytes
            left_s = now.seconds * (1.0 / part - 1.0) if part > 0 else None
            return Progress(100.0 * part, now.files, files_s, written_s / _MIB, eta_s=left_s)
        if now.device_bytes is None or now.device_bytes <= 0:
            return Progress(None, now.files, files_s, 0.0, all_created=True)
        arriving_s = _rate(now.device_bytes - (before.device_bytes or 0), past_s)
        left = max(0, self._job.data.bytes - now.device_bytes)
        return Progress(
            100.0 * (1.0 - left / self._job.data.bytes),
            now.files,
            files_s,
            arriving_s / _MIB,
            all_created=True,
            eta_s=left / arriving_s if arriving_s > 0 else None,
        )


def _rate(gained: int, past_s: float) -> float:
    return max(0.0, gained / past_s) if past_s > 0 else 0.0
