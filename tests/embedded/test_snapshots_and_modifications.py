"""Snapshots and modifications of volumes of the embedded region: real data, real sizes, real limits."""

import pytest

from pytest_cloudbench import Outcome, gp3
from pytest_cloudbench.limits.volume_types import FIRST_READ
from pytest_cloudbench.limits.volumes import InvalidSpec
from pytest_cloudbench.resources.storage_target import StorageInUse

pytestmark = pytest.mark.embedded

DATA_MIB = 128


def conclusive(verdict):
    """Skip where this machine was too busy to tell; anything else must be the verdict that is expected."""
    if verdict.outcome is Outcome.INCONCLUSIVE and verdict.machine_limited:
        pytest.skip(str(verdict))
    return verdict


@pytest.mark.ec2_instance("m5.2xlarge")
@pytest.mark.ebs_volume(gp3(size_gib=1, throughput_mib=500))
def test_a_snapshot_holds_what_was_there_and_comes_slowly(ec2_instance, ebs_volume, ec2, fio):
    data = ebs_volume.mounted("ext4", at="/data")
    make = f"head -c {DATA_MIB}M /dev/urandom > /data/file && sha256sum < /data/file > /data/sum"
    ec2_instance.run(["sh", "-c", make])
    snapshot = ebs_volume.snapshot()
    ec2_instance.run(["rm", "/data/file"])
    data.unmount()
    ebs_volume.detach()
    with pytest.raises(InvalidSpec, match="needs 2 GiB"):
        ec2.create_volume(
            gp3(size_gib=1), ec2_instance, snapshot=_as_of(snapshot, ebs_volume.modify(size_gib=2))
        )
    copy = ec2.create_volume(gp3(size_gib=2, throughput_mib=500), ec2_instance, snapshot=snapshot)
    assert any("not initialised" in said for said in copy.conditions)
    ec2_instance.run(["mount", "-r", copy.path, "/mnt"], sudo=True)
    read = "dd if=/mnt/file of=/dev/null bs=1M iflag=direct 2>&1 | tail -n 1"
    for first in (True, False):
        said = ec2_instance.run(["sh", "-c", read]).stdout
        took_s = float(
            said.split(", ")[-2].split()[0]
        )  # 134217728 bytes (134 MB, 128 MiB) copied, 2.56 s, 52.4 MB/s
        if first:
            assert took_s == pytest.approx(DATA_MIB / FIRST_READ.throughput.mib, rel=0.25)
        else:
            assert took_s < DATA_MIB / FIRST_READ.throughput.mib / 2
    ec2_instance.run(["umount", "/mnt"], sudo=True)
    copy.initialised()
    assert copy.initialisation.way == "read"
    fast = fio(copy, rw="read", bs="256k", iodepth=16, runtime=3, ramp_time=1)
    assert conclusive(fast.reaches(copy.throughput))
    check = f"mount -r {copy.path} /mnt && sha256sum < /mnt/file | diff - /mnt/sum; umount /mnt"
    ec2_instance.run(["sh", "-c", check], sudo=True)


def _as_of(snapshot, volume):
    """The snapshot as if it were of the volume's present size."""
    import dataclasses

    return dataclasses.replace(snapshot, size=volume.size)


@pytest.mark.ec2_instance("m5.2xlarge")
@pytest.mark.ebs_volume(gp3(size_gib=8))
def test_a_volume_grows_and_becomes_faster_while_it_is_mounted(ec2_instance, ebs_volume, ec2, fio):
    data = ebs_volume.mounted("xfs", at="/data")
    ec2_instance.run(["touch", "/data/kept"])
    assert ebs_volume.modify(size_gib=12, iops=6_000) is ebs_volume
    assert (ebs_volume.size.gib, ebs_volume.spec.iops) == (12, 6_000)
    data.prove_writable()
    ec2_instance.run(["xfs_growfs", "/data"], sudo=True)
    size = ec2_instance.run(["df", "-BG", "--output=size", "/data"]).stdout.split()[-1]
    assert size == "12G"
    run = fio(data, rw="randread", bs="4k", iodepth=32, numjobs=2, size="64m", runtime=4, ramp_time=2)
    assert conclusive(run.reaches(ebs_volume.iops))
    with pytest.raises(InvalidSpec, match="cannot become smaller"):
        ebs_volume.modify(size_gib=11)
    assert ec2_instance.run(["ls", "/data"]).stdout.split()[-1] == "kept"
    group = ec2.create_volumes(gp3(size_gib=1), ec2_instance, count=2)
    group.striped()
    with pytest.raises(StorageInUse, match="cannot be resized by itself"):
        group[0].modify(size_gib=2)
