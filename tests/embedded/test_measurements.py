"""The fixtures end to end on the embedded region: real hosts, real fio, rates that any machine holds."""

import dataclasses
import json

import pytest

from pytest_cloudbench import Inconclusive, Outcome, Size, gp3, io1

pytestmark = pytest.mark.embedded


def conclusive(verdict):
    """Skip where this machine was too busy to tell; anything else must be the verdict that is expected."""
    if verdict.outcome is Outcome.INCONCLUSIVE and verdict.machine_limited:
        pytest.skip(str(verdict))
    return verdict


@pytest.mark.ec2_instance("m5.xlarge")
@pytest.mark.ebs_volume(gp3(size_gib=2))
def test_a_volume_reaches_its_iops_and_is_capped_by_them(ec2_instance, ebs_volume, fio):
    run = fio(ebs_volume, rw="randread", bs="4k", iodepth=16, numjobs=2, runtime=5, ramp_time=1)
    assert conclusive(run.reaches(ebs_volume.iops))
    assert run.reaches("3,000 IOPS", within=0.02)
    assert conclusive(run.capped_by(ebs_volume.iops))
    assert len(run.series.seconds) >= 4
    assert run.counters is not None
    assert run.counters.volume_iops_exceeded_s > 2
    assert run.counters.instance_iops_exceeded_s < 0.5
    assert [ceiling.label for ceiling in run.envelope.binding] == [ebs_volume.iops.label]
    assert json.loads(json.dumps(run.to_dict()))["iops"] == run.iops
    assert run.asked["numjobs"] == 2


@pytest.mark.ec2_instance("m4.large")
@pytest.mark.ebs_volume(io1(size_gib=100, iops=5_000))
def test_a_violated_promise_names_the_instance_that_held_it_back(ec2_instance, ebs_volume, fio):
    """A Xen type too: the device appears under the name of its attachment."""
    run = fio(ebs_volume, rw="randread", bs="4k", iodepth=32, numjobs=2, runtime=4, ramp_time=1)
    verdict = conclusive(run.reaches(ebs_volume.iops))
    assert verdict.outcome is Outcome.VIOLATED
    assert str(verdict).startswith("violated: 3,")
    assert "of 5,000 IOPS" in str(verdict)
    assert "m4.large EBS IOPS, 3,600 IOPS" in str(verdict)
    assert ebs_volume.path.startswith("/dev/xvd")
    assert run.counters is None or run.counters.instance_iops_exceeded_s > 1


_OTHER_LOAD = (
    "fio --name=other --filename={path} --rw=randread --bs=4k --iodepth=16 --ioengine=libaio --direct=1 --runtime=30 "
    "--time_based --output=/dev/null > /dev/null 2>&1 < /dev/null &"
)


@pytest.mark.ec2_instance("m5.xlarge")
@pytest.mark.ebs_volume(gp3(size_gib=2))
def test_a_volume_with_another_load_is_not_judged(ec2_instance, ebs_volume, fio):
    job = {"rw": "randread", "bs": "4k", "iodepth": 16, "runtime": 5, "ramp_time": 1}
    alone = fio(ebs_volume, **job)
    assert alone.share_of_others < 0.05
    ec2_instance.run(["sh", "-c", _OTHER_LOAD.format(path=ebs_volume.path)], sudo=True)
    shared = fio(ebs_volume, **job)
    assert shared.share_of_others > 0.2
    for verdict in (shared.reaches(ebs_volume.iops), shared.capped_by(ebs_volume.iops), shared.steady()):
        assert verdict.outcome is Outcome.INCONCLUSIVE
        assert "other loads were at work on the same volume" in str(verdict)


@pytest.mark.ec2_instance("m5.xlarge")
@pytest.mark.ebs_volume(gp3(size_gib=2))
def test_latency_below_the_limit_is_held_and_violated(ebs_volume, fio):
    run = fio(ebs_volume, rw="randread", bs="4k", iodepth=1, runtime=5, ramp_time=1)
    assert run.iops < 2_500
    assert conclusive(run.latency.at_most(mean="5 ms", p99="20 ms"))
    for limits in ({"mean": "0.2 ms"}, {"p99": "0.2 ms"}):
        assert conclusive(run.latency.at_most(**limits)).outcome is Outcome.VIOLATED


