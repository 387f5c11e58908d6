"""What cannot be done with storage on the embedded region: a clear sentence each, and nothing made or left behind."""

import threading

import pytest
from service_clients import client_of

from pytest_cloudbench import gp3
from pytest_cloudbench.hosts.errors import FilesystemError, NotOurs, StripeError
from pytest_cloudbench.resources.errors import AttachmentLimit, ZoneMismatch
from pytest_cloudbench.workloads.create_files.errors import FilesystemFull

pytestmark = pytest.mark.embedded


@pytest.fixture
def volume_ids(_cloudbench_access, _cloudbench_cloud):
    """A function that returns this run's volumes, seen from outside by a client of its own."""
    access = _cloudbench_access
    client = client_of(access)
    own = {"Name": "tag:cloudbench:run", "Values": [_cloudbench_cloud.run_id]}
    return lambda: {volume["VolumeId"] for volume in client.describe_volumes(Filters=[own])["Volumes"]}


def test_volumes_of_two_zones_make_no_stripe(ec2, volume_ids):
    here, there = ec2.launch("m5.large", zone="us-east-1a"), ec2.launch("m5.large", zone="us-east-1b")
    mine, other = (ec2.create_volume(gp3(size_gib=1), instance) for instance in (here, there))
    before = volume_ids()
    with pytest.raises(StripeError, match="disks of 2 instances cannot be striped"):
        mine.beside(other).striped()
    with pytest.raises(ZoneMismatch, match=r"us-east-1b .*us-east-1a"):
        ec2.create_volumes(gp3(size_gib=1), here, count=2, zone="us-east-1b")
    mine.detach()
    with pytest.raises(ZoneMismatch, match=r"in us-east-1a"):
        mine.attach(there)
    assert not volume_ids() - before
    assert not here.run(["findmnt", "-t", "btrfs"], check=False).stdout


@pytest.mark.ec2_instance("m5.large")
def test_more_volumes_than_the_type_may_attach(ec2, ec2_instance, volume_ids):
    before = volume_ids()
    with pytest.raises(AttachmentLimit, match=r"m5\.large .* 60 more"):
        ec2.create_volumes(gp3(size_gib=1), ec2_instance, count=60)
    assert not volume_ids() - before, "refused before any was created"


@pytest.mark.fault("disks", "a device is mounted or has content")
@pytest.mark.ec2_instance("m5.large")
@pytest.mark.ebs_volume(gp3(size_gib=1))
def test_a_device_that_is_mounted_or_holds_a_file_system_is_no_target(ec2_instance, ebs_volume, fio, sweep):
    path = ebs_volume.path
    ec2_instance.run(["mkfs.ext4", "-q", path], sudo=True)
    with pytest.raises(FilesystemError, match="ext4"):
        ebs_volume.mounted("xfs")
    ec2_instance.run(["mkdir", "/by-hand"], sudo=True)
    ec2_instance.run(["mount", path, "/by-hand"], sudo=True)
    ec2_instance.run(["sh", "-c", "echo mine > /by-hand/mine"], sudo=True)
    for attempt in (
        lambda: fio(ebs_volume, rw="randwrite", bs="4k", runtime=1),
        lambda: fio(ebs_volume, rw="randread", bs="4k", runtime=1),
        lambda: sweep(ebs_volume, mix="4k-random-read", steps=(50,)),
        lambda: ebs_volume.mounted("xfs", overwrite=True),
        ebs_volume.initialised,
    ):
        with pytest.raises(NotOurs, match="mounted on /by-hand"):
            attempt()
    assert ec2_instance.run(["cat", "/by-hand/mine"]).stdout == "mine\n"


@pytest.mark.fault("disks", "the root device is the target")
@pytest.mark.ssh
@pytest.mark.ec2_instance("m5.large")
@pytest.mark.ebs_volume(gp3(size_gib=1))
def test_the_root_device_is_no_target(ec2_instance, ebs_volume, fio):
    """As where a device name leads to the disk that the host runs from: the volume's own is mounted on / here."""
    ec2_instance.run(["mkfs.ext4", "-q", ebs_volume.path], sudo=True)
    ec2_instance.run(["mount", ebs_volume.path, "/"], sudo=True)
    with pytest.raises(NotOurs, match="it holds the root file system"):
        fio(ebs_volume, rw="randwrite", bs="4k", runtime=1)
    with pytest.raises(NotOurs, match="it is not read: it holds the root file system"):
        fio(ebs_volume, rw="randread", bs="4k", runtime=1)
    ec2_instance.run(["umount", ebs_volume.path], sudo=True, check=False)


@pytest.mark.fault("disks", "a file system fills up during a load")
@pytest.mark.ec2_instance("m5.2xlarge")
@pytest.mark.ebs_volume(gp3(size_gib=1, throughput_mib=500))
def test_a_file_system_that_fills_up_while_files_are_created(ec2_instance, ebs_volume, create_files):
    """There was room when it was looked at; somebody else takes it while the files are created."""
    data = ebs_volume.mounted("ext4", at="/data")
    taken = "until ls /data/*/file5 2>/dev/null; do sleep 0.02; done; fallocate -l 700m /data/theirs"
    other = threading.Thread(target=ec2_instance.run, args=(["sh", "-c", taken],), daemon=True)
    other.start()
    with pytest.raises(FilesystemFull, match=r"was full after .* of 2,000 files of 256 KiB") as caught:
        create_files(data, count=2_000, size="256k", sync="each")
    other.join(30)
    assert 5 <= caught.value.partial.files < 2_000
    assert not caught.value.partial.complete
    left = ec2_instance.run(["ls", "/data"]).stdout.split()
    assert left == ["lost+found", "theirs"], "the files that were created are gone, those of others are not"
