"""Instance limits, read from real DescribeInstanceTypes data."""

import pytest

from pytest_cloudbench.limits.instances import OVERRIDES, InstanceLimits, nearest_names
from pytest_cloudbench.limits.quantities import Iops, Throughput


@pytest.fixture(scope="module")
def catalogue():
    return pytest.importorskip("moto.ec2.models.instance_types").INSTANCE_TYPES


@pytest.fixture(scope="module")
def limits(catalogue):
    return {name: InstanceLimits.from_describe(entry) for name, entry in catalogue.items()}


def test_every_known_type_is_read(catalogue, limits):
    assert len(limits) >= 1_395
    for name, one in limits.items():
        assert one.name == name
        assert one.architectures
        assert one.network_cards
        assert (one.ebs_maximum is None) == ("EbsOptimizedInfo" not in catalogue[name]["EbsInfo"])
        if one.ebs_maximum is not None:
            assert one.ebs_maximum.iops >= one.ebs_baseline.iops > Iops(0)
            assert one.ebs_maximum.throughput >= one.ebs_baseline.throughput > Throughput(0)


def test_types_that_burst_on_ebs(limits):
    assert sum(one.bursts for one in limits.values()) >= 543
    m5 = limits["m5.2xlarge"]
    assert m5.ebs_iops.limit == Iops(18_750)
    assert m5.ebs_iops.base == Iops(12_000)
    assert m5.ebs_throughput.limit == Throughput.from_mbit(4_750)
    assert m5.ebs_throughput.base == Throughput.from_mbit(2_300)
    assert "30 minutes once in 24 hours, then 274.18 MiB/s" in m5.ebs_throughput.note


def test_limits_of_c5_18xlarge(limits):
    c5 = limits["c5.18xlarge"]
    assert c5.nitro
    assert not c5.bare_metal
    assert not c5.bursts
    assert c5.ebs_throughput.limit == Throughput(2_375_000_000)
    assert str(c5.ebs_throughput) == "c5.18xlarge EBS throughput, 2,264.98 MiB/s"
    assert str(c5.ebs_iops) == "c5.18xlarge EBS IOPS, 80,000 IOPS"
    assert c5.network_cards[0].peak == Throughput.from_gbit(25)
    assert (c5.vcpus, c5.memory_mib, c5.architectures) == (72, 147_456, ("x86_64",))


def test_a_type_without_ebs_figures_has_no_ceiling(limits):
    t2 = limits["t2.micro"]
    assert t2.ebs_baseline is t2.ebs_maximum is t2.ebs_iops is t2.ebs_throughput is None
    assert t2.ebs_ceilings() == ()
    assert not t2.nitro


def test_instance_store_and_xen(limits):
    i3 = limits["i3.8xlarge"]
    assert not i3.nitro
    assert [(disk.count, disk.size_gb, disk.type) for disk in i3.instance_store] == [(4, 1_900, "ssd")]


def test_two_ebs_cards_and_weightings_are_kept(limits):
    cards = limits["c8gn.48xlarge"].ebs_cards
    assert len(cards) == 2
    assert (
        sum(card.maximum.iops.per_second for card in cards)
        >= limits["c8gn.48xlarge"].ebs_maximum.iops.per_second
    )
    assert "ebs-1" in limits["c8a.12xlarge"].bandwidth_weightings


def test_i3_metal_comes_from_the_overrides():
    metal = InstanceLimits.from_describe(OVERRIDES["i3.metal"], source="EC2", date="2030-01")
    assert metal.ebs_iops.limit == Iops(80_000)
    assert metal.ebs_throughput.limit == Throughput.from_mb(2_375)
    assert metal.bare_metal
    assert metal.nitro
    assert (metal.instance_store[0].count, metal.instance_store[0].size_gb) == (8, 1_900)
    assert metal.network_cards[0].baseline == Throughput.from_gbit(25)
    assert "from memory" in metal.source
    assert metal.date == "2026-11"


def test_ceilings_name_the_source(catalogue):
    one = InstanceLimits.from_describe(catalogue["c5.large"], source="EC2 eu-west-1", date="2026-11-20")
    assert (one.ebs_iops.source, one.ebs_iops.date) == ("EC2 eu-west-1", "2026-11-20")


def test_a_missing_throughput_follows_from_the_bandwidth():
    info = {f"{which}Iops": 100 for which in ("Baseline", "Maximum")}
    info |= {f"{which}BandwidthInMbps": 1_000 for which in ("Baseline", "Maximum")}
    one = InstanceLimits.from_describe({"InstanceType": "x1.y", "EbsInfo": {"EbsOptimizedInfo": info}})
    assert one.ebs_maximum.throughput == Throughput.from_mb(125)


def test_an_entry_without_a_type_is_refused():
    with pytest.raises(ValueError, match="no InstanceType"):
        InstanceLimits.from_describe({})


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ("c5.18xlrge", "c5.18xlarge"),
        ("i3.metl", "i3.metal"),
        ("t2micro", "t2.micro"),
        ("C5.18XLARGE", "c5.18xlarge"),
    ],
)
def test_the_nearest_name_comes_first(catalogue, wrong, expected):
    names = nearest_names(wrong, [*catalogue, *OVERRIDES])
    assert names[0] == expected
    assert len(names) == 3


def test_a_name_unlike_any_other_has_no_nearest_names(catalogue):
    assert nearest_names("potato", catalogue) == []
    assert nearest_names("", catalogue) == []
