"""Errors of measurements that create files. None of them is a violated promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_cloudbench.workloads.errors import WorkloadFailed, WorkloadRefused

if TYPE_CHECKING:
    from pytest_cloudbench.workloads.create_files.creation import FileCreation


class CreateFilesError(WorkloadFailed):
    """The creation of files could not be measured."""


class BadFilesJob(CreateFilesError, WorkloadRefused, ValueError):
    """The job cannot run as written; nothing was started."""


class RecordError(CreateFilesError):
    """The job ended, but its record cannot be read."""


class CreationTimedOut(CreateFilesError):
    """The job was ended because it took far longer than expected."""


class CreationFailed(CreateFilesError):
    """Creating files failed during the job. `partial` is the measurement until then, if there is one."""

    def __init__(self, sentence: str, partial: FileCreation | None = None) -> None:
        self.partial = partial
        super().__init__(sentence)

    @property
    def measurement(self) -> FileCreation | None:
        """The partial measurement, under the name that all workloads share."""
        return self.partial

    @measurement.setter
    def measurement(self, partial: FileCreation | None) -> None:
        self.partial = partial


class FilesystemFull(CreationFailed):
    """The file system ran out of space or inodes during the job."""