@pytest.mark.ec2_instance("m5.xlarge")
@pytest.mark.ebs_volume(gp3(size_gib=4))
@pytest.mark.parametrize("filesystem", ["xfs", "ext4"])
def test_a_mounted_volume_is_a_directory_of_its_owner(ec2_instance, ebs_volume, fio, filesystem):
    data = ebs_volume.mounted(filesystem, at="/data")
    found = ec2_instance.run(["findmnt", "-n", "-o", "FSTYPE,SOURCE", "/data"]).stdout.split()
    assert found == [filesystem, ebs_volume.path]
    owner = ec2_instance.run(["stat", "-c", "%U", "/data"]).stdout.strip()
    assert owner == ec2_instance.launched.login_user
    assert ebs_volume.mounted(filesystem, at="/data") is data
    run = fio(data, rw="read", bs="256k", iodepth=8, numjobs=2, size="64m", runtime=6, ramp_time=1)
    assert conclusive(run.capped_by(ebs_volume.throughput))
    data.unmount()
    assert ec2_instance.run(["findmnt", "/data"], check=False).exit_code != 0


@pytest.mark.ec2_instance("m5.2xlarge")
@pytest.mark.ebs_volumes(gp3(size_gib=1), count=3)
def test_volumes_side_by_side_add_up(ebs_volumes, fio):
    assert len({volume.path for volume in ebs_volumes}) == 3
    run = fio(ebs_volumes, rw="randread", bs="4k", iodepth=16, runtime=4, ramp_time=1)
    assert str(ebs_volumes.iops.limit) == "9,000 IOPS"
    assert conclusive(run.reaches(ebs_volumes.iops))
    assert run.iops < 9_000 * 1.05


@pytest.mark.ec2_instance("m5.xlarge")
@pytest.mark.ebs_volume(gp3(size_gib=2))
def test_a_mix_keeps_its_shares_and_its_total(ebs_volume, fio):
    run = fio(ebs_volume, rw="randrw", rwmixread=70, bs="4k", iodepth=16, numjobs=2, runtime=6, ramp_time=2)
    assert conclusive(run.reaches(ebs_volume.iops))
    assert run.iops < 3_000 * 1.03
    assert 0.66 < run.read.iops / run.iops < 0.74


@pytest.mark.ec2_instance("m5.xlarge")
@pytest.mark.ebs_volume(gp3(size_gib=2))
def test_a_rate_is_the_total_over_all_jobs(ebs_volume, fio):
    run = fio(ebs_volume, rw="randread", bs="4k", iodepth=4, numjobs=7, rate_iops=1_000, runtime=4)
    assert conclusive(run.reaches("1,000 IOPS", within=0.05))
    assert run.iops < 1_050
    with pytest.raises(Inconclusive):
        bool(run.capped_by(ebs_volume.iops))


@pytest.mark.ec2_instance("m5.large")
@pytest.mark.ebs_volume(gp3(size_gib=1))
def test_bad_jobs_are_refused_before_they_start(ec2_instance, ebs_volume, fio):
    from pytest_cloudbench.hosts.errors import NotOurs
    from pytest_cloudbench.workloads.fio.errors import BadFioJob, FioRefused, UnknownFioOption

    with pytest.raises(UnknownFioOption, match="rw_sequencer"):
        fio(ebs_volume, rw="randread", rw_sequencr="identical")
    with pytest.raises(BadFioJob, match="iodepth"):
        fio(ebs_volume, rw="randread", iodepth=0)
    with pytest.raises(FioRefused, match="nosuchengine"):
        fio(ebs_volume, rw="randread", ioengine="nosuchengine", runtime=1)
    data = ebs_volume.mounted("ext4")
    with pytest.raises(BadFioJob, match="size= is needed"):
        fio(data, rw="read", runtime=1)
    with pytest.raises(NotOurs, match="mounted"):
        fio(ebs_volume, rw="randwrite", runtime=1)
    assert ec2_instance.run(["pgrep", "-x", "fio"], check=False).exit_code == 1


