"""Which cloud to talk to, as whom, and how to reach its instances."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from pytest_cloudbench.resources.errors import CloudError

from .account_settings import AccountSettings
from .errors import NoRegion

AddressChoice = Literal["auto", "public", "private"]
AddressKind = Literal["public", "private"]

_PRIVATE_NETWORKS = tuple(
    map(
        ipaddress.ip_network,
        # RFC 1918, RFC 6598, RFC 2544 and RFC 4193.
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "198.18.0.0/15", "fc00::/7"),
    )
)

CHECK_IP_URL = "https://checkip.amazonaws.com"
CHECK_IP_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class CloudAccess:
    """How to reach an EC2 region: AWS itself, or anything that speaks its API.

    endpoint_url: where EC2, SSM and STS answer; None for AWS's own endpoints.
    region: None for the region that botocore finds configured.
    access_key, secret_key, session_token: None for the default AWS credential chain.
    ssh_from_cidr: the network that may reach port 22 of the instances; None for this machine's public address, as
        checkip.amazonaws.com sees it.
    address: the address of an instance that SSH uses; "auto" follows from ssh_from_cidr and the subnet, see `reach`.
    subnet_id: the subnet to launch into; None for the default VPC.
    settings: what the account requires of the run's resources, or provides for them.
    way_in: how commands reach the instances: "ssh", or "ssm" for SSM Run Command without any open port.
    ssm_bucket: the S3 bucket for long outputs of commands by SSM; None to read them in pieces.
    jump: bastions through which SSH reaches the instances, as in ssh -J. proxy_command: a command that connects
        to port 22 of an instance instead. With either, the port is open to `ssh_from_cidr`, which must be set.
    install_tools: missing tools are installed on existing instances too.
    host_key: host keys to accept from existing instances, as in `HostLogin.host_public_key`; "" for known_hosts.
    label: a name for display ("embedded region", "AWS"); not interpreted.
    check_region: called before every request; raises if the region is known to have ended.
    """

    endpoint_url: str | None = None
    region: str | None = None
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    ssh_from_cidr: str | None = None
    address: AddressChoice = "auto"
    subnet_id: str | None = None
    settings: AccountSettings = field(default=AccountSettings(), hash=False)
    way_in: Literal["ssh", "ssm"] = "ssh"
    ssm_bucket: str | None = None
    jump: str = ""
    proxy_command: str = ""
    host_key: str = ""
    install_tools: bool = False
    label: str | None = None
    check_region: Callable[[], None] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.address not in ("auto", "public", "private"):
            raise CloudError(f"invalid address {self.address!r}: use 'auto', 'public' or 'private'")
        if self.ssh_from_cidr is not None:
            check_cidr(self.ssh_from_cidr)
        if (self.access_key is None) != (self.secret_key is None):
            raise CloudError(
                "an access key needs its secret key, and a secret key its access key: give both or neither"
            )

    @property
    def is_relayed(self) -> bool:
        """True if SSH reaches the instances through a bastion or a proxy command."""
        return bool(self.jump or self.proxy_command)

    @property
    def is_loopback(self) -> bool:
        """True if the endpoint is on this machine, so that it ends with the process that serves it."""
        return is_loopback_url(self.endpoint_url)

    @property
    def makes_key_pair(self) -> bool:
        """True if a run makes a key pair to log in with."""
        return self.way_in == "ssh" and self.settings.key_name is None

    def reach(self, assigns_public: bool) -> AddressKind:
        """Return which address of an instance SSH uses; `assigns_public` is True if its subnet assigns public ones.

        The network that may reach port 22 decides: from a private network SSH uses the private address, from a public
        one the public address. If it contains both, or none is set, the subnet decides. SSM uses no address; the
        private one then identifies the instance.
        """
        if self.address != "auto":
            return self.address
        if self.way_in == "ssm" or (self.is_relayed and self.ssh_from_cidr is None):
            return "private"
        if self.ssh_from_cidr is not None:
            network = ipaddress.ip_network(self.ssh_from_cidr)
            same = [each for each in _PRIVATE_NETWORKS if each.version == network.version]
            if any(network.subnet_of(each) for each in same):  # type: ignore[arg-type]  # of one version
                return "private"
            if not any(each.subnet_of(network) for each in same):  # type: ignore[arg-type]  # of one version
                return "public"
        return "public" if assigns_public else "private"


def is_loopback_url(url: str | None) -> bool:
    """Return True if the host in `url` is a loopback address or "localhost"."""
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
    """Raise CloudError unless `cidr` is a network such as 203.0.113.7/32."""
    try:
        ipaddress.ip_network(cidr)
    except ValueError as error:
        raise CloudError(
            f"invalid network {cidr!r} for SSH ({error}): use one such as 203.0.113.7/32 (--cloudbench-ssh-from)"
        ) from None


def own_public_cidr(url: str = CHECK_IP_URL, timeout_s: float = CHECK_IP_TIMEOUT_S) -> str:
    """Return the address from which AWS sees this machine, as a network of one address.

    Raises CloudError, which names the option to set the network, if the service returns no address.
    """
    from urllib.request import urlopen

    remedy = "set the network that SSH comes from with --cloudbench-ssh-from, e.g. 203.0.113.7/32"
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
    """Return the region to use: `region`, else the one that botocore has configured, else AWS_REGION."""
    chosen = region or configured or os.environ.get("AWS_REGION")
    if not chosen:
        raise NoRegion(
            "no region: give one with --cloudbench-region, AWS_DEFAULT_REGION, or `aws configure set region`"
        )
    return chosen
