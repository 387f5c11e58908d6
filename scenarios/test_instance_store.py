"""The local NVMe disks of an i3.8xlarge against an EBS volume: finding them, filling them, and losing them.

The published measurement (2023): four disks of 1,900 GB, absent from `df` until somebody makes a file system. 100,000
files of 1 MiB, made by a loop of `dd` between two marker files, took 488 s on gp3 and 292 s on the instance store. That
is 215 MB/s on a volume of 125 MB/s: the page cache took part. So both times are reported here, until the last file
was written and until all was on the device, and verdicts rest on the second.

What is on the instance store is gone after a stop and start; what is on an EBS volume is not.

On the embedded region a disk of this size costs only what is written. How fast it is there is its machine's doing.
"""

import pytest

from pytest_cloudbench import gp3
from pytest_cloudbench.resources.disks import Disk

FILES = {"count": 100_000, "size": "1m"}
GP3 = gp3(size_gib=500)


def kept_in(directory, text):
    """Write a text into a file of its own on a mounted disk, all the way down to the device."""
    path = f"{directory.path}/kept"
    directory.host.run(["sh", "-c", 'printf %s "$1" > "$2" && sync -f "$2"', "sh", text, path])
    return path


def carries_file_system(disk: Disk) -> bool:
    found = disk.host.run(["blkid", disk.path], sudo=True, check=False)
    return "TYPE=" in found.stdout


@pytest.mark.ec2_instance("i3.8xlarge")
def test_four_disks_are_there_and_empty(instance_store):
    assert [round(disk.size.bytes / 1e9) for disk in instance_store] == [1900] * 4
    assert not any(carries_file_system(disk) for disk in instance_store)
    data = instance_store[0].mounted("xfs", at="/data")
    owner = data.host.run(["stat", "--format=%U", "/data"]).stdout.strip()
    assert owner == data.host.run(["id", "--user", "--name"]).stdout.strip()


@pytest.mark.ec2_instance("i3.8xlarge")
@pytest.mark.ebs_volume(GP3)
def test_files_are_created_faster_than_on_gp3(instance_store, ebs_volume, create_files):
    """And the page cache takes part: what was written and had not reached the volume is where 215 MB/s came from."""
    store = create_files(instance_store[0].mounted("xfs", at="/data"), **FILES)
    volume = create_files(ebs_volume.mounted("xfs", at="/mnt/gp3"), **FILES)
    assert volume.on_device_s > volume.written_s
    assert volume.left_in_page_cache.bytes > 0
    assert store.faster_than(volume, by=1.3)
    assert volume.reaches(ebs_volume.throughput)


@pytest.mark.full_pace
@pytest.mark.ec2_instance("i3.8xlarge")
@pytest.mark.ebs_volume(GP3)
@pytest.mark.parametrize("sync", ["end", "each", "none"])
def test_files_by_dd_as_published(instance_store, ebs_volume, create_files, sync):
    store = create_files(instance_store[0].mounted("xfs", at="/data"), method="dd", sync=sync, **FILES)
    volume = create_files(ebs_volume.mounted("xfs", at="/mnt/gp3"), method="dd", sync=sync, **FILES)
    assert store.written_s <= volume.written_s * 1.1
    if sync != "none":
        assert store.faster_than(volume, by=1.3)


@pytest.mark.ec2_instance("i3.8xlarge")
@pytest.mark.ebs_volume(GP3)
def test_a_stop_loses_the_store_and_not_the_volume(ec2_instance, instance_store, ebs_volume):
    kept_in(instance_store[0].mounted("xfs", at="/data"), "on the store")
    on_volume = kept_in(ebs_volume.mounted("xfs", at="/mnt/gp3"), "on the volume")
    ec2_instance.stop()
    ec2_instance.start()
    assert not carries_file_system(instance_store[0])
    again = ebs_volume.mounted("xfs", at="/mnt/gp3")
    assert again.host.run(["cat", on_volume]).stdout == "on the volume"


@pytest.mark.ec2_instance("i3.8xlarge")
def test_a_reboot_keeps_the_store(ec2_instance, instance_store):
    path = kept_in(instance_store[0].mounted("xfs", at="/data"), "on the store")
    ec2_instance.reboot()
    again = instance_store[0].mounted("xfs", at="/data")
    assert again.host.run(["cat", path]).stdout == "on the store"
