"""Access to the run's instances: one key pair, and one security group per VPC, created when first needed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any

from pytest_cloudbench.resources.errors import CloudError

from .access import own_public_cidr
from .run import Run, only_ours, run_filter
from .user_data import new_ssh_key
from .waits import poll

SSH_PORT = 22


@dataclass(frozen=True)
class KeyPair:
    """The run's key pair; the private key (OpenSSH format) stays in memory."""

    name: str
    private_key: str = field(repr=False)


class Doorway:
    """Creates the key pair and the security groups of one run, each once. Thread-safe."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._clients = run.clients
        self._key_lock = threading.Lock()
        self._group_lock = threading.Lock()
        self._cidr_lock = threading.Lock()
        self._key_pair: KeyPair | None = None
        self._groups: dict[str, str] = {}
        self._cidr: str | None = run.clients.access.ssh_from_cidr
        self._by_ssh = run.clients.access.way_in == "ssh"

    @property
    def name(self) -> str:
        """The name of the key pair and of the security groups."""
        return f"cloudbench-{self._run.run_id}"

    def check(self) -> None:
        """Raise CloudError if new instances would be unreachable with the settings of the access."""
        if not self._by_ssh and self._clients.access.settings.instance_profile is None:
            raise CloudError(
                "--cloudbench-access=ssm needs --cloudbench-instance-profile, a profile with the policy "
                "AmazonSSMManagedInstanceCore: without it the SSM agent of a new instance never comes online"
            )
        access = self._clients.access
        if self._by_ssh and access.is_relayed and access.ssh_from_cidr is None:
            option = "--cloudbench-jump" if access.jump else "--cloudbench-proxy-command"
            raise CloudError(
                f"{option} needs --cloudbench-ssh-from, the network from which SSH then reaches port {SSH_PORT} of the "
                "instances, such as the bastion's private address 10.0.0.5/32: it is not this machine's address"
            )

    def ssh_from(self) -> str | None:
        """Return the network that may reach port 22: the given one, else this machine's public address, queried once.

        None if no port is needed.
        """
        if not self._by_ssh:
            return None
        with self._cidr_lock:
            if self._cidr is None and self._clients.access.address == "private":
                raise CloudError(
                    "--cloudbench-address=private needs --cloudbench-ssh-from, the network from which this machine "
                    "reaches the instances' private addresses, e.g. 10.0.0.0/16: its public address is not it"
                )
            if self._cidr is None:
                self._cidr = own_public_cidr()
            return self._cidr

    def key_pair(self) -> KeyPair | None:
        """Return the account's key pair, else the run's, which the first call makes and imports; None without SSH."""
        settings = self._clients.access.settings
        if settings.key_name is not None and settings.private_key is not None:
            return KeyPair(settings.key_name, settings.private_key)
        if not self._by_ssh:
            return None
        with self._key_lock:
            if self._key_pair is None:
                self._key_pair = self._import_key_pair()
            return self._key_pair

    def group(self, vpc_id: str) -> str:
        """Return the id of the run's security group in `vpc_id`.

        It allows SSH from `ssh_from()`, if SSH is used, and all traffic from its own members, nothing else.
        """
        cidr = self.ssh_from()
        with self._group_lock:
            if vpc_id not in self._groups:
                self._groups[vpc_id] = self._create_group(vpc_id, cidr)
            return self._groups[vpc_id]

    def check_group(self, group_id: str, vpc_id: str) -> None:
        """Raise CloudError unless an existing group is in `vpc_id` and, if SSH is used, allows it from `ssh_from()`."""
        cidr = self.ssh_from()
        found = self._clients.repeat_call(
            f"look for security group {group_id}", "describe_security_groups", GroupIds=[group_id]
        )
        for group in found["SecurityGroups"]:
            if group.get("VpcId") != vpc_id:
                raise CloudError(
                    f"security group {group_id} is in {group.get('VpcId')}, and the instances in {vpc_id}: use a group "
                    "of that VPC, or another subnet (--cloudbench-subnet)"
                )
            if cidr is not None and not any(lets_in(rule, cidr) for rule in group.get("IpPermissions", ())):
                raise CloudError(
                    f"security group {group_id} has no rule that lets SSH in from {cidr}: add one for TCP port "
                    f"{SSH_PORT}, or name the network that SSH comes from with --cloudbench-ssh-from"
                )

    def _import_key_pair(self) -> KeyPair:
        """Create a key on this machine and import only its public half."""
        key = new_ssh_key()
        try:
            self._import(key.public_line)
        except CloudError as error:
            if error.code != "InvalidKeyPair.Duplicate" or not self._delete_own_key_pair():
                raise
            # An earlier call of this run imported another key, and its answer was lost.
            self._import(key.public_line)
        return KeyPair(name=self.name, private_key=key.private_openssh)

    def _import(self, public_line: str) -> None:
        with self._run.journal.creating("import_key_pair", self.name) as intention:
            answer = self._clients.repeat_call(
                f"import key pair {self.name}",
                "import_key_pair",
                KeyName=self.name,
                PublicKeyMaterial=public_line.encode(),
                TagSpecifications=self._run.tagged("key pair", "key-pair", token=intention.token),
            )
            intention.done([answer["KeyPairId"]])

    def _delete_own_key_pair(self) -> bool:
        def look() -> bool | None:
            pairs = self._clients.call(
                f"look for key pair {self.name}",
                "ec2",
                "describe_key_pairs",
                Filters=run_filter(self._run.run_id),
            )["KeyPairs"]
            names = {pair["KeyName"] for pair in only_ours(pairs, self._run.run_id)}
            return True if self.name in names else None  # it may still be invisible

        if not poll(look, self._clients.settle_s, self._clients.pace):
            return False
        self._clients.repeat_call(f"delete key pair {self.name}", "delete_key_pair", KeyName=self.name)
        return True

    def _create_group(self, vpc_id: str, cidr: str | None) -> str:
        what = f"{self.name} in {vpc_id}"
        allowed = f"SSH from {cidr}, " if cidr else ""
        try:
            with self._run.journal.creating("create_security_group", what) as intention:
                answer = self._clients.repeat_call(
                    f"create security group {what}",
                    "create_security_group",
                    GroupName=self.name,
                    Description=f"cloudbench run {self._run.run_id}: {allowed}all among its instances",
                    VpcId=vpc_id,
                    TagSpecifications=self._run.tagged("SSH", "security-group", token=intention.token),
                )
                group_id = str(answer["GroupId"])
                intention.done([group_id])
        except CloudError as error:
            found = self._own_group(vpc_id) if error.code == "InvalidGroup.Duplicate" else None
            if found is None:
                raise
            group_id = found
        self._allow(group_id, cidr)
        return group_id

    def _own_group(self, vpc_id: str) -> str | None:
        """Return the group that an earlier call of this run created, whose answer was lost."""

        def look() -> str | None:
            groups = self._clients.call(
                f"look for security group {self.name}",
                "ec2",
                "describe_security_groups",
                Filters=[*run_filter(self._run.run_id), {"Name": "vpc-id", "Values": [vpc_id]}],
            )["SecurityGroups"]
            ours = only_ours(groups, self._run.run_id)
            return str(ours[0]["GroupId"]) if ours else None  # it may still be invisible

        return poll(look, self._clients.settle_s, self._clients.pace)

    def _allow(self, group_id: str, cidr: str | None) -> None:
        permissions: list[dict[str, Any]] = [
            {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group_id, "Description": "cloudbench"}]}
        ]
        if cidr is not None:
            ranges, field = ("Ipv6Ranges", "CidrIpv6") if ":" in cidr else ("IpRanges", "CidrIp")
            source = {ranges: [{field: cidr, "Description": "cloudbench"}]}
            permissions.insert(0, {"IpProtocol": "tcp", "FromPort": SSH_PORT, "ToPort": SSH_PORT, **source})
        try:
            # Both in one call, which succeeds as a whole or not at all: a duplicate means that both exist.
            self._clients.repeat_call(
                f"allow {f'SSH from {cidr}, and ' if cidr else ''}all traffic among its members, in {group_id}",
                "authorize_security_group_ingress",
                codes=("InvalidGroup.NotFound",),
                GroupId=group_id,
                IpPermissions=permissions,
            )
        except CloudError as error:
            if error.code != "InvalidPermission.Duplicate":
                raise


def lets_in(rule: Mapping[str, Any], cidr: str) -> bool:
    """Return True if an inbound rule lets SSH in from a network.

    A rule for other groups or prefix lists counts too, because whether this machine is in them is unknown.
    """
    if rule["IpProtocol"] not in ("-1", "tcp", "6"):
        return False
    if rule["IpProtocol"] != "-1" and not rule.get("FromPort", 0) <= SSH_PORT <= rule.get("ToPort", 65_535):
        return False
    if rule.get("PrefixListIds") or rule.get("UserIdGroupPairs"):
        return True
    here = ip_network(cidr, strict=False)
    sources = [
        *(each["CidrIp"] for each in rule.get("IpRanges", ())),
        *(each["CidrIpv6"] for each in rule.get("Ipv6Ranges", ())),
    ]
    networks = [ip_network(each, strict=False) for each in sources]
    return any(each.version == here.version and here.subnet_of(each) for each in networks)  # type: ignore[arg-type]
