"""What a raw device carries is destroyed by no load, unless the test says so; and one load at a time uses a device."""

import threading

import pytest

from pytest_cloudbench import Workload, gp3
from pytest_cloudbench.fixtures.workload_call import WorkloadCall
from pytest_cloudbench.hosts.errors import WouldDestroy
from pytest_cloudbench.workloads.fio.errors import BadFioJob
from pytest_cloudbench.workloads.one_load import LoadRunning

pytestmark = [
    pytest.mark.embedded,
    pytest.mark.ec2_instance("m5.large"),
    pytest.mark.ebs_volume(gp3(size_gib=1)),
]
# A partition table of one Linux partition, and the header of LUKS2: magic, version, size and a label (cryptsetup's
# on-disk format).
TABLE = (
    r"printf '\0\0\2\0\203\0\0\0\0\10\0\0\0\20\0\0' | dd of=$1 bs=1 seek=446;"
    r"printf '\125\252' | dd of=$1 bs=1 seek=510"
)
LUKS = r"printf 'LUKS\272\276\0\2\0\0\0\0\0\0\100\0' | dd of=$1 bs=1"
CONTENT = {
    "ext4": "mkfs.ext4 -q $1",
    "xfs": "mkfs.xfs -q $1",
    "swap": "mkswap $1",
    "a dos partition table": TABLE,
    "a LUKS container": LUKS,
}


def sum_of(instance, path):
    return instance.run(["sh", "-c", "head -c 64m $1 | sha256sum", "sh", path], sudo=True).stdout


@pytest.mark.fault("disks", "a load would destroy a file system, swap, LUKS, partitions")
def test_every_kind_of_load_that_writes_refuses_content(ec2_instance, ebs_volume, fio, sweep, request):
    door = WorkloadCall(
        request.config, request.node, Workload("door", parse=dict, run=lambda *_, **__: 1 / 0)
    )
    loads = (
        lambda: fio(ebs_volume, rw="randwrite", runtime=1),
        lambda: fio(ebs_volume, rw="randrw", runtime=1),
        lambda: sweep(ebs_volume, mix="4k-random-write", steps=(50,), working_set="100m"),
        lambda: door(ebs_volume),
        ebs_volume.initialised,
        ebs_volume.mounted,
    )
    for found, make in CONTENT.items():
        ec2_instance.run(["sh", "-c", make, "sh", ebs_volume.path], sudo=True)
        before = sum_of(ec2_instance, ebs_volume.path)
        for load in loads:
            with pytest.raises(WouldDestroy, match=f"carries {found}.*overwrite=True"):
                load()
        assert sum_of(ec2_instance, ebs_volume.path) == before
        ec2_instance.run(["wipefs", "--all", "--quiet", ebs_volume.path], sudo=True)
    request.node.user_properties.append(("tried", len(loads) * len(CONTENT)))


def test_a_test_can_say_that_content_is_overwritten(ec2_instance, ebs_volume, fio):
    ebs_volume.mounted("xfs").unmount()
    with pytest.raises(WouldDestroy, match="carries xfs, made in this run"):
        fio(ebs_volume, rw="write", bs="64k", runtime=1)
    assert fio(ebs_volume, rw="randread", runtime=1).iops > 0, "to read destroys nothing"
    run = fio(ebs_volume, rw="write", bs="64k", runtime=1, overwrite=True)
    assert run.asked["overwrite"] is True
    assert fio(ebs_volume, rw="write", bs="64k", runtime=1).iops > 0, "what a load wrote is nobody's data"


@pytest.mark.fault("disks", "two loads on one device at once")
def test_two_loads_at_once_are_refused_unless_both_say_so(ec2_instance, ebs_volume, fio):
    def while_reading(load, **options):
        first = []
        other = threading.Thread(
            target=lambda: first.append(fio(ebs_volume, rw="randread", runtime=2, **options)), daemon=True
        )
        other.start()
        ec2_instance.run(["sh", "-c", "until pgrep -x fio; do sleep 0.05; done"])
        try:
            return load()
        finally:
            other.join(30)
            assert first[0].iops > 0, "the first one went on"

    for options in ({}, {"concurrent": True}):
        with pytest.raises(LoadRunning, match=r"another load uses (gp3|/dev/).*concurrent=True"):
            while_reading(lambda options=options: fio(ebs_volume, rw="randread", runtime=1, **options))
    both = while_reading(lambda: fio(ebs_volume, rw="randread", runtime=1, concurrent=True), concurrent=True)
    assert both.iops > 0


def test_a_load_of_another_process_holds_the_device(ec2_instance, ebs_volume, fio, sweep):
    job = ec2_instance.host.start_job(["flock", ebs_volume.path, "sleep", "60"], sudo=True, name="other")
    held = "until flock -n $1 true; [ $? = 1 ]; do sleep 0.05; done"
    ec2_instance.run(["sh", "-c", held, "sh", ebs_volume.path], sudo=True)
    try:
        for load in (
            lambda: fio(ebs_volume, rw="randread", runtime=1),
            lambda: sweep(ebs_volume, mix="4k-random-read", steps=(50,)),
        ):
            with pytest.raises(LoadRunning):
                load()
    finally:
        job.kill()
        job.cleanup()
    assert fio(ebs_volume, rw="randread", runtime=1).iops > 0


def test_a_load_that_needs_more_memory_than_the_host_has_is_not_started(ec2_instance, ebs_volume, fio):
    with pytest.raises(BadFioJob, match=r"iodepth=4096 x numjobs=1000 .* available: lower iodepth="):
        fio(ebs_volume, rw="randread", bs="1m", iodepth=4096, numjobs=1000, runtime=1)
    assert ec2_instance.run(["pgrep", "-x", "fio"], check=False).exit_code == 1
