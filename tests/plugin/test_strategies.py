"""Strategies: everything that they draw is valid."""

import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from pytest_cloudbench import gp3, io1, io2
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.volume_types import VOLUME_TYPES
from pytest_cloudbench.strategies import can_carry, fio_jobs, instance_types, mixes, volume_specs
from pytest_cloudbench.workloads.fio.job import FioJob

INSTANCE_TYPES = pytest.importorskip("moto.ec2.models.instance_types").INSTANCE_TYPES
CATALOGUE = [InstanceLimits.from_describe(entry) for entry in INSTANCE_TYPES.values()]


@given(spec=volume_specs())
def test_volumes_are_valid(spec):
    assert spec.problems() == []


@given(
    data=st.data(),
    types=st.sets(st.sampled_from(sorted(VOLUME_TYPES)), min_size=1) | st.none(),
    most_gib=st.integers(125, 20_000) | st.none(),
    most_iops=st.integers(200, 300_000) | st.none(),
)
def test_volumes_are_within_the_bounds(data, types, most_gib, most_iops):
    if types == {"gp3"} and most_iops is not None:
        most_iops += 3_000
    spec = data.draw(volume_specs(types, most_gib=most_gib, most_iops=most_iops))
    assert spec.problems() == []
    assert types is None or spec.type in types
    assert most_gib is None or spec.size_gib <= most_gib
    assert most_iops is None or spec.iops <= most_iops


@pytest.mark.parametrize(("most_iops", "most_gib"), [(100, 33), (3_000, 1_000), (16_000, 16 * 1024)])
def test_iops_that_follow_from_the_size_bound_the_size(most_iops, most_gib):
    largest = find(volume_specs(["gp2"], most_iops=most_iops), lambda spec: spec.size_gib >= most_gib)
    assert (largest.size_gib, largest.iops) == (most_gib, min(16_000, max(100, 3 * most_gib)))
    if most_gib < 16 * 1024:
        with pytest.raises(NoSuchExample):
            find(volume_specs(["gp2"], most_iops=most_iops), lambda spec: spec.size_gib > most_gib)


@pytest.mark.parametrize("name", sorted(VOLUME_TYPES))
def test_every_type_is_drawn_and_shrinks_to_its_smallest(name):
    smallest = find(volume_specs([name]), lambda spec: True)
    assert (smallest.type, smallest.size_gib) == (name, VOLUME_TYPES[name].size_range[0])
    assert find(volume_specs(), lambda spec: spec.type == name).type == name


def test_the_largest_figures_are_drawn():
    assert find(volume_specs(["io2"]), lambda spec: spec.iops > 200_000).problems() == []
    assert find(volume_specs(["gp3"]), lambda spec: spec.throughput_mib > 1_900).throughput_mib == 1_901


@pytest.mark.parametrize(
    ("types", "bounds", "said"),
    [
        (["gp9"], {"most_gib": 3}, "unknown volume type 'gp9'"),
        ([], {}, r"types=\[\] names no volume type: use gp2"),
        (["io2"], {"most_gib": 3}, "at most 3 GiB: raise most_gib\n"),
        (["gp2", "gp3"], {"most_iops": 99}, "at most 99 IOPS: raise most_iops\n"),
        (
            ["gp3"],
            {"most_gib": 9, "most_iops": 2_999},
            "at most 9 GiB and 2,999 IOPS: raise most_gib or most_iops",
        ),
    ],
)
def test_volumes_that_cannot_be_are_refused(types, bounds, said):
    with pytest.raises(ValueError, match=said):
        find(volume_specs(types, **bounds), lambda spec: True)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=40)
@given(data=st.data(), spec=volume_specs(["gp2", "gp3", "st1"]))
def test_instance_types_carry_what_the_volume_promises(data, spec):
    limits = data.draw(instance_types(spec, CATALOGUE))
    assert limits.ebs_baseline.iops.per_second >= spec.burst_iops
    assert limits.ebs_baseline.throughput.mib >= spec.burst_throughput_mib


def test_a_type_is_too_small_for_a_volume_above_its_limits():
    by_name = {limits.name: limits for limits in CATALOGUE}
    assert can_carry(by_name["c5.18xlarge"], io2(size_gib=80, iops=8_000))
    assert not can_carry(by_name["c5.18xlarge"], io2(size_gib=80, iops=70_000)), "4,000 MiB/s are too many"
    assert not can_carry(by_name["m5.large"], io2(size_gib=80, iops=70_000))
    assert not can_carry(by_name["t2.micro"], gp3(size_gib=10)), "its limits are unknown"
    assert not any(can_carry(each, io1(size_gib=800, iops=40_000)) for each in CATALOGUE if not each.nitro)
    with pytest.raises(ValueError, match="none of the offered"):
        instance_types(io2(size_gib=80, iops=70_000), [by_name["m5.large"]])


@given(job=fio_jobs(runtime=2))
def test_fio_jobs_are_valid(job):
    checked = FioJob.of(**job)
    assert checked.runtime == 2
    assert checked.reads or checked.writes


def test_fio_jobs_shrink_to_the_simplest_that_shows_it():
    found = find(fio_jobs(), lambda job: "write" in job["rw"] and int(job["bs"][:-1]) > 64)
    assert found == {"rw": "randwrite", "bs": "128k", "iodepth": 1, "numjobs": 1}


@given(mix=mixes())
def test_mixes_are_valid(mix):
    assert sum(share for _, share in mix.blocks) == 100


@given(mix=mixes(writes=False, blocks=("4k", "1m")))
def test_mixes_without_writes_only_read(mix):
    assert not mix.writes


def test_mixes_of_every_kind_are_drawn():
    assert len(find(mixes(), lambda mix: len(mix.blocks) == 4).blocks) == 4
    assert find(mixes(), lambda mix: mix.skew is not None and mix.writes).skew
    assert find(mixes(), lambda mix: mix.sequential).sequential
