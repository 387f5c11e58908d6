"""The envelope: which ceiling binds a load, and by how much."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench import gp2, gp3, io1, io2, st1
from pytest_cloudbench.limits.envelope import Ceiling, Envelope, MachineLimits, storage_envelope
from pytest_cloudbench.limits.instances import OVERRIDES, InstanceLimits
from pytest_cloudbench.limits.quantities import Iops, Size, Throughput


def instance(name, iops=80_000, mb=2_375):
    info = {}
    for which in ("Baseline", "Maximum"):
        info |= {f"{which}Iops": iops, f"{which}ThroughputInMBps": mb}
    return InstanceLimits.from_describe({"InstanceType": name, "EbsInfo": {"EbsOptimizedInfo": info}})


C5 = instance("c5.18xlarge")
M2 = instance("m2.4xlarge", 8_000, 125)
IO2 = [("vol-0abc", io2(size_gib=80, iops=80_000))]


def envelope(inst, volumes, block, sequential=False, machine=None):
    return storage_envelope(inst, volumes, Size.parse(block), sequential=sequential, machine=machine)


@pytest.mark.parametrize(("block", "throughput"), [("4k", 312.5), ("16k", 1_250)])
def test_io2_on_c5_at_small_blocks_ties_with_the_instance(block, throughput):
    found = envelope(C5, IO2, block)
    assert found.limit_iops == Iops(80_000)
    assert found.limit_throughput == Throughput.from_mib(throughput)
    assert {ceiling.label for ceiling in found.binding} == {"io2 vol-0abc IOPS", "c5.18xlarge EBS IOPS"}
    assert found.ordered[2].label == "c5.18xlarge EBS throughput"
    assert sum("binds, tied" in line for line in found.explain()) == 2


@pytest.mark.parametrize("sequential", [True, False])
def test_the_instance_limits_io2_on_c5_at_256k(sequential):
    found = envelope(C5, IO2, "256k", sequential)
    assert [ceiling.label for ceiling in found.binding] == ["c5.18xlarge EBS throughput"]
    assert str(found.limit_throughput) == "2,264.98 MiB/s"
    assert found.limit_iops.per_second == pytest.approx(9_059.9, abs=0.1)
    assert found.ordered[1].label == "io2 vol-0abc throughput"
    assert found.throughput_of(found.ordered[1]) == Throughput.from_mib(4_000)
    assert found.explain()[0] == (
        "c5.18xlarge EBS throughput: 9,060 IOPS = 2,264.98 MiB/s at 256 KiB (binds)"
    )
    assert found.explain()[1] == "io2 vol-0abc throughput: 16,000 IOPS = 4,000 MiB/s at 256 KiB (77 % above)"


def test_the_instances_iops_bind_below_29_kib():
    assert envelope(C5, [], "28k").binding[0].label == "c5.18xlarge EBS IOPS"
    assert envelope(C5, [], "30k").binding[0].label == "c5.18xlarge EBS throughput"


def test_the_instance_s_gigabit_limits_five_volumes_on_m2():
    volumes = [(f"vol-{n}", io1(size_gib=200, iops=1_000)) for n in range(5)]
    found = envelope(M2, volumes, "64k")
    assert found.binding[0].label == "m2.4xlarge EBS throughput"
    assert found.limit_throughput == Throughput.from_mb(125)
    assert found.limit_iops.per_second == pytest.approx(1_907.3, abs=0.1)
    assert found.ordered[1].label == "5 io1 volumes IOPS"
    assert found.throughput_of(found.ordered[1]) == Throughput.from_mib(312.5)
    assert found.ordered[1].detail == "5 x io1 200 GiB/1,000 IOPS"
    assert envelope(M2, volumes, "16k").limit_iops == Iops(5_000)


def test_large_random_io_counts_as_several():
    found = envelope(None, [("v", gp3(size_gib=100, iops=3_000, throughput_mib=750))], "1m")
    iops, _ = found.ceilings
    assert found.iops_of(iops) == Iops(750)
    assert envelope(None, [("v", gp3(size_gib=100))], "257k").iops_of(iops) == Iops(1_500)


def test_small_sequential_io_has_a_level_with_and_without_merging():
    found = envelope(None, [("v", gp3(size_gib=100))], "32k", sequential=True)
    iops, throughput = found.ceilings
    assert found.iops_of(iops) == Iops(24_000)
    assert [level.iops for level in found.levels_of(iops)] == [Iops(24_000), Iops(3_000)]
    assert found.levels_of(iops)[1].how == "sequential I/O not merged"
    assert found.unmerged_iops_of(iops) == Iops(3_000)
    assert found.binding == (throughput,)
    assert len(envelope(None, [("v", gp3(size_gib=100))], "32k").levels_of(iops)) == 1


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize(
    ("block", "ios"),
    [("4k", 1_000), ("8k", 1_000), ("16k", 1_000), ("24k", 500), ("64k", 250), ("256k", 62.5)],
)
def test_a_volume_counted_in_16_kib_splits_larger_io_and_merges_none(block, ios, sequential):
    volumes = [("vol-0abc", io1(size_gib=100, iops=1_000, io_unit="16k"))]
    found = envelope(C5, volumes, block, sequential)
    assert found.limit_iops == Iops(ios)
    assert {level.how for level in found.levels_of(found.binding[0])} == {""}
    five = envelope(C5, volumes * 5, block, sequential)
    assert five.limit_iops == Iops(5 * ios)


@pytest.mark.parametrize(("block", "sequential"), [("1m", True), ("1m", False), ("64k", True)])
def test_an_hdd_volume_has_one_limit_at_whole_units(block, sequential):
    found = envelope(C5, [("vol-0abc", st1(size_gib=500))], block, sequential)
    assert [ceiling.quantity for ceiling in found.binding] == ["volume throughput"]
    assert found.limit_throughput.mib == pytest.approx(250 * 500 / 1024)
    assert found.binding[0].base.mib == pytest.approx(40 * 500 / 1024)


def test_small_random_io_on_an_hdd_volume_takes_a_whole_unit_each():
    found = envelope(C5, [("vol-0abc", st1(size_gib=500))], "64k")
    assert [ceiling.quantity for ceiling in found.binding] == ["volume IOPS"]
    assert found.limit_iops.per_second == pytest.approx(250 * 500 / 1024)


def test_hdd_io_counts_in_mebibytes():
    found = envelope(None, [("v", st1(size_gib=16_384))], "4k")
    assert found.io_unit == Size.parse("1m")
    assert found.limit_iops == Iops(500)
    assert envelope(None, [("v", st1(size_gib=16_384))], "64k", sequential=True).limit_throughput == (
        Throughput.from_mib(500)
    )


def test_a_bursting_ceiling_has_a_level_with_credits_spent():
    found = envelope(None, [("v", gp2(size_gib=100))], "16k")
    iops, _ = found.ceilings
    assert [(level.iops, level.how) for level in found.levels_of(iops)] == [
        (Iops(3_000), ""),
        (Iops(300), "burst spent"),
    ]
    assert "while burst credits last, then 300 IOPS" in " ".join(found.explain())


def test_the_machine_is_a_ceiling_but_no_promise():
    machine = MachineLimits(Iops(52_000), Throughput.from_mib(9_000), "probe")
    found = envelope(C5, IO2, "4k", machine=machine)
    assert found.limit_iops == Iops(52_000)
    assert [ceiling.scope for ceiling in found.binding] == ["machine"]
    assert found.binding[0].label == "the machine under the embedded region IOPS"
    assert found.machine[0].limit == Iops(52_000)
    assert found.promised.limit_iops == Iops(80_000)
    assert found.promised.machine == ()
    # The probe counts the machine's own I/Os, whatever EBS would make of them.
    assert envelope(C5, IO2, "1m", machine=machine).iops_of(found.machine[0]) == Iops(52_000)


def test_an_envelope_without_ceilings_has_no_limit():
    found = envelope(None, [], "4k")
    assert found.binding == ()
    assert found.limit_iops is found.limit_throughput is None
    assert found.explain() == []


def test_a_type_without_ebs_figures_sets_no_ceiling():
    t2 = InstanceLimits.from_describe({"InstanceType": "t2.micro", "EbsInfo": {}})
    assert envelope(t2, IO2, "4k").limit_iops == Iops(80_000)


def test_thirty_volumes_on_i3_metal_share_one_cap():
    metal = InstanceLimits.from_describe(OVERRIDES["i3.metal"])
    found = envelope(metal, [(f"vol-{n}", io2(size_gib=1_000, iops=10_000)) for n in range(30)], "4k")
    assert found.binding[0].label == "i3.metal EBS IOPS"


def test_different_limits_can_bind_different_volumes():
    low_iops = ("vol-1", io1(size_gib=10, iops=100))
    low_throughput = ("vol-2", gp3(size_gib=100, iops=16_000, throughput_mib=125))
    found = envelope(None, [low_iops, low_throughput], "64k")
    # 100 I/Os of 64 KiB are 6.25 MiB/s, and 125 MiB/s are what the other one gives.
    assert found.limit_throughput == Throughput.from_mib(131.25)
    assert found.binding[0].label == "2 gp3/io1 volumes IOPS and throughput together"


def test_a_ceiling_is_found_by_owner_and_quantity():
    found = envelope(C5, IO2, "4k")
    same = Ceiling("c5.18xlarge", "EBS IOPS", "instance", Iops(1))
    assert found.find(same).limit == Iops(80_000)
    assert found.find(Ceiling("c5.9xlarge", "EBS IOPS", "instance", Iops(1))) is None


def test_a_block_size_of_zero_is_refused():
    with pytest.raises(ValueError, match="above zero"):
        Envelope((), Size(0), False)


volumes = st.one_of(
    st.builds(lambda size: gp2(size_gib=size), st.integers(1, 16_384)),
    st.builds(lambda iops: gp3(size_gib=200, iops=iops), st.integers(3_000, 80_000)),
    st.builds(lambda iops: io2(size_gib=300, iops=iops), st.integers(100, 256_000)),
    st.builds(lambda iops: io1(size_gib=1_500, iops=iops), st.integers(100, 64_000)),
)
fleets = st.lists(volumes, min_size=1, max_size=4).map(
    lambda specs: [(f"vol-{number}", spec) for number, spec in enumerate(specs)]
)
blocks = st.integers(512, 4 * 1024**2).map(Size)
instances = st.none() | st.builds(
    lambda iops, mb: instance("x1.large", iops, mb), st.integers(100, 300_000), st.integers(10, 40_000)
)


@given(instances, fleets, blocks, st.booleans())
def test_the_lowest_ceiling_binds(inst, fleet, block, sequential):
    found = storage_envelope(inst, fleet, block, sequential=sequential)
    lowest = min(found.iops_of(ceiling) for ceiling in found.ceilings)
    assert found.limit_iops == lowest
    assert found.ordered[0] in found.binding
    assert all(found.iops_of(ceiling) <= lowest * 1.00501 for ceiling in found.binding)
    assert all(found.iops_of(ceiling) > lowest for ceiling in found.ordered[len(found.binding) :])
    assert len(found.explain()) == len(found.ceilings)
    assert found.limit_iops.at(block).bytes_per_second == pytest.approx(
        found.limit_throughput.bytes_per_second
    )


@given(instances, fleets, blocks, blocks, st.booleans())
def test_larger_blocks_never_allow_more_ios(inst, fleet, one, other, sequential):
    small, large = sorted((one, other))
    at_small = storage_envelope(inst, fleet, small, sequential=sequential).limit_iops
    at_large = storage_envelope(inst, fleet, large, sequential=sequential).limit_iops
    assert at_large.per_second <= at_small.per_second * (1 + 1e-9)


@given(instances, fleets, volumes, blocks, st.booleans())
def test_one_more_volume_never_lowers_the_limit(inst, fleet, more, block, sequential):
    before = storage_envelope(inst, fleet, block, sequential=sequential).limit_iops
    after = storage_envelope(inst, [*fleet, ("vol-more", more)], block, sequential=sequential).limit_iops
    assert after.per_second >= before.per_second * (1 - 1e-9)


@given(fleets, blocks)
def test_sequential_io_is_never_slower_than_random(fleet, block):
    random_ = storage_envelope(None, fleet, block, sequential=False).limit_iops
    sequential = storage_envelope(None, fleet, block, sequential=True).limit_iops
    assert sequential.per_second >= random_.per_second * (1 - 1e-9)
