"""What an instance is to be: the plan that the EC2 front hands to the data plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_cloudbench.promises.instances import EbsLimit


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
    ``ebs_limit`` is the instance's limit over all its volumes, None where the type has none.
    """

    instance_id: str
    instance_type: str
    private_ip: str
    hostname: str
    login_user: str
    authorized_keys: tuple[str, ...]
    user_data: bytes = b""
    ebs_limit: EbsLimit | None = None
    nitro: bool = True
    image: ImageFacts = ImageFacts("ami-00000000")
