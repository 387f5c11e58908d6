"""What a workload needs from a host: something that runs commands and long jobs and returns files.

Structural types only. The hosts room satisfies them over SSH; nothing here knows how.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol


class CommandResult(Protocol):
    """What one finished command left behind."""

    @property
    def argv(self) -> tuple[str, ...]: ...
    @property
    def stdout(self) -> str: ...
    @property
    def stderr(self) -> str: ...
    @property
    def exit_code(self) -> int: ...
    @property
    def seconds(self) -> float: ...


class JobState(Protocol):
    """A job as one look at it found it."""

    @property
    def running(self) -> bool: ...
    @property
    def exit_code(self) -> int | None: ...
    @property
    def new_output(self) -> str:
        """Standard output written since the last look."""
        ...


class Job(Protocol):
    """A command that goes on by itself on the host, whether or not anybody is connected."""

    @property
    def job_id(self) -> str: ...
    @property
    def directory(self) -> str:
        """The job's own directory on the host; the command runs in it."""
        ...

    @property
    def describe(self) -> str:
        """The host's label for messages."""
        ...

    def poll(self) -> JobState: ...

    def wait(
        self,
        timeout_s: float,
        *,
        remaining_s: Callable[[], float | None] | None = None,
        on_output: Callable[[str], None] | None = None,
    ) -> JobState:
        """Return once the job has ended. `remaining_s` says how long it will probably still run, or None;
        the job is looked at closely when that is short. TimeoutError after `timeout_s`; the job goes on."""
        ...

    def fetch(self, names: Sequence[str]) -> dict[str, bytes]:
        """The job's files whose names match (shell patterns); a name that is not there is left out."""
        ...

    def kill(self) -> None:
        """Interrupt the job and everything it started, so that it may still write its results; then kill."""
        ...

    def cleanup(self) -> None:
        """Remove the job's directory."""
        ...


class Runner(Protocol):
    """A host, as workloads see it."""

    @property
    def label(self) -> str: ...

    def run(
        self,
        argv: Sequence[str],
        *,
        sudo: bool = False,
        check: bool = True,
        timeout_s: float = 60.0,
        idempotent: bool = False,
    ) -> CommandResult:
        """Run one short command. `idempotent` commands may be run again when the connection drops."""
        ...

    def start_job(
        self,
        argv: Sequence[str],
        *,
        sudo: bool = False,
        files: Mapping[str, bytes] | None = None,
        name: str = "job",
        job_id: str | None = None,
    ) -> Job:
        """Start a long command detached. The same `job_id` never starts twice: it is attached to."""
        ...

    def ensure_tool(self, name: str) -> str:
        """Path of the tool on the host; installed by the host's package manager when missing."""
        ...
