"""What a provider of instances and volumes can refuse, as one clear sentence each."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_cloudbench.errors import InfrastructureError, RequestError


class CloudError(InfrastructureError, RuntimeError):
    """A request to the cloud failed or was refused.

    `code` is the service's own error code ("" where the failure is ours or the network's),
    `asked` what was being done ("to launch c5.18xlarge in us-east-1a").
    """

    def __init__(self, message: str, *, code: str = "", asked: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.asked = asked


class UnknownInstanceType(CloudError, RequestError):
    """The region knows no instance type of this name; `nearest` holds names that look like it."""

    def __init__(self, message: str, *, nearest: Sequence[str] = ()) -> None:
        super().__init__(message, code="InvalidInstanceType")
        self.nearest = tuple(nearest)


class NotOffered(CloudError, RequestError):
    """The instance type exists but is not offered in the zone asked for."""


class ZoneMismatch(CloudError, RequestError):
    """A volume and an instance, or a subnet and a zone, lie in different availability zones."""


class PlacementRefused(CloudError, RequestError):
    """A placement group that does not exist, or that an instance type cannot be in."""


class AttachmentLimit(CloudError, RequestError):
    """More volumes than the instance type or its device names can take."""


class WaitTimeout(CloudError):
    """A resource did not reach the wanted state in time."""


class ResourceFailed(CloudError):
    """A resource reached a state from which the wanted one cannot come any more."""


class TeardownFailed(CloudError):
    """Some steps of a teardown failed or something tagged with the run remains.

    `problems` holds one sentence for each.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        lines = "\n".join(f"- {problem}" for problem in problems)
        super().__init__(f"the teardown did not remove everything:\n{lines}")
        self.problems = tuple(problems)
