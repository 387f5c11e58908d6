"""The errors of workloads, whichever tool makes the load. None of them is a violated promise.

An error that derives from `WorkloadRefused` blames the test: it asked for what cannot be run. Every other
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
    """The test asked for a job that cannot be run, or that the tool refuses."""


class TargetError(WorkloadFailed):
    """The target does not fit the job: it is missing, of another kind, or too full. Nothing was started."""
