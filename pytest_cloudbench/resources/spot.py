"""Spot instances that EC2 takes back while a workload runs on them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pytest_cloudbench.errors import InfrastructureError
from pytest_cloudbench.resources.errors import CloudError, SpotInterrupted
from pytest_cloudbench.resources.instance import Instance

# EC2 API Reference, "StateReason": Server.SpotInstanceTermination and Server.SpotInstanceShutdown.
_TAKEN_BACK = "Server.SpotInstance"
# The host of an instance is lost before the API describes why.
_DESCRIBED_WITHIN_S = 20.0
_PAUSE_S = 1.0


@contextmanager
def unless_interrupted(instances: Sequence[Instance]) -> Iterator[None]:
    """Raise SpotInterrupted if EC2 takes back one of the spot instances during the block, whatever the block raises."""
    on_spot = [instance for instance in instances if instance.launched.market == "spot"]
    try:
        yield
    except InfrastructureError as error:
        _raise_if_interrupted(on_spot, _DESCRIBED_WITHIN_S, error)
        raise
    _raise_if_interrupted(on_spot, 0.0, None)


def _raise_if_interrupted(instances: Sequence[Instance], wait_s: float, cause: Exception | None) -> None:
    deadline = time.monotonic() + wait_s
    while instances:
        for instance in instances:
            if (reason := _reason(instance)).startswith(_TAKEN_BACK):
                raise SpotInterrupted(
                    f"EC2 took back {instance.launched} while the workload ran ({reason}): nothing was measured; "
                    "run the test again, or without spot=True"
                ) from cause
        if time.monotonic() >= deadline:
            return
        time.sleep(_PAUSE_S)


def _reason(instance: Instance) -> str:
    """Return why an instance is in its state; "" if the API does not answer, as then the first error says more."""
    try:
        return instance.look().state_reason
    except CloudError:
        return ""
