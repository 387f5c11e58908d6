"""Durations with their unit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.limits.durations import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1ms", 1e-3),
        (" 1 ms ", 1e-3),
        ("500us", 5e-4),
        ("500 µs", 5e-4),
        ("250ns", 2.5e-7),
        ("0.5s", 0.5),
        (".5 s", 0.5),
        ("1,500 ms", 1.5),
        ("10 min", 600),
        ("1 h", 3600),
        ("1 MS", 1e-3),
    ],
)
def test_durations_are_parsed_into_seconds(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["1", "ms", "", "1 fortnight", "-1ms", "0s", "1 ms 2", "one ms"])
def test_an_invalid_duration_is_refused(text):
    with pytest.raises(ValueError, match=r"duration|unit"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [("4,5 ms", r"4\.5"), ("0,125 s", r"0\.125"), ("1 500 ms", "1,500"), ("1.000.000 us", "1,000,000")],
)
def test_a_number_of_another_language_is_refused_with_a_hint(text, hint):
    with pytest.raises(ValueError, match=hint):
        parse_duration(text)


@pytest.mark.parametrize("value", [1, 0.001, None, True])
def test_a_duration_must_be_a_text(value):
    with pytest.raises(TypeError, match="with its unit"):
        parse_duration(value)


@given(st.integers(1, 10**9), st.sampled_from(["ns", "us", "ms", "s", "min", "h"]))
def test_units_convert_into_each_other(number, unit):
    assert parse_duration(f"{number}{unit}") == pytest.approx(number * parse_duration(f"1{unit}"))
