"""Striped volumes on the embedded region, whose hosts share this machine's kernel: real disks, real limits."""

import os
import shutil

import pytest

from pytest_cloudbench import Outcome, gp3
from pytest_cloudbench.hosts.errors import FilesystemError, NotOurs, StripeError
from pytest_cloudbench.resources.storage_target import StorageInUse

pytestmark = [
    pytest.mark.embedded,
    pytest.mark.skipif(
        shutil.which("mkfs.btrfs", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None,
        reason="hosts of an embedded region stripe by btrfs, and this machine has no btrfs-progs",
    ),
]
CAP_SYS_MODULE = 16


def conclusive(verdict):
    """Skip where this machine was too busy to tell; anything else must be the verdict that is expected."""
    if verdict.outcome is Outcome.INCONCLUSIVE and verdict.machine_limited:
        pytest.skip(str(verdict))
    return verdict


def modules(instance):
    listed = instance.run(["cat", "/proc/modules"], check=False)  # a kernel without modules has no such file
    return {line.split()[0] for line in listed.stdout.splitlines()}


def arrays_of_this_machine():
    return sorted(name for name in os.listdir("/sys/block") if name.startswith(("md", "dm-")))


@pytest.mark.ec2_instance("m5.2xlarge")
@pytest.mark.parametrize(
    "count",
    [
        pytest.param(2, marks=pytest.mark.ebs_volumes(gp3(size_gib=1), count=2)),
        pytest.param(3, marks=pytest.mark.ebs_volumes(gp3(size_gib=1), count=3)),
    ],
)
def test_a_stripe_gives_the_sum_of_its_volumes(ebs_volumes, fio, count):
    before = arrays_of_this_machine()
    stripe = ebs_volumes.striped(chunk="64k")
    assert (stripe.method, stripe.kind) == ("btrfs", "directory"), "whatever this machine's kernel has"
    assert arrays_of_this_machine() == before, "the machine's own devices are left alone"
    run = fio(stripe, rw="randread", bs="4k", iodepth=32, numjobs=4, runtime=6, ramp_time=1)
    assert f"btrfs raid0 of {count} x gp3" in run.target
    assert any(condition.startswith("striped by btrfs, chunk 64 KiB (no md") for condition in run.conditions)
    assert str(stripe.iops.limit) == f"{count * 3:,},000 IOPS"
    assert conclusive(run.capped_by(stripe.iops))
    assert run.iops == pytest.approx(count * 3_000, rel=0.05)
    assert run.counters.volume_iops_exceeded_s > 2
    assert run.counters.volume_iops_exceeded_s <= run.counters.elapsed_s


@pytest.mark.ec2_instance("m5.large")
@pytest.mark.ebs_volumes(gp3(size_gib=1), count=2)
def test_random_writes_and_large_reads_meet_the_same_limits(ebs_volumes, fio):
    stripe = ebs_volumes.striped()
    written = fio(stripe, rw="randwrite", bs="4k", iodepth=32, numjobs=4, runtime=6, ramp_time=1)
    assert conclusive(written.capped_by(ebs_volumes.iops)), "written to the devices, not to the page cache"
    read = fio(stripe, rw="read", bs="256k", iodepth=8, numjobs=4, runtime=6, ramp_time=1)
    assert conclusive(read.capped_by(ebs_volumes.throughput))
    data = stripe.mounted("xfs", at="/data")
    assert "btrfs in place of xfs: this host stripes by btrfs only" in data.conditions
    assert (data.path, data.label, stripe.path) == ("/data", stripe.label, "/data")


@pytest.mark.ec2_instance("m5.large")
@pytest.mark.ebs_volumes(gp3(size_gib=1), count=2)
def test_volumes_side_by_side_and_striped_give_the_same(ec2_instance, ebs_volumes, fio):
    stripe = ebs_volumes.striped()
    path = stripe.path
    ec2_instance.run(["touch", f"{path}/mine"])
    for rw in ("randwrite", "randread"):
        with pytest.raises(StorageInUse, match="is part of btrfs raid0"):
            fio(ebs_volumes, rw=rw, bs="4k", runtime=1)
    with pytest.raises(StorageInUse, match=r"/mine, "):
        stripe.initialised()
    ec2_instance.run(["umount", path], sudo=True)
    with pytest.raises(NotOurs, match=r"stripe of .* is not mounted on"):
        fio(stripe, rw="randread", bs="4k", runtime=1)
    stripe.look_again()
    assert ec2_instance.run(["ls", stripe.path]).stdout == "mine\n", "its data is there again"
    stripe.dissolve()
    assert ec2_instance.run(["findmnt", path], check=False).exit_code != 0
    run = fio(ebs_volumes, rw="randread", bs="4k", iodepth=16, runtime=3, ramp_time=1)
    assert conclusive(run.reaches(ebs_volumes.iops))
    assert ebs_volumes.striped(chunk="128k").path != path


@pytest.mark.ec2_instance("m5.large")
@pytest.mark.ebs_volumes(gp3(size_gib=1), count=2)
def test_a_host_can_make_no_array_of_this_machine(ec2_instance, ebs_volumes):
    """Neither by accident: its root has no way to a node of md or device mapper."""
    for number in ("9 0", "253 0", "10 236"):
        kind = "c" if number.startswith("10") else "b"
        made = ec2_instance.run(["mknod", "/dev/array", kind, *number.split()], sudo=True, check=False)
        assert made.exit_code != 0
        assert "Operation not permitted" in made.stderr
    listed = ec2_instance.run(["find", "/dev", "-type", "b"]).stdout.split()
    assert sorted(listed) == sorted(volume.path for volume in ebs_volumes), "it sees its volumes alone"
    assert ec2_instance.run(["ls", "/dev/mapper/control"], check=False).exit_code != 0
    assert "ro" in ec2_instance.run(["findmnt", "-n", "-o", "OPTIONS", "/sys"]).stdout.strip().split(",")
    for switch in ("/sys/module/md_mod/parameters/new_array", "/sys/module/loop/parameters/max_loop"):
        said = ec2_instance.run(["sh", "-c", f"echo x > {switch}"], sudo=True, check=False)
        assert said.exit_code != 0
    # modprobe is content where the module is there already, so its exit code says nothing.
    before = modules(ec2_instance)
    ec2_instance.run(["modprobe", "raid0"], sudo=True, check=False)
    assert modules(ec2_instance) == before
    allowed = ec2_instance.run(["grep", "CapBnd", "/proc/self/status"], sudo=True).stdout.split()[1]
    assert not int(allowed, 16) >> CAP_SYS_MODULE & 1


@pytest.mark.ec2_instance("m5.large")
@pytest.mark.ebs_volumes(gp3(size_gib=1), count=2)
def test_what_cannot_be_striped_is_refused(ec2_instance, ebs_volumes, ec2):
    first, second = ebs_volumes
    with pytest.raises(StripeError, match="1 device"):
        first.beside().striped()
    larger = ec2.create_volume(gp3(size_gib=2), ec2_instance)
    with pytest.raises(StripeError, match="unequal size"):
        first.beside(larger).striped()
    ec2_instance.run(["mkfs.ext4", "-q", second.path], sudo=True)
    with pytest.raises(FilesystemError, match=r"carries ext4: striping would destroy it"):
        ebs_volumes.striped()
    ec2_instance.run(["mkdir", "/by-hand"], sudo=True)
    ec2_instance.run(["mount", second.path, "/by-hand"], sudo=True)
    with pytest.raises(NotOurs, match="it is mounted on /by-hand"):
        ebs_volumes.striped(overwrite=True)
    ec2_instance.run(["umount", "/by-hand"], sudo=True)
    assert ebs_volumes.striped(overwrite=True).method == "btrfs"


@pytest.mark.ec2_instance("m5.2xlarge")
@pytest.mark.ebs_volumes(gp3(size_gib=1), count=2)
def test_a_stripe_is_initialised_before_and_after_it_is_made(ebs_volumes):
    stripe = ebs_volumes.striped().initialised()
    done = ebs_volumes[0].initialisation
    assert done is ebs_volumes[1].initialisation, "side by side"
    assert done.size == ebs_volumes.size
    # 8.2 s at their limits; one after the other they would take twice as long.
    assert 0.95 * 2 * 1024 / 250 <= done.seconds < 0.95 * 2 * 1024 / 125
    assert str(done) in stripe.conditions
    stripe.prove_writable()
    assert stripe.initialised() is stripe, "not once more"
