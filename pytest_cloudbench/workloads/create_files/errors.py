"""What can go wrong between asking for files and having a measurement. None of it is a violation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_cloudbench.workloads.errors import WorkloadFailed, WorkloadRefused

if TYPE_CHECKING:
    from pytest_cloudbench.workloads.create_files.creation import FileCreation


class CreateFilesError(WorkloadFailed):
    """Files could not be created, or not be measured."""


class BadFilesJob(CreateFilesError, WorkloadRefused, ValueError):
    """The job as written cannot be run: nothing was started."""


class RecordError(CreateFilesError):
    """The job ended, but what it wrote about itself cannot be read."""


class CreationTimedOut(CreateFilesError):
    """Files were still being created long after they should have been; the job has been ended."""


class CreationFailed(CreateFilesError):
    """Creating files ended in the middle. `partial` is what was measured until then, where anything was."""

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
    """The file system took no more data or no more files in the middle of the job."""
