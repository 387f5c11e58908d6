"""The instance store of the embedded region: found, loaded, lost by a stop, kept by a reboot."""

import time

import pytest
from shown_tests import shown_test

from pytest_cloudbench import Outcome, gp3
from pytest_cloudbench.hosts.errors import NotOurs
from pytest_cloudbench.resources.instance_store import NoStoreFigure, StoreLost
from pytest_cloudbench.resources.restarts import NotRunning
from pytest_cloudbench.resources.storage_target import StorageInUse
from pytest_cloudbench.verdicts.verdict import Inconclusive

pytestmark = pytest.mark.embedded


def conclusive(verdict):
    """Skip where this machine was too busy to tell; anything else must be the verdict that is expected."""
    if verdict.outcome is Outcome.INCONCLUSIVE:
        pytest.skip(str(verdict))
    return verdict


@pytest.mark.alone
@pytest.mark.ec2_instance("i3.8xlarge")
@pytest.mark.ebs_volume(gp3(size_gib=1))
def test_disks_of_the_type_are_there_and_empty(ec2_instance, instance_store, ebs_volume, fio):
    assert len(instance_store) == 4
    assert {disk.size.bytes for disk in instance_store} == {1_900_000_000_000}
    assert len({disk.device.serial for disk in instance_store}) == 4
    assert all(disk.device.serial.startswith("AWS") for disk in instance_store)
    assert ebs_volume.path not in instance_store.paths
    assert ec2_instance.run(["lsblk", "-bdno", "SIZE", instance_store[0].path]).stdout.split() == [
        "1900000000000"
    ]
    with pytest.raises(NoStoreFigure, match="read_iops or write_iops"):
        _ = instance_store.iops
    runs = []

    def kept_fio(*target, **options):
        runs.append(fio(*target, **options))
        return runs[-1]

    try:
        shown_test("storage", "test_local_disks")(ec2_instance, instance_store, kept_fio)
    except Inconclusive as undecided:
        if "the machine under the embedded region" not in str(undecided):
            raise
    (run,) = runs
    assert run.envelope.find(instance_store.write_iops) is not None
    assert run.envelope.find(instance_store.read_iops) is None
    if run.envelope.machine and run.envelope.iops_of(run.envelope.machine[0]).per_second < 720_000:
        assert any("this machine's own ceiling" in condition for condition in run.conditions)


@pytest.mark.alone
@pytest.mark.ec2_instance("c5d.large")
def test_published_figures_hold_where_the_machine_can(instance_store, fio):
    [disk] = instance_store
    if any("own ceiling" in condition for condition in disk.conditions):
        pytest.skip("this machine serves less than a c5d.large")
    reads = fio(disk, rw="randread", bs="4k", iodepth=32, numjobs=2, size="64m", runtime=8, ramp_time=2)
    assert conclusive(reads.capped_by(disk.read_iops))
    writes = fio(disk, rw="randwrite", bs="4k", iodepth=32, numjobs=2, size="64m", runtime=8, ramp_time=2)
    assert conclusive(writes.capped_by(disk.write_iops))
    assert reads.iops == pytest.approx(20_000, rel=0.05)
    assert writes.iops == pytest.approx(9_000, rel=0.03)
    assert reads.counters is None


