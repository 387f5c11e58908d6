"""The errors of providers of instances and volumes, one sentence each."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_cloudbench.errors import InfrastructureError, RequestError


class CloudError(InfrastructureError, RuntimeError):
    """A request to the cloud failed or was refused.

    `code` is the service's error code, "" if the service did not refuse it.
    `asked` is what was tried, such as "launch c5.18xlarge in us-east-1a".
    """

    def __init__(self, message: str, *, code: str = "", asked: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.asked = asked


class UnknownInstanceType(CloudError, RequestError):
    """There is no instance type of this name; `nearest` has similar names."""

    def __init__(self, message: str, *, nearest: Sequence[str] = ()) -> None:
        super().__init__(message, code="InvalidInstanceType")
        self.nearest = tuple(nearest)


class NotOffered(CloudError, RequestError):
    """The provider, or the requested zone, does not offer this."""


class ExistingHardware(CloudError, RequestError):
    """Hardware that was there before the run is not what the test needs, or the test would change it."""


class ZoneMismatch(CloudError, RequestError):
    """A volume and an instance, or a subnet and a zone, are in different availability zones."""


class PlacementRefused(CloudError, RequestError):
    """A placement group does not exist, or an instance type cannot be in it."""


class AttachmentLimit(CloudError, RequestError):
    """An instance cannot take so many volumes."""


class WaitTimeout(CloudError):
    """A resource did not reach the expected state in time."""


class ResourceFailed(CloudError):
    """A resource failed: it can no longer reach the expected state."""


class SpotInterrupted(CloudError):
    """EC2 took a spot instance back: what was measured meanwhile does not count."""


class TeardownFailed(CloudError):
    """Steps of a teardown failed, or resources of the run remain; `problems` has one sentence for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        lines = "\n".join(f"- {problem}" for problem in problems)
        super().__init__(f"the teardown did not remove everything:\n{lines}")
        self.problems = tuple(problems)
