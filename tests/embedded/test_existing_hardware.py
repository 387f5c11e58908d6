"""An instance and volumes that somebody else made, by a plain client with a key of their own: measured, not changed."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from service_clients import client_of

from pytest_cloudbench.evidence.reader import Evidence

pytestmark = pytest.mark.embedded

DOCS = Path(__file__).resolve().parents[2] / "docs" / "existing.md"
_IN_THIS_REGION = """
from pytest_cloudbench import launcher

launcher.kept_region_with = lambda *asked: launcher.RegionRecord.from_json({record!r})
"""

_TESTS = """
import pytest
from pytest_cloudbench import ExistingHardware, gp3
from pytest_cloudbench.hosts.errors import NotOurs

DB, RAW, DATA, SCRATCH, STOPPED = {db!r}, {raw!r}, {data!r}, {scratch!r}, {stopped!r}
LOAD = dict(rw="randread", bs="4k", rate_iops=500, runtime=2)


@pytest.mark.ec2_instance("c5.18xlarge", tag={{"role": "db"}})
@pytest.mark.ebs_volume(id=RAW)
def test_by_tag(ec2_instance, ebs_volume, fio):
    run = fio(ebs_volume, **LOAD)
    assert run.reaches("450 IOPS")
    assert "existing hardware: what else uses it is unknown" in run.conditions
    assert run.envelope.binding[0].label == ebs_volume.iops.label


@pytest.mark.ec2_instance(terraform="db_ids[0]")
@pytest.mark.ebs_volume(terraform="volume_ids.raw")
def test_by_terraform(ec2_instance, ebs_volume, fio):
    run = fio(ebs_volume, **LOAD)
    assert run.reaches("450 IOPS")


@pytest.mark.ec2_instance()
def test_by_ini(ec2, ec2_instance, fio):
    volume = ec2.existing_volume(RAW, instance=ec2_instance)
    run = fio(volume, **LOAD)
    assert run.reaches("450 IOPS")


@pytest.mark.ebs_volume(id=RAW)
def test_a_load_that_writes_needs_consent(ec2, ebs_volume, fio):
    with pytest.raises(NotOurs, match="destructive=True"):
        fio(ebs_volume, rw="randwrite", bs="4k", runtime=1)
    for volume in (ec2.existing_volume(DATA, destructive=True), ec2.existing_volume(DATA)):
        with pytest.raises(NotOurs, match="is mounted on /data"):
            fio(volume, rw="randread", bs="4k", runtime=1)


@pytest.mark.ebs_volume(id=SCRATCH, destructive=True)
def test_a_volume_given_over_is_overwritten_while_it_is_empty(ec2_instance, ebs_volume, fio):
    run = fio(ebs_volume, rw="randwrite", bs="4k", rate_iops=500, runtime=1)
    assert run.reaches("450 IOPS")
    ec2_instance.run(["mkfs.ext4", "-q", "-E", "nodiscard", ebs_volume.path], sudo=True)  # as its owner does
    with pytest.raises(NotOurs, match="carries ext4"):
        fio(ebs_volume, rw="randwrite", bs="4k", runtime=1)


@pytest.mark.ec2_instance()
def test_a_directory_lies_on_its_volume(ec2_instance):
    data = ec2_instance.directory("/data")
    assert data.below.id == DATA
    assert data.counters() is not None
    root = ec2_instance.directory("/tmp")
    assert root.counters() is None
    assert ec2_instance.run(["ls", "/data"]).stdout.split() == ["cloudbench-" + data.path[-12:], "lost+found", "theirs"]


@pytest.mark.ec2_instance()
def test_nothing_is_changed(ec2, ec2_instance):
    with pytest.raises(ExistingHardware, match="existed before this run"):
        ec2_instance.reboot()
    with pytest.raises(ExistingHardware, match="existed before this run"):
        ec2.create_volume(gp3(size_gib=1), ec2_instance)
    with pytest.raises(ExistingHardware, match="is 'stopped': start it first"):
        ec2.existing(STOPPED)
