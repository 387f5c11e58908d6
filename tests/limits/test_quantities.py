"""Quantities: parsing, formatting, and the algebra of units."""

import re
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_cloudbench.limits.quantities import Bandwidth, Iops, Size, Throughput, figure, parse_rate

rates = st.floats(min_value=0.01, max_value=1e12, allow_nan=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("80,000 IOPS", Iops(80_000)),
        ("80_000iops", Iops(80_000)),
        ("2,375 MB/s", Throughput(2_375_000_000)),
        ("2 GiB/s", Throughput(2 * 1024**3)),
        ("19,000 Mbps", Throughput(2_375_000_000)),
        ("5 Gbit/s", Throughput(625_000_000)),
        ("125 MiB/s", Throughput(125 * 1024**2)),
        ("125 MiBps", Throughput(125 * 1024**2)),
        ("10 Gigabit", Throughput(1_250_000_000)),
        ("1.5 kB/s", Throughput(1_500)),
        ("4 KiB/s", Throughput(4_096)),
        ("593.75 MBps", Throughput(593_750_000)),
        ("10 GBit/s", Throughput(1_250_000_000)),
        ("9.375 mB/S", Throughput(9_375_000)),
    ],
)
def test_rates_are_read_with_their_unit(text, expected):
    assert parse_rate(text) == expected


@pytest.mark.parametrize("text", ["3000", "  80,000 ", "125."])
def test_a_bare_number_is_refused_and_the_error_lists_the_units(text):
    with pytest.raises(ValueError, match=r"IOPS, MiB/s, MB/s"):
        parse_rate(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("1,5 GiB/s", r"decimal point: 1\.5"),
        ("80,00 IOPS", r"decimal point: 80\.00"),
        ("0,125 GB/s", r"decimal point: 0\.125"),
        ("1.234,5 MB/s", r"decimal point: 1234\.5"),
        ("80.000 IOPS", r"80,000"),
        ("1.000.000 IOPS", r"commas: 1,000,000"),
        ("80 000 IOPS", r"commas: 80,000"),
        ("80\u202f000 IOPS", r"commas: 80,000"),
        ("80'000 IOPS", r"commas: 80,000"),
        ("8,00,000 IOPS", r"threes"),
        ("8_0 IOPS", r"threes"),
    ],
)
def test_a_number_of_another_language_is_refused_with_a_hint(text, hint):
    with pytest.raises(ValueError, match=hint) as refused:
        parse_rate(text)
    assert text in str(refused.value) or repr(text) in str(refused.value)


@pytest.mark.parametrize("unit", ["Gb/s", "Mb/s", "gb/s", "kb/s", "Gib/s", "mibps", "MBPS"])
def test_a_unit_that_may_mean_bits_or_bytes_is_refused(unit):
    bytes_unit = {"k": "kB/s", "g": "GB/s", "m": "MB/s"}[unit[0].lower()]
    bits_unit = {"k": "kbit/s", "g": "Gbit/s", "m": "Mbit/s"}[unit[0].lower()]
    with pytest.raises(ValueError, match=f"{bits_unit} .*{bytes_unit.replace('B', 'i?B')}"):
        parse_rate(f"10 {unit}")


_LOCALE_NUMBERS = st.from_regex(r"[0-9]{1,4}([.,_ '\u2019][0-9]{1,4}){0,3}", fullmatch=True)


@given(_LOCALE_NUMBERS, st.sampled_from(["IOPS", "MB/s", "Gbit/s"]))
def test_a_number_is_refused_or_has_only_its_english_meaning(number, unit):
    """What is accepted is what Python itself writes for the figure: digits, groups of three, a decimal point."""
    try:
        rate = parse_rate(f"{number} {unit}")
    except ValueError:
        return
    value = Decimal(number.replace(",", "").replace("_", ""))
    decimals = len(number.partition(".")[2])
    digits = f"{value:.{decimals}f}"
    grouped = f"{value:,.{decimals}f}"
    assert number in (grouped, grouped.replace(",", "_")) or number.lstrip("0") == digits.lstrip("0")
    per_unit = {"IOPS": Iops(1), "MB/s": Throughput(1e6), "Gbit/s": Throughput(125e6)}[unit]
    assert rate / per_unit == pytest.approx(float(value))


