"""The published figures of instance stores, and what they allow a load of reads and writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.limits.ceilings import MachineLimits
from pytest_cloudbench.limits.instance_store import STORE_RATES, store_ceilings, store_envelope
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.quantities import Iops, Size, Throughput

K4 = Size(4096)


@pytest.mark.parametrize(
    ("name", "read", "write"),
    [
        ("i3.8xlarge", 1_650_000, 720_000),
        ("i3.16xlarge", 3_300_000, 1_440_000),
        ("i3.metal", 3_300_000, 1_440_000),
        ("i4i.32xlarge", 3_200_000, 1_760_000),
    ],
)
def test_published_figures(name, read, write):
    rates = STORE_RATES[name]
    assert (rates.read.per_second, rates.write.per_second) == (read, write)
    assert "User Guide" in rates.source
    assert rates.share(4).read == Iops(read / 4)


def test_every_figure_is_plausible():
    for name, rates in STORE_RATES.items():
        assert 0 < rates.write.per_second < rates.read.per_second < 1e7, name
        assert rates.date, name


def test_rates_above_those_of_the_machine_are_not_within_it():
    def machine(iops):
        return MachineLimits(Iops(iops), Throughput.from_mib(5_000))

    rates = STORE_RATES["i3.large"]
    assert rates.within(None)
    assert rates.within(machine(100_125))
    assert not rates.within(machine(100_124))


def test_the_limits_of_a_load_follow_its_reads_and_writes():
    envelope = store_envelope("i3.8xlarge", STORE_RATES["i3.8xlarge"], K4, sequential=False)
    assert [one.label for one in envelope.of_mix(1).ceilings] == ["i3.8xlarge NVMe random read IOPS"]
    assert envelope.of_mix(0).limit_iops == Iops(720_000)
    assert envelope.of_mix(0.7).limit_iops == Iops(1_650_000 / 0.7)
    assert envelope.find(store_ceilings("i3.8xlarge", STORE_RATES["i3.8xlarge"])[0]) is not None
    assert store_envelope("m6id.large", None, K4, sequential=True).limit_iops is None


@given(reads=st.floats(0, 1), block=st.sampled_from([512, 4096, 65_536, 1 << 20]))
def test_no_mix_exceeds_the_published_reads_or_writes(reads, block):
    rates = STORE_RATES["i3.large"]
    envelope = store_envelope("i3.large", rates, Size(block), sequential=False).of_mix(reads)
    limit = envelope.limit_iops.per_second
    assert limit * reads <= rates.read.per_second * 1.000001
    assert limit * (1 - reads) <= rates.write.per_second * 1.000001
    assert limit >= rates.write.per_second * 0.999999


def test_whether_local_disks_are_nvme_is_read():
    def limits(support):
        disks = [{"Count": 1, "SizeInGB": 75, "Type": "ssd"}]
        store = {"Disks": disks, "NvmeSupport": support}
        return InstanceLimits.from_describe({"InstanceType": "x.y", "InstanceStorageInfo": store})

    assert limits("required").instance_store_nvme
    assert not limits("unsupported").instance_store_nvme
