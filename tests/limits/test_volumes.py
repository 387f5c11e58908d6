"""Volume specs: their figures, and the rules of their types."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench import InvalidSpec, VolumeSpec, gp2, gp3, io1, io2, sc1, st1
from pytest_cloudbench.limits.quantities import Iops, Size, Throughput
from pytest_cloudbench.limits.volume_rules import volume_problems
from pytest_cloudbench.limits.volume_types import VOLUME_TYPES
from pytest_cloudbench.limits.volumes import volume_ceilings


@pytest.mark.parametrize(
    ("spec", "iops", "throughput"),
    [
        (gp3(size_gib=10), 3_000, 125),
        (gp3(size_gib=100, iops=6_000, throughput_mib=250), 6_000, 250),
        (gp2(size_gib=1), 100, 128),
        (gp2(size_gib=100), 300, 128),
        (gp2(size_gib=170), 510, 128),
        (gp2(size_gib=171), 513, 250),
        (gp2(size_gib=16_384), 16_000, 250),
        (io2(size_gib=80, iops=80_000), 80_000, 4_000),
        (io2(size_gib=80, iops=1_000), 1_000, 256),
        (io2(size_gib=80, iops=16_000), 16_000, 4_000),
        (io1(size_gib=200, iops=1_000), 1_000, 250),
        (io1(size_gib=200, iops=2_000), 2_000, 500),
        (io1(size_gib=640, iops=32_000), 32_000, 500),
        (io1(size_gib=960, iops=48_000), 48_000, 750),
        (io1(size_gib=1_280, iops=64_000), 64_000, 1_000),
        (st1(size_gib=1_024), 40, 40),
        (st1(size_gib=16_384), 500, 500),
        (sc1(size_gib=1_024), 12, 12),
        (sc1(size_gib=16_384), 192, 192),
    ],
    ids=str,
)
def test_effective_figures(spec, iops, throughput):
    assert spec.problems() == []
    assert (spec.iops, spec.throughput_mib) == (iops, pytest.approx(throughput))
    assert spec.check() is spec


@pytest.mark.parametrize(
    ("spec", "iops", "throughput"),
    [
        (gp2(size_gib=100), 3_000, 128),
        (gp2(size_gib=2_000), 6_000, 250),
        (st1(size_gib=1_024), 250, 250),
        (st1(size_gib=4_096), 500, 500),
        (sc1(size_gib=1_024), 80, 80),
        (sc1(size_gib=16_384), 250, 250),
        (gp3(size_gib=10), 3_000, 125),
    ],
    ids=str,
)
def test_burst_figures(spec, iops, throughput):
    assert (spec.burst_iops, spec.burst_throughput_mib) == (iops, pytest.approx(throughput))


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (io2(size_gib=80, iops=80_000), "io2 80 GiB/80,000 IOPS"),
        (gp3(size_gib=10), "gp3 10 GiB/3,000 IOPS/125 MiB/s"),
        (gp2(size_gib=1_000), "gp2 1,000 GiB/3,000 IOPS"),
        (st1(size_gib=1_024), "st1 1,024 GiB/40 MiB/s"),
        (VolumeSpec.of("gp9", 1), "gp9 1 GiB"),
    ],
)
def test_a_spec_is_shown_with_its_figures(spec, text):
    assert str(spec) == text


def test_a_request_names_only_requested_figures():
    assert (gp3(size_gib=10).requested_iops, gp3(size_gib=10).requested_throughput_mib) == (None, None)
    assert gp2(size_gib=10).requested_iops is None
    assert io2(size_gib=80, iops=80_000).requested_iops == 80_000
    assert gp3(size_gib=10, throughput_mib=125).requested_throughput_mib == 125


def test_the_io_unit_depends_on_the_type():
    assert io2(size_gib=4, iops=100).io_unit == Size.parse("256k")
    assert st1(size_gib=125).io_unit == Size.parse("1m")
    assert io2(size_gib=4, iops=100).merging
    assert io2(size_gib=4, iops=100).tags == {}


@pytest.mark.parametrize(
    "spec",
    [
        io1(size_gib=100, iops=1_000, io_unit="16k"),
        io2(size_gib=100, iops=1_000, io_unit="16k"),
        gp2(size_gib=100, io_unit="16k"),
        gp3(size_gib=100, io_unit="16k"),
    ],
)
def test_a_volume_can_be_counted_in_another_unit(spec):
    assert spec.check().io_unit == Size.parse("16k")
    assert not spec.merging
    assert spec.tags == {"cloudbench:io-unit": "16k"}
    assert str(spec).endswith("/counted in 16 KiB")


@pytest.mark.parametrize("unit", ["2k", "12k", "512k", "0"])
def test_a_unit_is_a_power_of_two_up_to_the_types_own(unit):
    spec = io1(size_gib=100, iops=1_000, io_unit=unit)
    with pytest.raises(InvalidSpec, match=r"an I/O unit is a power of two from 4 KiB to 256 KiB"):
        spec.check()


def test_an_hdd_volume_keeps_its_unit():
    with pytest.raises(InvalidSpec, match=r"st1 volumes count in units of 1 MiB"):
        VolumeSpec.of("st1", 500, io_unit="16k").check()


@pytest.mark.parametrize("unit", ["small", 16.5, True])
def test_an_io_unit_must_be_a_size(unit):
    with pytest.raises(TypeError, match="invalid io_unit of io1"):
        io1(size_gib=100, iops=1_000, io_unit=unit)


@pytest.mark.parametrize(
    "spec",
    [
        io1(size_gib=100, iops=1_000, first_touch=0.5),
        io2(size_gib=100, iops=1_000, first_touch=0.5),
        gp2(size_gib=100, first_touch=0.5),
        gp3(size_gib=100, first_touch=0.5),
    ],
)
def test_a_volume_can_be_slow_at_first(spec):
    assert spec.check().tags == {"cloudbench:first-touch": "0.5"}
    assert str(spec).endswith("/first touch at 50 %")
    assert io1(size_gib=100, iops=1_000, io_unit="16k", first_touch=0.95).tags == {
        "cloudbench:io-unit": "16k",
        "cloudbench:first-touch": "0.95",
    }


@pytest.mark.parametrize("share", [0, 1, 1.5, -0.5, 0.009, float("nan"), float("inf")])
def test_first_touch_is_a_share_of_the_rate(share):
    with pytest.raises(InvalidSpec, match=r"is a share of the volume.s rate, from 0\.01 to less than 1"):
        gp3(size_gib=100, first_touch=share).check()


@pytest.mark.parametrize("share", ["0.5", "50 %", True])
def test_first_touch_must_be_a_number(share):
    with pytest.raises(TypeError, match=r"invalid first_touch of gp3.*0\.5"):
        gp3(size_gib=100, first_touch=share)


@given(st.sampled_from(["4k", "8k", "16k", "32k", "64k", "128k", "256k"]))
def test_the_tag_has_the_unit(unit):
    spec = io1(size_gib=100, iops=1_000, io_unit=unit)
    assert Size.parse(spec.tags["cloudbench:io-unit"]) == spec.io_unit


def test_the_ios_of_an_hdd_volume_follow_exactly_from_its_throughput():
    assert st1(size_gib=500).io_rate(burst=False).per_second == pytest.approx(40 * 500 / 1024)
    assert st1(size_gib=500).iops == 19
    assert gp2(size_gib=100).io_rate(burst=True) == Iops(3_000)
    assert VolumeSpec.of("gp9", 1).io_rate(burst=True) is None


@pytest.mark.parametrize(
    ("asked", "code", "says"),
    [
        (("gp9", 10), "UnknownVolumeType", "did you mean gp"),
        (("io2", 3, 100), "InvalidParameterValue", "3 GiB is too small: io2 volumes are 4 to 65,536 GiB"),
        (("io2", 65_537, 100), "InvalidParameterValue", "too large"),
        (("io2", 80), "MissingParameter", "names no IOPS"),
        (("io2", None, 100), "MissingParameter", "names no size"),
        (("io2", 80, 99), "InvalidParameterValue", "99 IOPS are too few: io2 volumes take 100 to 256,000"),
        (("io2", 300, 256_001), "InvalidParameterValue", "too many"),
        (("io2", 80, 80_001), "InvalidParameterValue", "at most 1,000 IOPS per GiB, here 80,000"),
        (("io1", 10, 501), "InvalidParameterValue", "at most 50 IOPS per GiB, here 500"),
        (("io1", 80, 1_000, 500), "InvalidParameterCombination", "take no throughput"),
        (("gp2", 10, 100), "InvalidParameterCombination", "gp2 volumes take no IOPS"),
        (("gp2", 10, None, 128), "InvalidParameterCombination", "take no throughput"),
        (("gp3", 10, 2_999), "InvalidParameterValue", "too few"),
        (("gp3", 10, 5_001), "InvalidParameterValue", "at most 500 IOPS per GiB, here 5,000"),
        (("gp3", 200, 80_001), "InvalidParameterValue", "too many"),
        (("gp3", 10, None, 124), "InvalidParameterValue", "124 MiB/s are too few"),
        (("gp3", 10, None, 751), "InvalidParameterValue", "at most 0.25 MiB/s per IOPS, here 750 MiB/s"),
        (("gp3", 200, 80_000, 2_001), "InvalidParameterValue", "too many"),
        (("st1", 124), "InvalidParameterValue", "125 to 16,384"),
        (("sc1", 125, 100), "InvalidParameterCombination", "no IOPS"),
        (("standard", 1_025), "InvalidParameterValue", "too large"),
    ],
)
def test_each_rule_refuses_with_its_code_and_a_sentence(asked, code, says):
    problems = volume_problems(*asked)
    assert code in {problem.code for problem in problems}
    assert any(says in problem.message for problem in problems), [str(problem) for problem in problems]
    assert all(problem.source and problem.date and problem.rule in problem.message for problem in problems)


@pytest.mark.parametrize(
    "asked",
    [
        ("gp3", 1, 3_000),
        ("gp3", 10, 5_000, 1_250),
        ("gp3", 160, 80_000, 2_000),
        ("gp3", 65_536, 80_000),
        ("io2", 4, 4_000),
        ("io2", 256, 256_000),
        ("io1", 4, 200),
        ("io1", 1_280, 64_000),
        ("gp2", 16_384),
        ("st1", 125),
        ("sc1", 16_384),
        ("standard", 1),
    ],
)
def test_the_ends_of_ranges_are_allowed(asked):
    assert volume_problems(*asked) == []


def test_the_error_names_every_broken_rule():
    spec = gp3(size_gib=0, iops=1, throughput_mib=5_000)
    with pytest.raises(InvalidSpec) as refused:
        spec.check()
    assert len(refused.value.problems) == 4
    assert "0 GiB is too small" in str(refused.value)
    assert "5,000 MiB/s are too many" in str(refused.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: gp3(size_gib="10"),
        lambda: gp3(size_gib=True),
        lambda: gp3(size_gib=10.5),
        lambda: gp3(size_gib=float("nan")),
        lambda: gp3(size_gib=float("inf")),
        lambda: gp3(size_gib=None),
        lambda: gp3(size_gib=10, iops="3000"),
        lambda: io2(size_gib=80, iops=None),
        lambda: VolumeSpec(3, 10),
        lambda: gp3(10),
        lambda: gp2(size_gib=10, iops=100),
    ],
)
def test_values_of_the_wrong_type_are_type_errors(make):
    with pytest.raises(TypeError):
        make()


def test_equal_specs_compare_and_hash_equal():
    assert io2(size_gib=80, iops=80_000) == VolumeSpec.of("io2", 80, 80_000)
    assert len({gp3(size_gib=10), gp3(size_gib=10), gp3(size_gib=11)}) == 2
    assert pickle.loads(pickle.dumps(gp3(size_gib=10))) == gp3(size_gib=10)


def test_ceilings_of_a_volume_name_it_and_its_figures():
    iops, throughput = volume_ceilings([("vol-0abc", io2(size_gib=80, iops=80_000))])
    assert (iops.label, iops.limit) == ("io2 vol-0abc IOPS", Iops(80_000))
    assert (throughput.label, throughput.limit) == ("io2 vol-0abc throughput", Throughput.from_mib(4_000))
    assert iops.detail == "io2 80 GiB/80,000 IOPS"
    assert iops.base is None
    assert iops.source
    assert iops.date


def test_ceilings_of_a_bursting_volume_have_their_baseline():
    iops, throughput = volume_ceilings([("vol-1", gp2(size_gib=100))])
    assert (iops.limit, iops.base) == (Iops(3_000), Iops(300))
    assert "then 300 IOPS" in iops.note
    assert throughput.base is None


def test_ceilings_without_figures_are_left_out():
    assert volume_ceilings([]) == ()
    assert volume_ceilings([("vol-1", VolumeSpec.of("io2", 80)), ("vol-2", VolumeSpec.of("gp9", 8))]) == ()


@st.composite
def valid_requests(draw):
    kind = VOLUME_TYPES[draw(st.sampled_from(sorted(VOLUME_TYPES)))]
    size = draw(st.integers(*kind.size_range))
    iops = throughput = None
    if kind.iops_range:
        most = min(kind.iops_range[1], max(kind.iops_free_of_ratio, kind.iops_per_gib * size))
        iops = draw(st.integers(kind.iops_range[0], most))
    if kind.throughput_range:
        most = min(kind.throughput_range[1], int(kind.throughput_per_iops * iops))
        throughput = draw(st.integers(kind.throughput_range[0], most))
    return kind.name, size, iops, throughput


@given(valid_requests())
def test_a_request_within_the_rules_has_no_problem_and_has_figures(request_):
    assert volume_problems(*request_) == []
    spec = VolumeSpec.of(*request_)
    assert 0 < spec.iops <= spec.burst_iops
    assert 0 < spec.throughput_mib <= spec.burst_throughput_mib


@given(
    valid_requests(), st.sampled_from(["size below", "size above", "iops below", "iops above", "throughput"])
)
def test_one_step_outside_a_range_is_refused(request_, edge):
    name, size, iops, throughput = request_
    kind = VOLUME_TYPES[name]
    if edge == "size below":
        size = kind.size_range[0] - 1
    elif edge == "size above":
        size = kind.size_range[1] + 1
    elif edge == "iops below":
        iops = kind.iops_range[0] - 1 if kind.iops_range else 1
    elif edge == "iops above":
        ratio_limit = max(kind.iops_free_of_ratio, (kind.iops_per_gib or 0) * size)
        iops = min(kind.iops_range[1], ratio_limit) + 1 if kind.iops_range else 1
    else:
        throughput = kind.throughput_range[1] + 1 if kind.throughput_range else 1
    assert volume_problems(name, size, iops, throughput)


@given(
    st.text(max_size=8),
    st.none() | st.integers(-10, 10**6),
    st.none() | st.integers(-10, 10**6),
    st.none() | st.integers(-10, 10**6),
)
def test_every_problem_has_a_code_and_one_sentence(kind, size, iops, throughput):
    for name in (kind, "gp3", "io2", "gp2"):
        for problem in volume_problems(name, size, iops, throughput):
            assert problem.code
            assert problem.message
            assert "\n" not in problem.message or "\n" in kind
