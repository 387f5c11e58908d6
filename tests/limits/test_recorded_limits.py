"""Recorded limits: valid figures, tags, and their part in the envelope."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench import Iops, Size, Throughput, gp2, recorded_limits
from pytest_cloudbench.limits.envelope import storage_envelope
from pytest_cloudbench.limits.instances import OVERRIDES, InstanceLimits
from pytest_cloudbench.limits.recorded_limits import (
    EBS_IOPS_TAG,
    EBS_THROUGHPUT_TAG,
    BadRecordedLimits,
    RecordedLimits,
)

I3_METAL = InstanceLimits.from_describe(OVERRIDES["i3.metal"])
REVIEW = recorded_limits(ebs_iops=64_000, ebs_throughput="1,085 MiB/s", source="a review", date="2018")


def test_recorded_limits_replace_the_type_s_own_and_name_their_source():
    limits = I3_METAL.with_recorded(REVIEW)
    assert limits.ebs_iops.limit == Iops(64_000)
    assert limits.ebs_throughput.limit == Throughput.from_mib(1_085)
    assert (limits.ebs_iops.source, limits.ebs_iops.date) == ("a review", "2018")
    assert "recorded" in limits.ebs_iops.note
    assert limits.ebs_iops.base is None
    assert limits.ebs_iops.label == I3_METAL.ebs_iops.label
    assert limits.network_peak == I3_METAL.network_peak
    assert limits.source == I3_METAL.source


def test_a_limit_that_was_not_recorded_stays_the_type_s_own():
    limits = I3_METAL.with_recorded(recorded_limits(ebs_iops=64_000, source="a review"))
    assert limits.ebs_throughput.limit == I3_METAL.ebs_throughput.limit
    assert limits.ebs_throughput.source == I3_METAL.source
    assert I3_METAL.with_recorded(None) is I3_METAL


def test_a_recorded_limit_may_burst_and_a_network_limit_replaces_that_of_the_first_card():
    recorded = recorded_limits(
        ebs_iops=20_000,
        ebs_baseline_iops=6_000,
        network="12 Gbit/s",
        network_baseline="3 Gbit/s",
        source="our own measurement",
        date="2026-05",
    )
    for limits in (
        I3_METAL.with_recorded(recorded),
        I3_METAL.with_recorded(RecordedLimits.of_tags(recorded.tags)),
    ):
        assert (limits.ebs_iops.limit, limits.ebs_iops.base) == (20_000, 6_000)
        assert limits.ebs_throughput == I3_METAL.ebs_throughput
        assert str(limits.network_peak.limit) == "12 Gbit/s"
        assert str(limits.network_peak.base) == str(limits.network_baseline.limit) == "3 Gbit/s"
        assert limits.network_credits is not None
    assert I3_METAL.with_recorded(recorded).network_peak.source == "our own measurement"


def test_the_envelope_uses_recorded_limits():
    volumes = [(f"vol-{number}", gp2(size_gib=1_000)) for number in range(30)]
    envelope = storage_envelope(I3_METAL.with_recorded(REVIEW), volumes, Size.parse("4k"), sequential=False)
    assert [ceiling.label for ceiling in envelope.binding] == ["i3.metal EBS IOPS"]
    assert envelope.limit_iops == Iops(64_000)
    assert "recorded" in envelope.explain()[0]


def test_a_type_without_ebs_figures_needs_both_recorded():
    t2 = InstanceLimits.from_describe({"InstanceType": "t2.micro"})
    assert t2.with_recorded(REVIEW).ebs_iops.limit == Iops(64_000)
    with pytest.raises(BadRecordedLimits, match=r"t2\.micro has no EBS figures of its own"):
        t2.with_recorded(recorded_limits(ebs_iops=1_000, source="a review"))


@given(iops=st.one_of(st.none(), st.integers(1, 10**7)), moved=st.one_of(st.none(), st.integers(1, 10**12)))
def test_recorded_limits_travel_as_tags(iops, moved):
    if iops is None and moved is None:
        with pytest.raises(BadRecordedLimits):
            RecordedLimits()
        return
    sent = RecordedLimits(
        None if iops is None else Iops(float(iops)), None if moved is None else Throughput(float(moved)), "x"
    )
    got = RecordedLimits.of_tags({"Name": "cloudbench", **sent.tags})
    assert (got.iops, got.throughput) == (sent.iops, sent.throughput)
    assert not any(key.startswith("aws:") for key in sent.tags)


def test_other_tags_are_ignored():
    assert RecordedLimits.of_tags({"Name": "x"}) is None


@pytest.mark.parametrize("tag", [EBS_IOPS_TAG, EBS_THROUGHPUT_TAG])
@pytest.mark.parametrize("value", ["", "0", "-5", "1.5", "many", "1e9"])
def test_an_invalid_tag_is_refused(tag, value):
    with pytest.raises(BadRecordedLimits, match="a whole number from 1 up"):
        RecordedLimits.of_tags({tag: value})


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ({}, ValueError, "need a figure"),
        ({"ebs_iops": 0}, ValueError, "at least 1"),
        ({"ebs_iops": float("inf")}, ValueError, "at least 1"),
        ({"ebs_iops": "64,000"}, TypeError, "number of I/Os"),
        ({"ebs_iops": True}, TypeError, "number of I/Os"),
        ({"ebs_throughput": 1_085}, TypeError, r"has no unit: write it as a text such as '1,085 MiB/s'"),
        ({"ebs_throughput": "64,000 IOPS"}, ValueError, "not a throughput"),
        ({"ebs_throughput": "fast"}, ValueError, "invalid rate"),
        ({"network": 10}, TypeError, "'10 Gbit/s'"),
        ({"ebs_baseline_iops": 1_000}, ValueError, "ebs_iops that is at least as high"),
        ({"ebs_iops": 1_000, "ebs_baseline_iops": 1_001}, ValueError, "ebs_iops that is at least as high"),
        ({"network_baseline": "1 Gbit/s"}, ValueError, "network that is at least as high"),
        ({"ebs_iops": 1, "source": " "}, ValueError, "need their source"),
    ],
)
def test_invalid_recorded_limits_are_refused(how, error, words):
    with pytest.raises(error, match=words):
        recorded_limits(**{"source": "a review", **how})


def test_limits_of_a_host_are_named_without_ebs():
    of_host = recorded_limits(iops=500, throughput="100 MiB/s", source="a data sheet")
    assert of_host == recorded_limits(ebs_iops=500, ebs_throughput="100 MiB/s", source="a data sheet")
    with pytest.raises(BadRecordedLimits, match="not both"):
        recorded_limits(iops=500, ebs_iops=500, source="a data sheet")
    with pytest.raises(TypeError, match="throughput=100"):
        recorded_limits(throughput=100, source="a data sheet")
