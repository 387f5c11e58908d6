"""Volumes and instances that are fast for half an hour: their burst, and the baseline after it.

There are three kinds of credits:

- A gp2 volume has 5.4 million I/O credits and spends the I/Os above 3 IOPS per GiB. At 3,000 IOPS a 100 GiB volume
  spends them in 2,000 s and falls to 300 IOPS.
- An st1 volume has throughput credits of 1 TiB per TiB, which last 83 minutes.
- A smaller instance holds its EBS maximum for 30 minutes once in 24 hours, independent of its volumes.

A measurement of a few minutes sees only the burst and reports it as if it lasted.

Half an hour is long. With `--cloudbench-twin-time=60`, which `tox -e scenarios` uses, the embedded region drains
credits 60 times faster: half an hour takes 30 s, and every result says so. An st1 volume's credits still last 83 s, so
their end is tested at full pace only; quick pace tests the burst.
"""

import pytest

from pytest_cloudbench import Outcome, gp2, gp3, st1

RANDOM = {"rw": "randread", "bs": "4k", "iodepth": 16, "numjobs": 4}
LARGE = {"rw": "read", "bs": "1m", "iodepth": 8}
FORTY_MINUTES = 2400


@pytest.mark.light
@pytest.mark.ec2_instance("m5.2xlarge")
@pytest.mark.ebs_volume(gp2(size_gib=100))
def test_gp2_falls_to_three_iops_per_gib(ebs_volume, fio):
    run = fio(ebs_volume, **RANDOM, runtime=FORTY_MINUTES)
    assert run.sustains("3,000 IOPS", for_="30 min", share=0.9)
    assert run.burst_ends_at("300 IOPS")


@pytest.mark.full_pace
@pytest.mark.ec2_instance("m5.2xlarge")
@pytest.mark.ebs_volume(gp2(size_gib=1000))
def test_gp2_of_a_terabyte_does_not_fall(ebs_volume, fio):
    """From 1,000 GiB the baseline equals the burst."""
    run = fio(ebs_volume, **RANDOM, runtime=300)
    assert run.capped_by(ebs_volume.iops)
    assert run.steady()


@pytest.mark.ec2_instance("m5.large")
@pytest.mark.ebs_volume(gp3(size_gib=100, iops=20_000, throughput_mib=1_000))
def test_an_instance_falls_back_to_its_ebs_baseline(ec2_instance, ebs_volume, fio):
    """The instance has used its half hour; the volume could continue."""
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
    """At 250 MiB/s the bucket of 1 TiB is empty after 83 minutes."""
    run = fio(ebs_volume, **LARGE, runtime=6000)
    assert run.burst_ends_at("40 MiB/s")


@pytest.mark.full_pace
@pytest.mark.ec2_instance("m5.2xlarge")
@pytest.mark.ebs_volume(gp2(size_gib=100))
def test_a_short_measurement_sees_only_the_burst(ebs_volume, fio):
    """A few minutes lie within the burst and prove nothing about the time after it."""
    run = fio(ebs_volume, **RANDOM, runtime=300)
    assert run.reaches("3,000 IOPS")
    assert run.burst_ends_at("300 IOPS").outcome is Outcome.INCONCLUSIVE
