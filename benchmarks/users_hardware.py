"""An instance with two volumes that a user made by plain boto3, with an own key, and all that can be seen of it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_cloudbench.launcher import RegionRecord, start_leased_region

IMAGE = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
TYPE, VOLUME = "c5.18xlarge", {"VolumeType": "gp3", "Size": 1}
ROLE = "db"
"""The value of the instance's tag "role"."""
_WAIT_S = 60.0
_LOOK = r"""
list() {
    sudo find "$@" -type d -printf '%p %u:%g %m\n' -o -printf '%p %y %u:%g %m %s %T@ %l\n' | sort
    sudo find "$@" -type f -exec sha256sum {} + | sort
}
echo "== files"; list /data -mindepth 1
echo "== home"; list ~
echo "== system"; list /etc /mnt /usr/local/bin /var/tmp -xdev
echo "== mounts"; findmnt -n -o SOURCE,TARGET,FSTYPE,OPTIONS
echo "== packages"; dpkg-query -W 2> /dev/null || rpm -qa
echo "== loads"; ps -eo args= | grep -E '^[^ ]*(fio|iperf3)|cloudbench-' | grep -v 'grep -E' | sort
"""


@dataclass
class UsersHardware:
    """The instance and its volumes, with clients that act as the user. ``raw`` is empty, ``data`` mounted on /data."""

    record: RegionRecord
    home: Path
    ec2: Any
    instance: str = ""
    address: str = ""
    raw: str = ""
    data: str = ""

    @property
    def raw_link(self) -> str:
        """The name of the raw volume's device on the instance."""
        return f"/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{self.raw.replace('-', '')}"

    def run(self, line: str) -> str:
        """Run a shell line on the instance as the user does it by hand."""
        ssh = self.home / ".ssh"
        own = ["-F", "none", "-i", str(ssh / "id_ed25519"), "-o", f"UserKnownHostsFile={ssh / 'known_hosts'}"]
        done = subprocess.run(
            ["ssh", *own, f"ec2-user@{self.address}", line], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"{line!r} ended with exit code {done.returncode}: {done.stderr}")
        return done.stdout

    def state(self) -> dict[str, str]:
        """Return what the API, the instance and the user's own machine show, by topic."""
        found = {name: _json(_all_of(self.ec2, name)) for name in _DESCRIBED}
        on_host = self.run(_LOOK).split("== ")[1:]
        found |= {f"instance's {each.partition(chr(10))[0]}": each.partition("\n")[2] for each in on_host}
        own = sorted(self.home.joinpath(".ssh").iterdir())
        found["user's ~/.ssh"] = "\n".join(f"{each.name} {each.read_bytes().hex()}" for each in own)
        return found

    def blocks(self) -> str:
        """Return the checksum of all blocks of the raw volume."""
        return self.run(f"sudo dd if={self.raw_link} bs=4M iflag=direct status=none | sha256sum")


_DESCRIBED = {
    "instances": "Reservations",
    "volumes": "Volumes",
    "tags": "Tags",
    "security_groups": "SecurityGroups",
    "key_pairs": "KeyPairs",
    "network_interfaces": "NetworkInterfaces",
    "placement_groups": "PlacementGroups",
    "volumes_modifications": "VolumesModifications",
    "own snapshots": "Snapshots",
}


def _all_of(ec2: Any, name: str) -> Any:
    if name == "own snapshots":
        return ec2.describe_snapshots(OwnerIds=["self"])["Snapshots"]
    return getattr(ec2, f"describe_{name}")()[_DESCRIBED[name]]


def _json(answer: Any) -> str:
    """Return an answer as lines, without the tags by which the region itself states what its machine can do."""
    return json.dumps(_without_region_tags(answer), default=str, sort_keys=True, indent=1)


def _without_region_tags(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_region_tags(each) for key, each in value.items()}
    if isinstance(value, list):
        kept = [
            each for each in value if not (isinstance(each, dict) and str(each.get("Key")).startswith("aws:"))
        ]
        return [_without_region_tags(each) for each in kept]
    return value


