"""The local NVMe disks of an i3.8xlarge compared with an EBS volume: find them, fill them, lose them.

The published measurement (2023) found four disks of 1,900 GB, missing in `df` until a file system is made. 100,000
files of 1 MiB, created by a loop of `dd` between two marker files, took 488 s on gp3 and 292 s on the instance store.
That is 215 MB/s on a volume of 125 MB/s, because the page cache is included. So two times are reported here, until the
last file was written and until all data was on the device. Verdicts use the second.

A stop and start loses the data of the instance store, but not that of an EBS volume.

On the embedded region a disk of this size takes only the space of the written data, and its speed is the machine's.
"""

import pytest

from pytest_cloudbench import gp3
from pytest_cloudbench.resources.disks import Disk

FILES = {"count": 100_000, "size": "1m"}
GP3 = gp3(size_gib=500)


def write_to(directory, text):
    """Write a text to a file on a mounted disk, sync it to the device, and return its path."""
    path = f"{directory.path}/kept"
    directory.host.run(["sh", "-c", 'printf %s "$1" > "$2" && sync -f "$2"', "sh", text, path])
    return path


def carries_file_system(disk: Disk) -> bool:
    found = disk.host.run(["blkid", disk.path], sudo=True, check=False)
    return "TYPE=" in found.stdout


@pytest.mark.light
@pytest.mark.ec2_instance("i3.8xlarge")
def test_four_empty_disks_are_present(instance_store):
    assert [round(disk.size.bytes / 1e9) for disk in instance_store] == [1900] * 4
    assert not any(carries_file_system(disk) for disk in instance_store)
    data = instance_store[0].mounted("xfs", at="/data")
    owner = data.host.run(["stat", "--format=%U", "/data"]).stdout.strip()
    assert owner == data.host.run(["id", "--user", "--name"]).stdout.strip()


@pytest.mark.ec2_instance("i3.8xlarge")
@pytest.mark.ebs_volume(GP3)
def test_files_are_created_faster_than_on_gp3(instance_store, ebs_volume, create_files):
    """The page cache is included: data that had not yet reached the volume explains the 215 MB/s."""
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


@pytest.mark.light
@pytest.mark.ec2_instance("i3.8xlarge")
@pytest.mark.ebs_volume(GP3)
def test_a_stop_loses_the_data_of_the_store_but_not_of_the_volume(ec2_instance, instance_store, ebs_volume):
    write_to(instance_store[0].mounted("xfs", at="/data"), "on the store")
    on_volume = write_to(ebs_volume.mounted("xfs", at="/mnt/gp3"), "on the volume")
    ec2_instance.stop()
    ec2_instance.start()
    assert not carries_file_system(instance_store[0])
    again = ebs_volume.mounted("xfs", at="/mnt/gp3")
    assert again.host.run(["cat", on_volume]).stdout == "on the volume"


@pytest.mark.light
@pytest.mark.ec2_instance("i3.8xlarge")
def test_a_reboot_keeps_the_data_of_the_store(ec2_instance, instance_store):
    path = write_to(instance_store[0].mounted("xfs", at="/data"), "on the store")
    ec2_instance.reboot()
    again = instance_store[0].mounted("xfs", at="/data")
    assert again.host.run(["cat", path]).stdout == "on the store"
