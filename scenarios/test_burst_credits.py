"""Volumes and instances that are fast for half an hour: what they give at once, and what is left of it.

Three kinds of credits. A gp2 volume has 5.4 million I/O credits and spends what it serves above 3 IOPS per GiB: at
3,000 IOPS a 100 GiB volume has spent them after 2,000 s and falls to 300. An st1 volume has throughput credits of
1 TiB per TiB, which last 83 minutes. And a smaller instance holds its EBS maximum for 30 minutes once in 24 hours,
whatever its volumes could do. A measurement of a few minutes sees none of this: it reports the burst as if it
lasted.

Half an hour is long. The embedded region lets credits drain faster when told so, with `--cloudbench-twin-time=60` as
`tox -e scenarios` does: it then takes 30 s, and every result says so. The end of an st1 volume's credits comes after
83 minutes, which are 83 s even so: it is shown at full pace only, at quick pace its burst alone.
"""

import pytest

from pytest_cloudbench import Outcome, gp2, gp3, st1

RANDOM = {"rw": "randread", "bs": "4k", "iodepth": 16, "numjobs": 4}
LARGE = {"rw": "read", "bs": "1m", "iodepth": 8}
FORTY_MINUTES = 2400


@pytest.mark.ec2_instance("m5.2xlarge")
@pytest.mark.ebs_volume(gp2(size_gib=100))
def test_gp2_falls_to_three_iops_per_gib(ebs_volume, fio):
    run = fio(ebs_volume, **RANDOM, runtime=FORTY_MINUTES)
    assert run.sustains("3,000 IOPS", for_="30 min", share=0.9)
    assert run.burst_ends_at("300 IOPS")


@pytest.mark.full_pace
@pytest.mark.ec2_instance("m5.2xlarge")
@pytest.mark.ebs_volume(gp2(size_gib=1000))
def test_gp2_of_a_terabyte_has_nothing_to_lose(ebs_volume, fio):
    """From 1,000 GiB on the baseline is the burst: nothing falls."""
    run = fio(ebs_volume, **RANDOM, runtime=300)
    assert run.capped_by(ebs_volume.iops)
    assert run.steady()


@pytest.mark.ec2_instance("m5.large")
@pytest.mark.ebs_volume(gp3(size_gib=100, iops=20_000, throughput_mib=1_000))
def test_an_instance_falls_back_to_its_ebs_baseline(ec2_instance, ebs_volume, fio):
    """The volume could go on: it is the instance that has spent its half hour."""
    run = fio(ebs_volume, rw="randread", bs="16k", iodepth=32, numjobs=2, runtime=2160)
    assert run.sustains(ec2_instance.ebs_iops, for_="29 min", share=0.9)
    assert run.burst_ends_at(ec2_instance.ebs_iops)


@pytest.mark.ec2_instance("m5.4xlarge")
@pytest.mark.ebs_volume(st1(size_gib=1024))
def test_st1_bursts_to_250_mib_a_second(ebs_volume, fio):
    run = fio(ebs_volume, **LARGE, runtime=300)
    assert run.capped_by(ebs_volume.throughput)


@pytest.mark.full_pace
@pytest.mark.ec2_instance("m5.4xlarge")
@pytest.mark.ebs_volume(st1(size_gib=1024))
def test_st1_falls_to_40_mib_a_second(ebs_volume, fio):
    """The bucket of 1 TiB is empty after 83 minutes at 250 MiB/s."""
    run = fio(ebs_volume, **LARGE, runtime=6000)
    assert run.burst_ends_at("40 MiB/s")


@pytest.mark.full_pace
@pytest.mark.ec2_instance("m5.2xlarge")
@pytest.mark.ebs_volume(gp2(size_gib=100))
def test_a_short_measurement_sees_the_burst_only(ebs_volume, fio):
    """Ten minutes are within the promise of the burst, and prove nothing about the time after it."""
    run = fio(ebs_volume, **RANDOM, runtime=300)
    assert run.reaches("3,000 IOPS")
    assert run.burst_ends_at("300 IOPS").outcome is Outcome.INCONCLUSIVE
