"""Device names for AttachVolume.

Which names exist: Amazon EC2 User Guide, "Device names for volumes on Amazon EC2 instances" (HVM), read 2026-11:
/dev/sd[a-z], /dev/xvd[a-d][a-x] and /dev/xvd[e-z]; /dev/sd[f-p] are recommended for EBS volumes, /dev/sd[b-e]
are used for instance store volumes.
"""

from __future__ import annotations

from collections.abc import Iterable
from string import ascii_lowercase

from pytest_cloudbench.resources.errors import AttachmentLimit

_A_TO_X = ascii_lowercase[:24]

DEVICE_NAMES: tuple[str, ...] = (
    *(f"/dev/sd{letter}" for letter in "fghijklmnop"),
    *(f"/dev/xvd{first}{second}" for first in "bcda" for second in _A_TO_X),
    *(f"/dev/xvd{letter}" for letter in "qrstuvwxyz"),
)


def same_slot(name: str) -> str:
    """What two names of the same device share: the kernel shows /dev/sdf as /dev/xvdf on Xen."""
    bare = name.removeprefix("/dev/")
    for prefix in ("xvd", "sd", "hd"):
        if bare.startswith(prefix):
            return bare.removeprefix(prefix).rstrip("0123456789")
    return bare


def next_device_name(taken: Iterable[str]) -> str:
    """The first name that collides with none of `taken`. Raises AttachmentLimit when all are in use."""
    slots = {same_slot(name) for name in taken}
    for name in DEVICE_NAMES:
        if same_slot(name) not in slots:
            return name
    raise AttachmentLimit(f"all {len(DEVICE_NAMES)} device names of this instance are in use")
