"""What an account requires of the resources of a run, or provides for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any


@dataclass(frozen=True)
class AccountSettings:
    """The settings of an account; each is off by default.

    tags: put on everything that the run creates.
    security_group: id of a group that instances get instead of the run's own.
    instance_profile: name or ARN of the IAM instance profile of the instances.
    kms_key: id, alias or ARN of the key that encrypts all volumes; None for the account's default key.
    key_name, private_key: an existing key pair and its private half, instead of one for each run. private_key_file:
    the file of that private key.
    metadata_off: the metadata service of an instance is switched off once its boot has ended.
    """

    tags: Mapping[str, str] = field(default_factory=dict)
    security_group: str | None = None
    instance_profile: str | None = None
    kms_key: str | None = None
    key_name: str | None = None
    private_key: str | None = field(default=None, repr=False)
    private_key_file: str = ""
    metadata_off: bool = False

    @property
    def encryption(self) -> dict[str, Any]:
        """The parameters of CreateVolume, and of a block device, that encrypt a volume."""
        return {"Encrypted": True, **({"KmsKeyId": self.kms_key} if self.kms_key else {})}

    @property
    def profile(self) -> dict[str, Any]:
        """The parameter of RunInstances for the instance profile, if there is one."""
        if self.instance_profile is None:
            return {}
        by = "Arn" if self.instance_profile.startswith("arn:") else "Name"
        return {"IamInstanceProfile": {by: self.instance_profile}}


def credentials_warning(
    end: datetime | None, needed_s: float, by: str, now: datetime | None = None
) -> str | None:
    """Return a sentence if credentials expire earlier than `needed_s` seconds from now; None if not, or if unknown."""
    if end is None:
        return None
    left_s = (end - (now or datetime.now(timezone.utc))).total_seconds()
    if left_s >= needed_s:
        return None
    return (
        f"the credentials end at {end:%H:%M} UTC, in {max(left_s, 0) / 60:.0f} min, and {by} takes "
        f"{needed_s / 60:.0f} min: renew them before, or what the run created cannot be removed by it"
    )
