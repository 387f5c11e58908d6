"""Which cloud to talk to, as whom, and how to reach its instances."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from pytest_cloudbench.resources.errors import CloudError

from .errors import NoRegion

AddressChoice = Literal["auto", "public", "private"]

CHECK_IP_URL = "https://checkip.amazonaws.com"
CHECK_IP_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class CloudAccess:
    """How to reach an EC2 region: AWS itself, or anything that speaks its API.

    endpoint_url: where EC2, SSM and STS answer; None means AWS's own endpoints.
    region: None takes the region that botocore finds configured.
    access_key, secret_key, session_token: None takes the ordinary AWS credential chain.
    ssh_from_cidr: who may reach the instances' port 22; None asks checkip.amazonaws.com for our address.
    address: which address of an instance SSH goes to; "auto" is the public one where there is one.
    subnet_id: launch into this subnet; None takes the default VPC.
    label: a name for people ("embedded region", "AWS"); not interpreted.
    check_region: raises when the region itself has ended, where that can be known; asked before every call.
    """

    endpoint_url: str | None = None
    region: str | None = None
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    ssh_from_cidr: str | None = None
    address: AddressChoice = "auto"
    subnet_id: str | None = None
    label: str | None = None
    check_region: Callable[[], None] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.address not in ("auto", "public", "private"):
            raise CloudError(f"address is {self.address!r}; it must be 'auto', 'public' or 'private'")
        if self.ssh_from_cidr is not None:
            check_cidr(self.ssh_from_cidr)
        if (self.access_key is None) != (self.secret_key is None):
            raise CloudError(
                "an access key needs its secret key and the other way round: give both or neither"
            )

    @property
    def is_loopback(self) -> bool:
        """Whether the endpoint is one on this machine (and so may vanish with the process that served it)."""
        return is_loopback_url(self.endpoint_url)

    def choose_address(self, public_ip: str | None, private_ip: str | None) -> str | None:
        """The address SSH should go to, by the `address` rule; None where that one does not exist (yet)."""
        if self.address == "public":
            return public_ip
        if self.address == "private":
            return private_ip
        return public_ip or private_ip


def is_loopback_url(url: str | None) -> bool:
    """Whether the host in `url` is a loopback address or "localhost"."""
    if not url:
        return False
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_cidr(cidr: str) -> None:
    """Raise a CloudError unless `cidr` is a network such as 203.0.113.7/32."""
    try:
        ipaddress.ip_network(cidr)
    except ValueError as error:
        raise CloudError(
            f"SSH source {cidr!r} is not a network ({error}); write it like 203.0.113.7/32 (--cloudbench-ssh-from)"
        ) from None


def own_public_cidr(url: str = CHECK_IP_URL, timeout_s: float = CHECK_IP_TIMEOUT_S) -> str:
    """The address from which AWS sees this machine, as a network of that one address.

    Raises CloudError, naming the option to give it by hand, when the service cannot be asked.
    """
    from urllib.request import urlopen

    remedy = "give the network SSH comes from with --cloudbench-ssh-from, e.g. 203.0.113.7/32"
    try:
        with urlopen(url, timeout=timeout_s) as answer:  # noqa: S310  (a constant https address)
            text = answer.read(200).decode("ascii", "replace").strip()
    except (OSError, ValueError) as error:
        raise CloudError(
            f"could not ask {url} for this machine's public address ({error}); {remedy}"
        ) from None
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        raise CloudError(f"{url} answered {text[:60]!r}, which is not an address; {remedy}") from None
    return f"{found}/{found.max_prefixlen}"


def resolve_region(region: str | None, configured: str | None) -> str:
    """The region to use: the one given, else botocore's configured one, else AWS_REGION."""
    chosen = region or configured or os.environ.get("AWS_REGION")
    if not chosen:
        raise NoRegion(
            "no region: give one with --cloudbench-region, AWS_DEFAULT_REGION, or `aws configure set region`"
        )
    return chosen
