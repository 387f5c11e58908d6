"""The time factor: parsing and formatting."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.limits.region_settings import LARGEST_FACTOR, factor_words, parse_time_factor


@given(st.floats(min_value=1, max_value=LARGEST_FACTOR))
def test_a_formatted_factor_parses_to_itself(factor: float) -> None:
    assert parse_time_factor(factor_words(factor)) == factor


@given(st.floats().filter(lambda value: not 1 <= value <= LARGEST_FACTOR))
def test_a_factor_out_of_bounds_is_refused_and_the_error_names_the_bounds(factor: float) -> None:
    with pytest.raises(ValueError, match=r"invalid time factor .*: use a number from 1 .* to 3,600"):
        parse_time_factor(str(factor))


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    factor = 1.0
    with contextlib.suppress(ValueError):
        factor = parse_time_factor(text)
    assert 1 <= factor <= LARGEST_FACTOR


@pytest.mark.parametrize(
    ("text", "factor", "words"), [("60", 60, "60"), ("1.5", 1.5, "1.5"), ("6e1", 60, "60")]
)
def test_factors_are_parsed_as_people_write_them(text: str, factor: float, words: str) -> None:
    assert parse_time_factor(text) == factor
    assert factor_words(parse_time_factor(text)) == words