"""


class Theirs(NamedTuple):
    """What belongs to somebody else: instances and volumes, and how they log in."""

    ec2: Any
    db: str
    raw: str
    data: str
    scratch: str
    stopped: str
    ssh: tuple[str, ...]
    home: Path

    def run(self, line: str) -> str:
        """Run a shell line on their instance, as they do it themselves."""
        done = subprocess.run([*self.ssh, line], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def device(self, volume_id: str) -> str:
        return f"/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{volume_id.replace('-', '')}"

    def state(self) -> dict[str, str]:
        """All that the API says of it, and the checksums of the disks."""
        instances = self.ec2.describe_instances(InstanceIds=[self.db, self.stopped])["Reservations"]
        for one in (one for each in instances for one in each["Instances"]):
            one["Tags"] = [
                tag for tag in one["Tags"] if not tag["Key"].startswith("aws:")
            ]  # of the region itself
        volumes = self.ec2.describe_volumes(VolumeIds=[self.raw, self.data, self.scratch])["Volumes"]
        return {
            "instances": json.dumps(instances, default=str, sort_keys=True),
            "volumes": json.dumps(volumes, default=str, sort_keys=True),
            "snapshots": str(len(self.ec2.describe_snapshots(OwnerIds=["self"])["Snapshots"])),
            "raw disk": self.run(f"sudo md5sum {self.device(self.raw)}"),
            "files": self.run("cd /data && sudo find . -printf '%p %u %m %s\\n' | sort; md5sum /data/theirs"),
            "packages and home": self.run("ls -la --time-style=+ ~; ls /mnt /var/tmp"),
            "mounts": self.run("findmnt -n -o SOURCE,TARGET"),
        }


def until(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return found


@pytest.fixture
def theirs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Theirs]:
    access = request.getfixturevalue("_cloudbench_access")
    request.getfixturevalue("_cloudbench_cloud")  # removes what killed runs left before anything else is made
    home = tmp_path / ".ssh"
    home.mkdir(mode=0o700)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(home / "id_ed25519")], check=True
    )
    ec2, ssm = (client_of(access, service) for service in ("ec2", "ssm"))
    parameter = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
    image = ssm.get_parameter(Name=parameter)["Parameter"]["Value"]
    ec2.import_key_pair(KeyName="theirs", PublicKeyMaterial=(home / "id_ed25519.pub").read_bytes())
    group = ec2.create_security_group(GroupName="theirs", Description="theirs")["GroupId"]
    rule = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": access.ssh_from_cidr}]}
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])
    made: list[str] = []
    volumes: list[str] = []
    try:
        for kind, role in (("c5.18xlarge", "db"), ("t3.micro", "spare")):
            tags = [{"Key": "role", "Value": role}]
            answer = ec2.run_instances(
                ImageId=image,
                InstanceType=kind,
                MinCount=1,
                MaxCount=1,
                KeyName="theirs",
                SecurityGroupIds=[group],
                TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
            )
            made.append(answer["Instances"][0]["InstanceId"])
        db, stopped = made
        until(lambda: states(ec2, made) == {"running"}, "the instances do not run")
        ec2.stop_instances(InstanceIds=[stopped], Force=True)
        described = ec2.describe_instances(InstanceIds=[db])["Reservations"][0]["Instances"][0]
        for name in ("/dev/sdf", "/dev/sdg", "/dev/sdh"):
            zone = described["Placement"]["AvailabilityZone"]
            volume = ec2.create_volume(AvailabilityZone=zone, Size=1, VolumeType="gp3", Throughput=750)
            volumes.append(volume["VolumeId"])
            until(lambda: volume_states(ec2, volumes[-1:]) == {"available"}, "a volume is not available")
            ec2.attach_volume(VolumeId=volumes[-1], InstanceId=db, Device=name)
        until(lambda: volume_states(ec2, volumes) == {"in-use"}, "the volumes are not attached")
        raw, data, scratch = volumes
        address = described["PrivateIpAddress"]
        scan = ["ssh-keyscan", "-t", "ed25519", address]
        (home / "known_hosts").write_text(
            until(lambda: subprocess.run(scan, capture_output=True, text=True, check=False).stdout, "no sshd")
        )
        own = ("-F", "none", "-i", str(home / "id_ed25519"), "-o", f"UserKnownHostsFile={home}/known_hosts")
        found = Theirs(ec2, db, raw, data, scratch, stopped, ("ssh", *own, f"ec2-user@{address}"), tmp_path)
        until(lambda: states(ec2, [stopped]) == {"stopped"}, "the spare instance is not stopped")
        found.run(
            f"sudo dd if=/dev/urandom of={found.device(raw)} bs=1M count=16 seek=8 conv=fsync 2> /dev/null; "
            f"sudo mkfs.ext4 -q -E nodiscard {found.device(data)} && sudo mkdir /data && "
            f"sudo mount {found.device(data)} /data && sudo chown ec2-user /data && echo hello > /data/theirs"
        )
        yield found
    finally:
        if made:
            ec2.terminate_instances(InstanceIds=made)
            until(lambda: states(ec2, made) == {"terminated"}, "the instances do not end")
        for volume_id in volumes:
            ec2.delete_volume(VolumeId=volume_id)
        ec2.delete_security_group(GroupId=group)
        ec2.delete_key_pair(KeyName="theirs")


def states(ec2: Any, ids: list[str]) -> set[str]:
    listed = ec2.describe_instances(InstanceIds=ids)["Reservations"]
    return {one["State"]["Name"] for each in listed for one in each["Instances"]}


def volume_states(ec2: Any, ids: list[str]) -> set[str]:
    return {each["State"] for each in ec2.describe_volumes(VolumeIds=ids)["Volumes"]}


def test_what_somebody_has_is_measured_in_every_way_and_not_changed(
    theirs: Theirs, request: pytest.FixtureRequest
) -> None:
    folder, check = theirs.home, request.getfixturevalue("_cloudbench_access").check_region
    # Of the region that this session has started, or of one that is kept.
    record = check.args[0] if isinstance(check, functools.partial) else check.__self__.record
    here = folder / "conftest.py"
    here.write_text(_IN_THIS_REGION.format(record=dataclasses.asdict(record)))
    (folder / "test_theirs.py").write_text(_TESTS.format(**theirs._asdict()))
    shown = "".join(re.findall(r"^```python\n(.*?)^```$", DOCS.read_text(), re.MULTILINE | re.DOTALL))
    shown = shown.replace("i-0123456789abcdef0", theirs.db).replace("vol-0123456789abcdef0", theirs.raw)
    (folder / "test_shown.py").write_text(shown.replace("runtime=60", "runtime=2"))
    outputs = {"db_ids": {"value": [theirs.db]}, "volume_ids": {"value": {"raw": theirs.raw}}}
    (folder / "outputs.json").write_text(json.dumps(outputs))
    (folder / "pytest.ini").write_text(
        f"[pytest]\ncloudbench_instance = {theirs.db}\ncloudbench_terraform = outputs.json\n"
    )
    before = theirs.state()
    measured = _pytest(folder, "--cloudbench-evidence=evidence", "--cloudbench-prices=list")
    assert measured.returncode == 0, measured.stdout
    assert theirs.state() == before
    # A busy machine makes a verdict inconclusive, which skips its test, also in the replay.
    ended = re.findall(r"(\d+) (?:passed|skipped)", measured.stdout.splitlines()[-1])
    assert sum(map(int, ended)) == 9, measured.stdout
    assert "would have cost 0.00 USD" in measured.stdout
    tests = Evidence(folder / "evidence").tests
    asked = {entry["operation"] for test in tests for entry in test.of_kind("answer")}
    assert {operation.partition("_")[0] for operation in asked} <= {"describe", "get"}
    assert "describe_instances" in asked

    planned = _pytest(folder, "--cloudbench-plan")
    assert planned.returncode == 0, planned.stdout
    assert planned.stdout.count(f"existing, nothing is created: c5.18xlarge {theirs.db}") == 9, planned.stdout
    assert "0 instances, 0 volumes; nothing is created, and nothing is billed" in planned.stdout

    here.unlink()
    replayed = _pytest(folder, "--cloudbench-replay=evidence")
    assert replayed.returncode == 0, replayed.stdout
    assert _verdicts(replayed.stdout) == _verdicts(measured.stdout)
    assert len(_verdicts(replayed.stdout)) == 6


def _verdicts(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.lstrip().startswith(("held", "violated", "inconcl"))]


def _pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env={**os.environ, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=240,
        check=False,
    )
