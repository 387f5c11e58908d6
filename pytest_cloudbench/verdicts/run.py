"""One view of a run, made from a measurement or any object with the same attributes."""

from __future__ import annotations

from typing import TypeGuard

from pytest_cloudbench.verdicts.network_run import NetworkRun
from pytest_cloudbench.verdicts.observation import NetworkObservation, Observation
from pytest_cloudbench.verdicts.run_view import Run
from pytest_cloudbench.verdicts.storage_run import StorageRun

AnyObservation = Observation | NetworkObservation | Run
"""What can be judged: a measurement, or its view."""


def run_of(obs: AnyObservation) -> StorageRun | NetworkRun:
    """Return the view of a run, on storage or over a network; a view is returned unchanged.

    Damaged data (`damage.py`) leave the view without a series, and every verdict on it is inconclusive with that
    reason.
    """
    if isinstance(obs, (StorageRun, NetworkRun)):
        return obs
    return NetworkRun.of(obs) if is_of_network(obs) else StorageRun.of(obs)  # type: ignore[arg-type]


def is_of_network(obs: object) -> TypeGuard[NetworkObservation]:
    """Return True for a measurement of a network: only these have streams."""
    return hasattr(obs, "streams")
