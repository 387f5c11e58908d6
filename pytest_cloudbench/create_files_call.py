"""The value of the ``create_files`` fixture: a call creates files on a mounted target and returns the measurement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_cloudbench.workload_calls import _WorkloadCall

if TYPE_CHECKING:
    from pytest_cloudbench.workloads.create_files.creation import FileCreation
    from pytest_cloudbench.workloads.create_files.progress import Progress
    from pytest_cloudbench.workloads.target import Target


class CreateFilesCall(_WorkloadCall):
    """The ``create_files`` fixture's value: a call creates files and returns what it measured."""

    def __repr__(self) -> str:
        return f"<create_files for {self._item.name}>"

    def __call__(
        self,
        target: Target,
        count: int = 100_000,
        size: str | int = "1m",
        *,
        sync: str = "end",
        **options: Any,
    ) -> FileCreation:
        """Create ``count`` files of ``size`` in a fresh folder of a mounted target; remove them afterwards.

        ``sync`` is "end" (both times are reported: until written, until on the device), "each" (fsync for every
        file besides) or "none" (only the page cache is timed). Options are FilesJob's: content ("random" or
        "zero"), method ("python", or "dd" for a process per file), workers, per_folder, keep.

        Raises BadFilesJob and TargetError before anything is started; FilesystemFull and CreationFailed carry
        what was measured until then.
        """
        from pytest_cloudbench.workloads.create_files.errors import CreationFailed
        from pytest_cloudbench.workloads.create_files.job import FilesJob
        from pytest_cloudbench.workloads.create_files.run import run_create_files

        job = FilesJob.of(count, size, sync=sync, **options)
        try:
            with self._live_line(f"create_files {job}", _with_time_left, on=target) as show:
                creation = self._measured(
                    "create_files",
                    target,
                    {"count": count, "size": size, "sync": sync, **options},
                    lambda: run_create_files(target, job, pace=self._pace(), on_progress=show),
                )
        except CreationFailed as failed:
            if failed.partial is not None:
                failed.partial = self._kept(failed.partial)
            raise
        return self._kept(creation)


def _with_time_left(progress: Progress) -> str:
    left = f", {progress.eta_s:.0f} s left" if progress.eta_s is not None else ""
    return f"{progress}{left}"
