"""An account's quotas of vCPUs that run at once, one for each group of instance families."""

from __future__ import annotations

import re

from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import Market

from .clients import Clients

# Amazon EC2 endpoints and quotas (AWS General Reference), read 2026-11: by the letters before a family's generation,
# the quotas of On-Demand and of spot instances. None: the quota depends on more than the family, or the family has no
# spot instances. Mac instances are counted by hosts, not by vCPUs.
_STANDARD = ("L-1216C47A", "L-34B43A08")
_QUOTAS: dict[str, tuple[str, str | None]] = {
    **dict.fromkeys(("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"), _STANDARD),
    "dl": ("L-6E869C2A", "L-85EED4F7"),
    "f": ("L-74FC7D96", "L-88CF9481"),
    **dict.fromkeys(("g", "gr", "vt"), ("L-DB2E81BA", "L-3819A6DF")),
    "hpc": ("L-F7808C92", None),
    "inf": ("L-1945791B", "L-B5D1601B"),
    "p": ("L-417A185B", None),
    "trn": ("L-2C3B7624", "L-6B0D517C"),
    "u": ("L-43DA4232", None),
    "x": ("L-7295265B", "L-E3A00192"),
}


def quota_of(type_name: str, market: Market | None) -> str | None:
    """Return the code of the quota that the vCPUs of an instance count towards; None if unknown."""
    letters = re.match("[a-z]*", type_name)
    on_demand, spot = _QUOTAS.get(letters[0] if letters else "", (None, None))
    return spot if market == "spot" else on_demand


def read_quota(clients: Clients, code: str) -> float:
    """Return the number of vCPUs that a quota allows. Raises CloudError if it cannot be read."""
    answer = clients.repeat_call(
        f"read the quota {code} of vCPUs",
        "get_service_quota",
        service="service-quotas",
        ServiceCode="ec2",
        QuotaCode=code,
    )
    try:
        return float(answer["Quota"]["Value"])
    except KeyError as error:
        raise CloudError(f"the answer about the quota {code} of vCPUs has no {error}") from None
