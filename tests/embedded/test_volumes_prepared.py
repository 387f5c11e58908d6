"""What people do with a volume before they measure, on the embedded region: file systems, initialising, moving."""

import os
import shutil
import time

import pytest

from pytest_cloudbench import Outcome, gp3
from pytest_cloudbench.hosts.errors import FilesystemError
from pytest_cloudbench.resources.storage_target import StorageInUse
from pytest_cloudbench.workloads.errors import TargetError

pytestmark = pytest.mark.embedded


def conclusive(verdict):
    """Skip where this machine was too busy to tell; anything else must be the verdict that is expected."""
    if verdict.outcome is Outcome.INCONCLUSIVE and verdict.machine_limited:
        pytest.skip(str(verdict))
    return verdict


@pytest.mark.ec2_instance("m5.large")
@pytest.mark.ebs_volume(gp3(size_gib=1))
@pytest.mark.skipif(
    shutil.which("mkfs.btrfs", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None,
    reason="this machine has no btrfs-progs",
)
def test_direct_io_on_btrfs_is_direct(ec2_instance, ebs_volume, fio):
    data = ebs_volume.mounted("btrfs", at="/data")
    assert ec2_instance.run(["findmnt", "-n", "-o", "FSTYPE", "/data"]).stdout.strip() == "btrfs"
    run = fio(data, rw="randrw", bs="4k", iodepth=16, numjobs=2, size="128m", runtime=5, ramp_time=1)
    assert conclusive(run.reaches(ebs_volume.iops))
    assert run.iops < 3_000 * 1.03
    assert any("nodatacow" in condition for condition in run.conditions)
    data.prove_writable()
    data.unmount()


@pytest.mark.ec2_instance("m5.large")
@pytest.mark.ebs_volume(gp3(size_gib=1))
def test_a_file_system_is_not_overwritten_without_a_word(ec2_instance, ebs_volume, ec2):
    ec2_instance.run(["mkfs.ext4", "-q", ebs_volume.path], sudo=True)
    for kind in ("ext4", "xfs"):
        with pytest.raises(FilesystemError, match=rf"carries ext4: making {kind} would destroy it"):
            ebs_volume.mounted(kind)
    with pytest.raises(FilesystemError, match="carries ext4: writing every block would destroy it"):
        ebs_volume.initialised()
    data = ebs_volume.mounted("xfs", at="/data", overwrite=True)
    ec2_instance.run(["sh", "-c", "echo kept > /data/file"])
    other = ec2.create_volume(gp3(size_gib=1), ec2_instance)
    with pytest.raises(FilesystemError, match=rf"/data is already the mount point of {ebs_volume.path}"):
        other.mounted("xfs", at="/data")
    data.unmount()
    again = ebs_volume.mounted("xfs", at="/elsewhere", owner="nobody")
    assert again.mount.reused
    assert ec2_instance.run(["cat", "/elsewhere/file"]).stdout == "kept\n"
    assert ec2_instance.run(["stat", "-c", "%U", "/elsewhere"]).stdout == "nobody\n"


@pytest.mark.ec2_instance("m5.2xlarge")
@pytest.mark.ebs_volume(gp3(size_gib=1, throughput_mib=250))
def test_every_block_is_written_and_the_time_is_kept(ec2_instance, ebs_volume, fio, ec2):
    before = _blocks_of_zeroes(ec2_instance, ebs_volume.path)
    assert before == 1024
    began = time.monotonic()
    assert ebs_volume.initialised() is ebs_volume
    longest_s = time.monotonic() - began
    assert _blocks_of_zeroes(ec2_instance, ebs_volume.path) == 0
    done = ebs_volume.initialisation
    assert done.way == "write"
    # Never sooner than the volume's limit allows. How much later is the machine's own matter.
    assert 1024 / 250 * 0.95 <= done.seconds <= longest_s
    run = fio(ebs_volume, rw="randread", bs="4k", iodepth=4, runtime=1)
    assert str(done) in run.conditions
    too_large = ec2.create_volume(gp3(size_gib=16_000), ec2_instance)
    with pytest.raises(
        TargetError, match=r"writing every block of gp3 16,000 GiB.*has room for .*--cloudbench-twin"
    ):
        too_large.initialised()
    assert too_large.initialisation is None


def _blocks_of_zeroes(instance, path):
    """How many blocks of 1 MiB hold nothing but zeroes; each is compared on the host."""
    script = (
        "import sys\n"
        "blank = bytes(1 << 20)\n"
        "with open(sys.argv[1], 'rb') as device:\n"
        "    print(sum(block == blank for block in iter(lambda: device.read(1 << 20), b'')))\n"
    )
    return int(instance.run(["python3", "-c", script, path], sudo=True).stdout)


@pytest.mark.ec2_instance("m5.large")
@pytest.mark.ebs_volume(gp3(size_gib=2))
def test_a_load_stays_within_a_file_that_was_laid_out(ec2_instance, ebs_volume, fio):
    data = ebs_volume.mounted("xfs")
    file = data.prefilled("256m")
    assert file.seconds > 1
    assert file.label == f"file of 256 MiB on xfs on {ebs_volume.label}"
    run = fio(file, rw="randread", bs="4k", iodepth=16, numjobs=2, runtime=6, ramp_time=1)
    assert run.target == file.label
    assert str(file.prefilled_as) in run.conditions
    assert conclusive(run.capped_by(ebs_volume.iops))
    assert ec2_instance.run(["ls", data.path]).stdout.split() == ["prefilled-268435456"]
    with pytest.raises(TargetError, match="a file of 64 GiB does not fit"):
        data.prefilled("64g")


def test_data_moves_with_its_volume_to_another_instance(ec2):
    first, second = ec2.launch("m5.large", zone="us-east-1a"), ec2.launch("c5.large", zone="us-east-1a")
    volume = ec2.create_volume(gp3(size_gib=1), first)
    data = volume.mounted("xfs", at="/data")
    first.run(["sh", "-c", "echo moved > /data/file"])
    with pytest.raises(StorageInUse, match=r"is mounted on /data of m5.large i-.*: unmount it first"):
        volume.detach()
    assert first.run(["cat", "/data/file"]).stdout == "moved\n", "nothing was done"
    data.unmount()
    volume.detach()
    with pytest.raises(StorageInUse, match="not attached to an instance"):
        volume.prove_writable()
    volume.attach(second)
    assert volume.instance is second
    again = volume.mounted("xfs", at="/data")
    assert again.mount.reused
    assert second.run(["cat", "/data/file"]).stdout == "moved\n"
    with pytest.raises(StorageInUse, match="is mounted on /data"):
        volume.detach()
    assert volume.detach(unmount=True).attach(first).mounted("xfs").mount.reused
