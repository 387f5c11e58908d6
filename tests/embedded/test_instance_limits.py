"""Limits of an instance that act on each volume apart: its EBS cards, and the type of its hardware."""

import pytest

from pytest_cloudbench import Outcome, gp3, io1, recorded_limits

pytestmark = pytest.mark.embedded

LOAD = {"rw": "randread", "bs": "4k", "iodepth": 32, "numjobs": 2, "runtime": 4, "ramp_time": 1}


def conclusive(verdict):
    """Skip where this machine was too busy to tell; anything else must be the verdict that is expected."""
    if verdict.outcome is Outcome.INCONCLUSIVE and verdict.machine_limited:
        pytest.skip(str(verdict))
    return verdict


# Two cards with 240,000 IOPS each; a test needs fewer.
@pytest.mark.ec2_instance("m8in.96xlarge", limits=recorded_limits(ebs_iops=4_000, source="a test"))
@pytest.mark.ebs_volumes(gp3(size_gib=10, iops=5_000), count=2)
def test_each_ebs_card_limits_its_volumes(ec2_instance, ebs_volumes, fio):
    assert ebs_volumes.cards == (0, 1)
    one = fio(ebs_volumes[1], **LOAD)
    assert one.iops == pytest.approx(2_000, rel=0.03)
    assert [ceiling.label for ceiling in one.envelope.binding] == ["m8in.96xlarge card 1 EBS IOPS"]
    assert conclusive(one.capped_by(ebs_volumes[1].instance_iops))
    both = fio(ebs_volumes, **LOAD)
    assert both.iops == pytest.approx(4_000, rel=0.03)
    assert conclusive(both.capped_by(ec2_instance.ebs_iops))


@pytest.mark.ec2_instance("i3.16xlarge")
@pytest.mark.ebs_volume(io1(size_gib=800, iops=40_000))
def test_a_volume_has_32_000_iops_on_an_instance_without_nitro(ebs_volume, fio):
    run = fio(ebs_volume, **{**LOAD, "iodepth": 64})
    assert run.iops <= 32_000 * 1.03
    assert [ceiling.label for ceiling in run.envelope.promised.binding] == [ebs_volume.iops.label]
    assert ebs_volume.iops.limit.per_second == 32_000
    assert conclusive(run.reaches(ebs_volume.iops))
