"""What an instance is to be: the plan that the EC2 front hands to the data plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_cloudbench.limits.instances import EbsLimit, LocalDisk
    from pytest_cloudbench.limits.network_credits import NetworkCredits, ShapedRates


class BootFailed(RuntimeError):
    """An instance did not come up; the message is a sentence that says why."""


@dataclass(frozen=True)
class ImageFacts:
    """The image an instance was launched from. Its files are this machine's own root file system."""

    image_id: str
    name: str = ""
    architecture: str = "x86_64"


@dataclass(frozen=True)
class HostPlan:
    """One instance: its name and address, who logs in to it, and what it may do to its volumes.

    ``authorized_keys`` are lines as in an authorized_keys file. ``user_data`` is the decoded user data.
    ``ebs_limit`` is the instance's limit over all its volumes, None where the type has none, ``ebs_baseline`` what
    remains of it when burst credits are spent, None where it does not burst. ``network`` is
    what its network is shaped to, None where the type has no figures: then it is not shaped.
    ``network_credits`` is the bucket that its bursts drain, ``placement_group`` the name of the cluster
    placement group that it is in, within which one flow may have more. ``local_disks`` is its instance store, as far
    as that is NVMe.
    """

    instance_id: str
    instance_type: str
    private_ip: str
    hostname: str
    login_user: str
    authorized_keys: tuple[str, ...]
    user_data: bytes = b""
    ebs_limit: EbsLimit | None = None
    ebs_baseline: EbsLimit | None = None
    nitro: bool = True
    image: ImageFacts = ImageFacts("ami-00000000")
    network: ShapedRates | None = None
    network_credits: NetworkCredits | None = None
    placement_group: str | None = None
    local_disks: tuple[LocalDisk, ...] = ()