@pytest.mark.ec2_instance("c5d.large")
@pytest.mark.ebs_volume(gp3(size_gib=1))
def test_what_a_stop_and_a_reboot_leave(ec2_instance, instance_store, ebs_volume, fio, create_files):
    local = instance_store[0].mounted("xfs", at="/local")
    volume = ebs_volume.mounted("xfs", at="/data")
    for directory in ("/local", "/data"):
        ec2_instance.run(["sh", "-c", f"echo kept > {directory}/file"])
    serial, address = instance_store[0].device.serial, ec2_instance.launched.private_ip
    ec2_instance.reboot()
    for old in (local, volume):
        with pytest.raises(StorageInUse, match=r"was rebooted since.*mounted\(\.\.\.\) mounts it again"):
            fio(old, rw="randread", bs="4k", size="1m", runtime=1)
    assert instance_store[0].device.serial == serial
    local = instance_store[0].mounted("xfs", at="/local")
    volume = ebs_volume.mounted("xfs", at="/data")
    assert ec2_instance.run(["cat", "/local/file", "/data/file"]).stdout == "kept\nkept\n"
    ec2_instance.stop()
    for target in (local, ebs_volume, instance_store):
        with pytest.raises(NotRunning, match=r"is stopped: nothing runs on it until start\(\)"):
            fio(target, rw="randread", bs="4k", size="1m", runtime=1)
    with pytest.raises(NotRunning, match="is stopped already"):
        ec2_instance.stop()
    ec2_instance.start()
    with pytest.raises(NotRunning, match="is not stopped"):
        ec2_instance.start()
    assert ec2_instance.launched.private_ip == address
    for use in (lambda: create_files(local, count=1), lambda: fio(local, rw="randread", bs="4k", size="1m")):
        with pytest.raises(StorageInUse, match="was stopped since"):
            use()
    assert instance_store[0].device.serial != serial
    volume = ebs_volume.mounted("xfs", at="/data")
    assert volume.mount.reused
    local = instance_store[0].mounted("xfs", at="/local")
    assert not local.mount.reused
    assert ec2_instance.run(["sh", "-c", "cat /data/file; ls -A /local"]).stdout == "kept\n"
    run = fio(local, rw="randwrite", bs="4k", size="16m", runtime=1, rate_iops=1_000)
    assert run.iops > 0


@pytest.mark.ec2_instance("m5d.12xlarge")
def test_somebody_else_stopped_it_in_between(ec2_instance, instance_store, fio):
    local = instance_store[0].mounted("ext4")
    cloud, launched = ec2_instance._provider, ec2_instance.launched
    cloud.stop(launched)
    with pytest.raises(NotRunning, match="is 'stopped', but not by this test"):
        fio(instance_store, rw="randread", bs="4k", size="1m", runtime=1)
    second = int(time.time())
    while int(time.time()) == second:  # EC2 tells when an instance was launched to the second
        time.sleep(0.02)
    cloud.start(launched)
    with pytest.raises(StoreLost, match=r"stopped and started from outside .* new and empty"):
        fio(instance_store[1], rw="randread", bs="4k", size="1m", runtime=1)
    with pytest.raises(StorageInUse, match="the data on its instance store is lost"):
        fio(local, rw="randread", bs="4k", size="1m", runtime=1)
    ec2_instance.host.reconnect()
    assert instance_store[0].mounted("ext4").mount.reused is False


@pytest.mark.ec2_instance("m5d.12xlarge")
def test_a_stripe_of_local_disks_goes_with_them(ec2_instance, instance_store, fio):
    stripe = instance_store.striped()
    data = stripe.mounted("xfs")
    ec2_instance.run(["touch", f"{data.path}/file"])
    with pytest.raises(StorageInUse, match="part of"):
        instance_store[0].mounted("xfs")
    ec2_instance.reboot()
    again = stripe.mounted("xfs")
    assert ec2_instance.run(["ls", again.path]).stdout == "file\n"
    assert fio(again, rw="randwrite", bs="4k", size="16m", runtime=1, rate_iops=1_000).iops > 0
    ec2_instance.stop()
    ec2_instance.start()
    with pytest.raises(StorageInUse):
        fio(stripe, rw="randwrite", bs="4k", size="16m", runtime=1)
    assert instance_store[0].stripe is None
    assert instance_store.striped().mounted("xfs").path


@pytest.mark.ec2_instance("c5d.large")
def test_a_local_disk_in_use_is_not_written_to(ec2_instance, instance_store, fio):
    path = instance_store[0].path
    ec2_instance.run(["sh", "-c", f"mkfs.ext4 -q {path} && mount {path} /mnt"], sudo=True)
    with pytest.raises(NotOurs, match="is mounted on /mnt"):
        fio(instance_store, rw="randwrite", bs="4k", size="1m", runtime=1)