@pytest.mark.ec2_instance("m5.large", commands=["sleep 1", "echo ready > /etc/marked"])
def test_the_instance_is_a_host_of_its_own(ec2_instance):
    assert ec2_instance.run(["cat", "/etc/marked"]).stdout == "ready\n"
    assert ec2_instance.run(["id", "-un"]).stdout.strip() == "ec2-user"
    assert ec2_instance.run(["id", "-u"], sudo=True).stdout.strip() == "0"
    address = ec2_instance.launched.private_ip
    assert ec2_instance.run(["uname", "-n"]).stdout.strip().startswith("ip-" + address.replace(".", "-"))
    odd = 'it\'s $HOME; "quoted" `here`\n'
    assert ec2_instance.run(["printf", "%s", odd]).stdout == odd


def test_the_factory_makes_other_topologies(ec2, fio):
    first, second = ec2.launch("m5.large"), ec2.launch("c5.large")
    assert first.id != second.id
    assert first.launched.private_ip != second.launched.private_ip
    volume = ec2.create_volume(gp3(size_gib=8, iops=3_100), second)
    assert volume.spec.iops == 3_100
    assert first.run(["ls", "/dev/nvme1n1"], check=False).exit_code != 0
    assert second.run(["test", "-b", volume.path]).exit_code == 0
    second.run(["dd", "if=/dev/urandom", f"of={volume.path}", "bs=4k", "count=1", "conv=fsync"], sudo=True)


def test_unknown_types_and_other_zones_are_refused_with_a_way_out(ec2):
    from pytest_cloudbench.resources.errors import UnknownInstanceType, ZoneMismatch

    with pytest.raises(UnknownInstanceType, match=r"m5\.large"):
        ec2.launch("m5.larg")
    instance = ec2.launch("m5.large", zone="us-east-1a")
    with pytest.raises(ZoneMismatch, match="us-east-1b"):
        ec2.create_volume(gp3(size_gib=1), instance, zone="us-east-1b")


@pytest.mark.ec2_instance("m5.xlarge")
@pytest.mark.ebs_volume(gp3(size_gib=4))
def test_files_share_their_blocks_where_the_machine_has_no_room(ec2_instance, ebs_volume, fio, monkeypatch):
    data = ebs_volume.mounted("xfs")
    monkeypatch.setattr(data, "room", lambda: Size.from_mib(100))
    used_before = _used_bytes(ec2_instance, data.path)
    run = fio(data, rw="randread", bs="4k", iodepth=8, numjobs=4, size="64m", runtime=6, ramp_time=1)
    assert "the 4 files of 64 MiB share the blocks of one" in " ".join(run.conditions)
    assert _used_bytes(ec2_instance, data.path) - used_before < 80 << 20
    assert conclusive(run.capped_by(ebs_volume.iops)), "the reads went to the device and met its limit"
    again = fio(data, rw="randread", bs="4k", iodepth=8, numjobs=4, size="64m", runtime=2)
    assert not any("share" in condition for condition in again.conditions), "the files are there already"


def _used_bytes(instance, path):
    return int(instance.run(["df", "-B1", "--output=used", path]).stdout.split()[1])


@pytest.mark.ssh
def test_an_instance_that_never_answers_is_told_with_the_ways_in(ec2, monkeypatch):
    from pytest_cloudbench.hosts.errors import HostUnreachable
    from pytest_cloudbench.resources import ec2 as factory

    monkeypatch.setattr(factory, "CONNECT_TIMEOUT_S", 1.0)
    instance = ec2.launch("m5.large")
    elsewhere = dataclasses.replace(instance.launched, address="198.18.127.254")
    monkeypatch.setattr(instance, "_launched", elsewhere)
    with pytest.raises(
        HostUnreachable, match=r"did not answer within 1 s.*allows SSH from 198\.18\..*/32 only"
    ):
        instance.run(["true"])
