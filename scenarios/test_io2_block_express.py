"""io2 Block Express on c5.18xlarge, and an unexpected limit.

The published measurement (2023) asked whether Nitro instance types outside the old list support Block Express. Two
observations answer it: a ratio of 1,000 IOPS per GiB is accepted at creation, and the 80,000 IOPS are reached. The
second test measures a volume of 4,000 MiB/s on an instance of 19,000 Mbps.

The published command line had a trap: ``--rate_iops=80000`` with ``--numjobs=64``. fio's rate_iops is per job and
direction, so this requested 5.12 million IOPS and limited nothing; the plateau at 80,000 was the volume's. In this
plugin ``rate_iops`` is the total.
"""

import pytest

from pytest_cloudbench import gp3, io2

JOB = {"iodepth": 16, "numjobs": 64, "size": "500m", "runtime": 300, "ramp_time": 20}


@pytest.mark.ec2_instance("c5.18xlarge")
@pytest.mark.ebs_volume(io2(size_gib=80, iops=80_000))
def test_io2_reaches_its_provisioned_iops(ebs_volume, fio):
    data = ebs_volume.mounted("xfs", at="/mnt1")
    run = fio(data, rw="randread", bs="4k", **JOB)
    assert run.reaches(ebs_volume.iops)


@pytest.mark.ec2_instance("c5.18xlarge")
@pytest.mark.ebs_volume(io2(size_gib=80, iops=80_000))
def test_throughput_is_capped_by_the_instance(ec2_instance, ebs_volume, fio):
    data = ebs_volume.mounted("xfs", at="/mnt1")
    run = fio(data, rw="read", bs="256k", **JOB)
    assert run.capped_by(ec2_instance.ebs_throughput)
    assert run.throughput_mib < ebs_volume.spec.throughput_mib


@pytest.mark.ec2_instance("c5.18xlarge")
@pytest.mark.ebs_volume(io2(size_gib=80, iops=80_000))
def test_a_total_rate_is_a_total(ebs_volume, fio):
    """Half of the provisioned rate, requested of 64 jobs, gives half of it and not all of it."""
    data = ebs_volume.mounted("xfs", at="/mnt1")
    run = fio(data, rw="randread", bs="4k", rate_iops=40_000, **JOB)
    assert run.reaches("40,000 IOPS", within=0.05)
    assert run.iops < 41_000


@pytest.mark.light
@pytest.mark.ec2_instance("m5.xlarge")
@pytest.mark.ebs_volume(gp3(size_gib=10))
def test_gp3_reaches_its_default_iops(ebs_volume, fio):
    """A small case for any machine: the default 3,000 IOPS of gp3."""
    run = fio(ebs_volume, rw="randread", bs="4k", iodepth=16, numjobs=4, runtime=60, ramp_time=5)
    assert run.reaches(ebs_volume.iops)


@pytest.mark.light
@pytest.mark.ec2_instance("m5.xlarge")
@pytest.mark.ebs_volume(gp3(size_gib=10))
def test_gp3_reaches_its_default_throughput(ebs_volume, fio):
    run = fio(ebs_volume, rw="read", bs="256k", iodepth=8, numjobs=1, runtime=60, ramp_time=5)
    assert run.capped_by(ebs_volume.throughput)