@given(st.integers(1, 999_999_999), st.sampled_from([",", "_"]))
def test_groups_of_three_are_read_in_full(number, separator):
    assert parse_rate(f"{number:,} IOPS".replace(",", separator)) == Iops(number)


@given(st.integers(1000, 999_999_999), st.sampled_from([".", " ", "'", "\u2019", "\u00a0", "\u202f"]))
def test_groups_of_another_language_never_become_a_smaller_figure(number, separator):
    with pytest.raises(ValueError, match=f"{number:,}"):
        parse_rate(f"{number:,} IOPS".replace(",", separator))


@given(st.decimals(0, 99_999, places=2).filter(lambda value: value >= 1))
def test_a_decimal_comma_never_becomes_a_larger_figure(value):
    with pytest.raises(ValueError, match="decimal point"):
        parse_rate(f"{value} MB/s".replace(".", ","))


@given(rates)
@example(13_250.0)
def test_what_is_shown_can_be_read(value):
    for shown in (Iops(value), Throughput(value), Bandwidth(value)):
        assert str(parse_rate(str(shown))) == str(shown) or shown / parse_rate(str(shown)) == pytest.approx(
            1, 0.06
        )


@pytest.mark.parametrize(
    "text", ["", "fast", "3,000 I", "-5 IOPS", "1e999 IOPS", "5 GB", "nan IOPS", "5 6 IOPS"]
)
def test_an_invalid_rate_is_refused(text):
    with pytest.raises(ValueError, match=r"IOPS|finite"):
        parse_rate(text)


def test_a_rate_must_be_a_text():
    with pytest.raises(TypeError, match="3,000 IOPS"):
        parse_rate(3000)


@pytest.mark.parametrize(
    ("quantity", "text"),
    [
        (Iops(80_000), "80,000 IOPS"),
        (Iops(9_060.4), "9,060 IOPS"),
        (Iops(12.5), "12.5 IOPS"),
        (Iops(0), "0 IOPS"),
        (Throughput.from_mb(2_375), "2,264.98 MiB/s"),
        (Throughput.from_mib(4_000), "4,000 MiB/s"),
        (Throughput.from_mib(0.0042), "0.0042 MiB/s"),
        (Bandwidth.from_gbit(4.9667), "4.97 Gbit/s"),
        (Bandwidth.from_gbit(10), "10 Gbit/s"),
        (Bandwidth.from_mbit(450), "450 Mbit/s"),
        (Bandwidth.from_mbit(0.064), "0.064 Mbit/s"),
        (Bandwidth.from_mbit(999.96), "1 Gbit/s"),
        (Bandwidth(0), "0 Mbit/s"),
        (Size.from_gib(80), "80 GiB"),
        (Size.parse("4k"), "4 KiB"),
        (Size.parse("500m"), "500 MiB"),
        (Size.from_gib(2048), "2,048 GiB"),
        (Size(1_000), "1,000 B"),
        (Size.parse("1536k"), "1,536 KiB"),
    ],
)
def test_quantities_are_shown_as_people_write_them(quantity, text):
    assert str(quantity) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4k", 4096),
        ("4 KiB", 4096),
        ("256K", 262144),
        ("500m", 500 * 1024**2),
        ("20g", 20 * 1024**3),
        ("1.5k", 1536),
        ("4kB", 4000),
        ("500 MB", 500_000_000),
        ("4096", 4096),
        (4096, 4096),
        ("1t", 1024**4),
    ],
)
def test_sizes_are_read_as_fio_reads_them(text, size):
    assert Size.parse(text) == Size(size)


