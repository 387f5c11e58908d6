"""create_files end to end on the embedded region: buffered writes meet the volume's limit when they are synced."""

import itertools
import json
import operator

import pytest

from pytest_cloudbench import Outcome, gp3, recorded_limits
from pytest_cloudbench.workloads.create_files.errors import BadFilesJob
from pytest_cloudbench.workloads.create_files.job import FilesJob
from pytest_cloudbench.workloads.create_files.run import run_create_files

pytestmark = pytest.mark.embedded
LIMIT_MIB, SLOWER_MIB = 40, 10
SLOW, SLOWER = (
    recorded_limits(
        ebs_iops=3_000, ebs_throughput=f"{mib} MiB/s", source="chosen here: what any machine serves"
    )
    for mib in (LIMIT_MIB, SLOWER_MIB)
)


def conclusive(verdict):
    """Skip where this machine was too busy to tell; anything else must be the verdict that is expected."""
    if verdict.outcome is Outcome.INCONCLUSIVE and verdict.machine_limited:
        pytest.skip(str(verdict))
    return verdict


@pytest.mark.alone
@pytest.mark.ec2_instance("m5.2xlarge", limits=SLOWER)
@pytest.mark.ebs_volume(gp3(size_gib=4))
@pytest.mark.parametrize("filesystem", ["xfs", "ext4"])
def test_the_page_cache_takes_files_faster_than_ebs(ec2_instance, ebs_volume, create_files, filesystem):
    """The machine writes files into its page cache in a twentieth of the time that the volume takes, or faster."""
    data = ebs_volume.mounted(filesystem, at="/data")
    run = create_files(data, count=40, size="1m")
    assert run.complete
    assert run.left_in_page_cache.mib > 20, "40 MiB fit the page cache of any machine"
    assert run.written_s < run.on_device_s
    # 40 MiB at 10 MiB/s: the first slices of the throttle, 0.1 s each, come early.
    assert 3.6 < run.on_device_s < 5.6
    assert conclusive(run.reaches(ec2_instance.ebs_throughput))
    assert run.throughput_mib < SLOWER_MIB * 1.1
    assert run.device_writes.size >= run.data
    # Large requests wait for all their time and then go at once: a single second may be above the limit, what was
    # written until any second may not.
    device = run.series.device
    lengths_s = [end_s - begin_s for begin_s, end_s in itertools.pairwise((0.0, *device.seconds))]
    rates = [rate.mib for rate in device.throughput]
    written = itertools.accumulate(map(operator.mul, rates, lengths_s))
    assert [
        mib
        for at_s, mib in zip(device.seconds, written, strict=True)
        if mib > SLOWER_MIB * 1.1 * (at_s + 0.5)
    ] == []
    assert run.counters.instance_throughput_exceeded_s > 0.3
    assert [ceiling.label for ceiling in run.envelope.binding] == [ec2_instance.ebs_throughput.label]
    assert json.loads(json.dumps(run.to_dict()))["on_device_s"] == run.on_device_s
    assert ec2_instance.run(["ls", "-A", "/data"]).stdout in ("", "lost+found\n")


@pytest.mark.alone
@pytest.mark.ec2_instance("m5.2xlarge", limits=SLOW)
@pytest.mark.ebs_volume(gp3(size_gib=4))
def test_write_back_of_large_files_is_limited_and_counted_as_direct_writes_are(ebs_volume, create_files):
    """It comes in requests of hundreds of MiB, of which the kernel sees nothing while its throttle holds them back."""
    run = create_files(ebs_volume.mounted("xfs", at="/data"), count=1, size="256m")
    synced_s = run.on_device_s - run.written_s
    assert run.on_device_s > 0.95 * 256 / LIMIT_MIB, "no faster than the limit"
    assert 0.6 * synced_s < run.counters.instance_throughput_exceeded_s <= run.counters.elapsed_s
    assert run.counters.instance_iops_exceeded_s < 0.5 * run.counters.instance_throughput_exceeded_s


@pytest.mark.alone
@pytest.mark.ec2_instance("m5.2xlarge")
@pytest.mark.ebs_volume(gp3(size_gib=4))
def test_write_back_waits_for_the_volume_s_own_limit_too(ebs_volume, create_files):
    run = create_files(ebs_volume.mounted("xfs", at="/data"), count=2, size="256m")
    conclusive(run.reaches(ebs_volume.throughput))
    synced_s = run.on_device_s - run.written_s
    assert run.on_device_s > 0.95 * 512 / 125, "no faster than the limit"
    assert 0.6 * synced_s < run.counters.volume_throughput_exceeded_s <= run.counters.elapsed_s
    assert run.counters.volume_iops_exceeded_s < 0.5 * run.counters.volume_throughput_exceeded_s


@pytest.mark.ec2_instance("m5.2xlarge")
@pytest.mark.ebs_volume(gp3(size_gib=4))
def test_quick_pace_and_the_ways_to_create_them(ec2_instance, ebs_volume, create_files):
    data = ebs_volume.mounted("xfs")
    by_dd = create_files(data, count=400, size="4k", method="dd", keep=True)
    assert (by_dd.method, by_dd.files) == ("dd", 400)
    listed = ec2_instance.run(["ls", by_dd.folder]).stdout.split()
    assert set(listed) == {"start", "end", *(f"file{number}" for number in range(1, 401))}
    each = create_files(data, count=100_000, size="4k", sync="each")
    # A machine with fewer processors than the type is one more condition.
    assert {said for said in each.conditions if "vCPUs" not in said} == {
        "storage latency modelled by the embedded region",
        "quick pace: 100,000 files -> 2,000",
    }
    # Every file waits for the device at least once.
    assert each.device_writes.ios >= 2_000
    cached = create_files(data, count=500, size="4k", sync="none")
    assert cached.on_device_s is None
    with pytest.raises(BadFilesJob, match="needs a mounted volume"):
        create_files(ebs_volume, count=5)


@pytest.mark.ec2_instance("m5.2xlarge")
def test_a_faster_volume_is_faster(ec2, ec2_instance, create_files):
    fast = ec2.create_volume(gp3(size_gib=4), ec2_instance)
    slow = ec2.create_volume(gp3(size_gib=4), ec2.launch("m5.2xlarge", limits=SLOW))
    quicker, slower = (create_files(each.mounted("xfs"), count=120, size="1m") for each in (fast, slow))
    assert conclusive(quicker.faster_than(slower, by=1.3))
    assert quicker.faster_than(slower, by=6).outcome is not Outcome.HELD
    assert not slower.faster_than(quicker, by=1.3)
    other = create_files(fast.mounted("xfs"), count=10, size="1m")
    assert other.faster_than(slower).outcome is Outcome.INCONCLUSIVE


@pytest.mark.ec2_instance("m5.2xlarge")
@pytest.mark.ebs_volume(gp3(size_gib=4))
@pytest.mark.parametrize("method", ["python", "dd"])
def test_an_interrupt_while_the_volume_is_still_written_to_leaves_nothing(ec2_instance, ebs_volume, method):
    data = ebs_volume.mounted("xfs")

    def interrupt(progress):
        if progress.all_created:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_create_files(data, FilesJob.of(400, "1m", method=method), on_progress=interrupt)
    assert ec2_instance.run(["ls", "-A", data.path]).stdout == ""
    assert ec2_instance.run(["pgrep", "-f", "create_files"], check=False).exit_code == 1
    data.unmount()
