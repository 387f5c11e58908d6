"""The errors of workloads, whichever tool makes the load. None of them is a violated promise.

An error that derives from `WorkloadRefused` blames the test: it requested a load that cannot run. Every other
`WorkloadFailed` blames the infrastructure: the cloud, a host or a tool failed.
"""

from __future__ import annotations

from typing import Any

from pytest_cloudbench.errors import InfrastructureError, RequestError


class WorkloadFailed(InfrastructureError):
    """A measurement could not be made.

    ``measurement`` is what was measured before the failure; None if nothing was.
    """

    measurement: Any = None


class WorkloadRefused(WorkloadFailed, RequestError):
    """The test requested a job that cannot run, or that the tool refuses."""


class TargetError(WorkloadFailed):
    """The target does not fit the job: it is missing, of another kind, or too full. Nothing was started."""


class StorageLost(WorkloadFailed):
    """The storage of a load failed, or was detached, before the load had ended, so there is no figure."""

    @classmethod
    def before_load(cls, why: str) -> StorageLost:
        return cls(f"the volume was lost before its load began: {why}; there is no figure")