@pytest.mark.parametrize(
    ("text", "KiB", "kB"), [("4 KB", "KiB", "kB"), ("4kb", "KiB", "kB"), ("1gb", "GiB", "GB")]
)
def test_a_size_in_powers_of_1000_or_1024_is_refused(text, KiB, kB):
    with pytest.raises(ValueError, match=f"{KiB} for 1,024, {kB} for 1,000"):
        Size.parse(text)


@pytest.mark.parametrize("text", ["1,5g", "4,00k", "1.024.000 k", "4 096"])
def test_a_size_of_another_language_is_refused_with_a_hint(text):
    with pytest.raises(ValueError, match=r"decimal point: 1\.5|point: 4\.00|commas: 1,024,000|commas: 4,096"):
        Size.parse(text)


@pytest.mark.parametrize("text", ["", "4x", "four", "-4k", "0.5", "1.5 B", "4.096"])
def test_an_invalid_size_is_refused(text):
    with pytest.raises(ValueError, match="size"):
        Size.parse(text)


@pytest.mark.parametrize("unit", ["", " B", "b"])
@given(st.integers(1, 999), st.integers(0, 999))
def test_bytes_with_a_point_before_three_digits_are_refused_with_a_hint(unit, thousands, rest):
    number = f"{thousands}.{rest:03}"
    with pytest.raises(
        ValueError, match=f"size.*{re.escape(number)} is ambiguous: write {thousands},{rest:03}"
    ):
        Size.parse(number + unit)
    assert Size.parse(f"{thousands},{rest:03}{unit}") == Size(1000 * thousands + rest)


@pytest.mark.parametrize("wrong", [True, None, "5", [1]])
def test_quantities_take_numbers_only(wrong):
    for make in (Iops, Throughput, Size):
        with pytest.raises(TypeError, match="number"):
            make(wrong)


@pytest.mark.parametrize("wrong", [1.5, None, True])
def test_a_size_is_whole(wrong):
    with pytest.raises(TypeError):
        Size.parse(wrong)


def test_different_quantities_do_not_mix():
    with pytest.raises(TypeError):
        Iops(1) + Throughput(1)
    with pytest.raises(TypeError):
        Iops(1) < Throughput(1)  # noqa: B015
    with pytest.raises(TypeError):
        Throughput(1) / Iops(1)
    with pytest.raises(TypeError):
        Iops(1) + 1
    with pytest.raises(TypeError):
        Iops(2) * Iops(2)
    assert Iops(5) != Throughput(5)


@given(rates, rates)
def test_iops_compare_with_each_other_and_with_plain_numbers(one, other):
    for right in (Iops(other), other):
        assert (Iops(one) < right, Iops(one) <= right) == (one < other, one <= other)
        assert (Iops(one) > right, Iops(one) >= right) == (one > other, one >= other)
        assert (right < Iops(one), Iops(one) == right) == (other < one, one == other)
    assert float(Iops(one)) == one
    assert hash(Iops(one)) == hash(one)
    assert Iops(one) == pytest.approx(one * 1.01, rel=0.02)


@pytest.mark.parametrize("quantity", [Throughput.from_mib(5), Bandwidth.from_gbit(5)])
def test_a_throughput_does_not_compare_with_a_number_and_names_its_units(quantity):
    with pytest.raises(TypeError, match=r"\.mib.*\.gbit"):
        quantity < 5  # noqa: B015
    with pytest.raises(TypeError, match=r"\.mib.*\.gbit"):
        quantity >= 5  # noqa: B015
    assert quantity != 5


@given(st.integers(min_value=0, max_value=10**9))
def test_whole_iops_survive_writing_and_reading(value):
    assert parse_rate(str(Iops(value))) == Iops(value)


@given(rates)
def test_throughput_survives_writing_and_reading_to_its_last_shown_digit(value):
    shown = parse_rate(str(Throughput(value)))
    assert shown.mib == pytest.approx(Throughput(value).mib, abs=0.005, rel=0.005)