@contextlib.contextmanager
def users_hardware(home: Path) -> Iterator[UsersHardware]:
    """Start a region and make the hardware in it; at the end, end the region with all that it has."""
    import boto3

    region = start_leased_region()
    try:
        record = region.record
        ec2, ssm = (
            boto3.client(
                service,
                endpoint_url=record.endpoint_url,
                region_name=record.region,
                aws_access_key_id=record.access_key,
                aws_secret_access_key=record.secret_key,
            )
            for service in ("ec2", "ssm")
        )
        found = UsersHardware(record, home, ec2)
        _launch(found, ssm.get_parameter(Name=IMAGE)["Parameter"]["Value"])
        _attach_volumes(found)
        _prepare(found)
        yield found
    finally:
        region.close()


def _launch(theirs: UsersHardware, image: str) -> None:
    ssh = theirs.home / ".ssh"
    ssh.mkdir(mode=0o700)
    key = ssh / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    ec2 = theirs.ec2
    ec2.import_key_pair(KeyName="theirs", PublicKeyMaterial=key.with_suffix(".pub").read_bytes())
    group = ec2.create_security_group(GroupName="theirs", Description="theirs")["GroupId"]
    cidr = [{"CidrIp": theirs.record.ssh_from_cidr}]
    rule = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": cidr}
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])
    tags = [{"Key": "role", "Value": ROLE}, {"Key": "owner", "Value": "somebody"}]
    [made] = ec2.run_instances(
        ImageId=image,
        InstanceType=TYPE,
        MinCount=1,
        MaxCount=1,
        KeyName="theirs",
        SecurityGroupIds=[group],
        IamInstanceProfile={"Name": "theirs"},
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )["Instances"]
    theirs.instance, theirs.address = made["InstanceId"], made["PrivateIpAddress"]
    scan = ["ssh-keyscan", "-t", "ed25519", theirs.address]
    keys = _until(lambda: subprocess.run(scan, capture_output=True, check=False).stdout, "sshd does not run")
    (ssh / "known_hosts").write_bytes(keys)


def _attach_volumes(theirs: UsersHardware) -> None:
    ec2 = theirs.ec2
    ids = {"InstanceIds": [theirs.instance]}
    [described] = ec2.describe_instances(**ids)["Reservations"][0]["Instances"]
    zone = described["Placement"]["AvailabilityZone"]
    theirs.raw, theirs.data = (
        ec2.create_volume(AvailabilityZone=zone, **VOLUME)["VolumeId"] for _ in range(2)
    )
    both = [theirs.raw, theirs.data]

    def states() -> set[str]:
        return {each["State"] for each in ec2.describe_volumes(VolumeIds=both)["Volumes"]}

    _until(lambda: states() == {"available"}, "the volumes are not available")
    _until(
        lambda: (
            ec2.describe_instances(**ids)["Reservations"][0]["Instances"][0]["State"]["Name"] == "running"
        ),
        "the instance does not run",
    )
    for device, volume in zip(("/dev/sdf", "/dev/sdg"), both, strict=True):
        ec2.attach_volume(VolumeId=volume, InstanceId=theirs.instance, Device=device)
    _until(lambda: states() == {"in-use"}, "the volumes are not attached")


def _prepare(theirs: UsersHardware) -> None:
    """Put data on both volumes, and files into the home directory."""
    data = theirs.raw_link.replace(theirs.raw.replace("-", ""), theirs.data.replace("-", ""))
    theirs.run(
        f"sudo dd if=/dev/urandom of={theirs.raw_link} bs=1M count=16 seek=8 conv=fsync 2> /dev/null && "
        f"sudo mkfs.ext4 -q -E nodiscard,lazy_itable_init=0 {data} && sudo mkdir /data && sudo mount {data} /data && "
        "sudo chown ec2-user /data && mkdir /data/tables && head -c 3000000 /dev/urandom > /data/tables/rows && "
        "echo hello > /data/notes && ln -s notes /data/link && echo mine > ~/mine && sync"
    )


def _until(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + _WAIT_S
    while not (found := condition()):
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{what} after {_WAIT_S:g} s")
        time.sleep(0.1)
    return found