@given(st.integers(min_value=0, max_value=2**60))
def test_a_size_in_bytes_survives_writing_and_reading(value):
    size = Size(value)
    assert Size.parse(str(size)).bytes == pytest.approx(value, rel=5e-5, abs=0)
    assert Size.parse(str(value)) == size


@given(rates, rates)
def test_throughputs_add_and_divide_back(one, other):
    total = Throughput(one) + Throughput(other)
    assert (total - Throughput(other)).bytes_per_second == pytest.approx(one, abs=1e-3, rel=1e-6)
    assert total / Throughput(one) == pytest.approx(1 + other / one)
    assert total / 2 * 2 == total
    assert 2 * Throughput(one) == Throughput(one) * 2


@given(rates)
def test_units_convert_there_and_back(value):
    assert Throughput.from_mib(value).mib == pytest.approx(value)
    assert Throughput.from_mb(value).mb == pytest.approx(value)
    assert Throughput.from_mbit(value).mbit == pytest.approx(value)
    assert Throughput.from_gbit(value).gbit == pytest.approx(value)
    assert Throughput.from_gbit(value).mb == pytest.approx(value * 125)


@given(rates, st.integers(min_value=1, max_value=2**24))
def test_iops_and_throughput_convert_through_a_block_size(value, block):
    assert Iops(value).at(Size(block)).in_ios_of(Size(block)).per_second == pytest.approx(value)


@given(st.floats(min_value=1e-9, max_value=1e15))
def test_only_zero_is_shown_as_zero(value):
    assert float(figure(value).replace(",", "")) > 0


def test_a_bandwidth_is_a_throughput_shown_in_bits():
    bits, plain = Bandwidth.from_gbit(5), Throughput(625_000_000)
    assert bits == plain
    assert plain == bits
    assert hash(bits) == hash(plain)
    assert {plain: "found"}[bits] == "found"
    assert repr(bits) == "Bandwidth(bytes_per_second=625000000.0)"
    assert str(Bandwidth.of(plain)) == "5 Gbit/s"
    assert bits != 625_000_000
    assert bits != Iops(625_000_000)


def test_a_bandwidth_stays_one_in_arithmetic():
    bits, plain = Bandwidth.from_gbit(5), Throughput.from_gbit(2)
    for result in (bits + plain, bits - plain, bits * 2, 2 * bits, bits / 2):
        assert type(result) is Bandwidth
    for result in (plain + bits, plain - bits, plain * 2, 2 * plain, plain / 2):
        assert type(result) is Throughput
    assert bits / plain == pytest.approx(2.5)
    with pytest.raises(TypeError):
        bits + Iops(1)
    with pytest.raises(TypeError):
        bits < Iops(1)  # noqa: B015
    with pytest.raises(TypeError, match="Bandwidth takes a number of bytes per second"):
        Bandwidth("5")


def test_two_figures_are_shown_in_one_unit():
    fast, slow = Bandwidth.from_gbit(10), Bandwidth.from_mbit(450)
    assert f"{slow.beside(fast)} of {fast}" == "0.45 of 10 Gbit/s"
    assert f"{fast.beside(slow)} of {slow}" == "10,000 of 450 Mbit/s"
    assert fast.beside(Throughput.from_mib(5)) == fast.number.replace("10", "1,192.09")


@given(rates, rates)
def test_bandwidths_and_throughputs_are_ordered_by_their_bytes(one, other):
    for left in (Bandwidth(one), Throughput(one)):
        for right in (Bandwidth(other), Throughput(other)):
            assert (left < right, left <= right) == (one < other, one <= other)
            assert (left > right, left >= right) == (one > other, one >= other)
            assert (left == right) == (one == other)
            assert left != right or hash(left) == hash(right)


@given(rates)
def test_a_bandwidth_survives_writing_and_reading_to_its_last_shown_digit(value):
    shown = parse_rate(str(Bandwidth(value)))
    assert shown.mbit == pytest.approx(Bandwidth(value).mbit, abs=0.05, rel=0.0051)
