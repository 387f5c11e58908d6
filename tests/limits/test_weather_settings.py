"""The settings of an embedded region's weather: texts, files, and what is refused."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cloudbench.limits.weather import (
    AWS,
    CLEAR,
    EFFECTS,
    Span,
    Weather,
    matches,
    parse_weather,
    parse_weather_file,
    read_weather,
)

_ENDS = st.integers(1, 3600)
_SHARES = st.integers(1, 100).map(lambda percent: percent / 100)
_NAMES = st.lists(st.from_regex(r"[a-z0-9.*]{1,8}(@[a-z0-9-]{1,8})?", fullmatch=True), max_size=3).map(tuple)


def _values(effect: str) -> st.SearchStrategy[object]:
    off = getattr(CLEAR, effect)
    kinds: dict[type, st.SearchStrategy[object]] = {
        Span: st.builds(
            lambda one, other: Span(float(min(one, other)), float(max(one, other))), _ENDS, _ENDS
        ),
        float: _SHARES,
        int: st.integers(1, 1000),
        tuple: _NAMES,
    }
    return st.just(off) | kinds[type(off)]


WEATHERS = st.builds(
    Weather,
    seed=st.integers(0, 99),
    speed=st.integers(1, 3600).map(float),
    **{effect: _values(effect) for effect in EFFECTS},
)


@settings(max_examples=50)
@given(WEATHERS | st.builds(lambda seed: Weather(**{**vars(AWS), "seed": seed}), st.integers(0, 9)))
def test_every_weather_parses_from_its_own_text(weather):
    assert parse_weather(str(weather)) == weather


def test_the_shortest_text_is_used():
    assert str(CLEAR) == ""
    assert str(AWS) == "aws"
    assert str(parse_weather("seed=3, aws")) == "aws,seed=3"
    assert str(parse_weather("aws,throttle=off,speed=20")) == "aws,throttle=off,speed=20"
    assert str(parse_weather("describe-lag=2min")) == "describe-lag=120s"


def test_the_preset_has_the_effects_of_every_call_and_none_that_needs_a_choice():
    on = {each.name for each in fields(Weather) if getattr(AWS, each.name) != getattr(CLEAR, each.name)}
    assert on == {name for name, effect in EFFECTS.items() if effect.preset}
    assert AWS.describe_lag == Span(0, 12)
    assert AWS.volume_delay == Span(3, 6)
    assert AWS.instance_delay == Span(10, 30)
    assert AWS.ssh_delay == Span(20, 60)
    assert AWS.throttle == 1
    assert not {"no_capacity", "vcpus", "expiry", "deny"} & on


def test_single_effects_take_the_values_of_the_preset_or_their_own():
    assert parse_weather("volume-delay") == Weather(volume_delay=AWS.volume_delay)
    assert parse_weather("lost-answers=2%").lost_answers == 0.02
    assert parse_weather("ssh-delay=500ms-2s").ssh_delay == Span(0.5, 2)
    assert parse_weather("no-capacity=m5.*@us-east-1a+c5.large").no_capacity == (
        "m5.*@us-east-1a",
        "c5.large",
    )


def test_a_file_has_the_same_names():
    text = """
preset = "aws"
seed = 7
lost-answers = "3%"
throttle = false
volume-delay = true
no-capacity = ["m5.large@us-east-1a", "c5.*"]
vcpus = 32
"""
    expected = parse_weather(
        "aws,seed=7,lost-answers=3%,throttle=off,no-capacity=m5.large@us-east-1a+c5.*,vcpus=32"
    )
    assert parse_weather_file(text, "bad-day.toml") == expected
    assert read_weather("bad-day.toml", lambda _: text) == expected
    assert read_weather("vcpus=32", lambda _: text) == Weather(vcpus=32)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rain", ["rain", "aws", "describe-lag", "lost-answers"]),
        ("aws=3", ["unknown", "aws"]),
        ("no-capacity", ["needs a value", "no-capacity="]),
        ("lost-answers=2", ["lost-answers", "2", "percentage"]),
        ("errors=200%", ["errors", "200%"]),
        ("errors=0%", ["no effect", "off"]),
        ("describe-lag=12", ["describe-lag", "unit"]),
        ("describe-lag=6s-3s", ["describe-lag", "shorter"]),
        ("speed=0.5", ["speed", "0.5"]),
        ("seed=one", ["seed", "one"]),
    ],
)
def test_what_cannot_be_is_refused_with_its_name(text, words):
    with pytest.raises(ValueError) as refusal:
        parse_weather(text)
    assert all(word in str(refusal.value) for word in words)


def test_a_bad_file_is_named():
    with pytest.raises(ValueError, match=r"bad-day\.toml.*rain"):
        parse_weather_file("rain = true", "bad-day.toml")

    def missing(_: str) -> str:
        raise FileNotFoundError("no such file")

    with pytest.raises(ValueError, match=r"gone\.toml.*no such file"):
        read_weather("gone.toml", missing)


def test_patterns_mean_types_and_zones():
    assert matches("m5.*@us-east-1a", "m5.large", "us-east-1a")
    assert not matches("m5.*@us-east-1a", "m5.large", "us-east-1b")
    assert not matches("m5.*@us-east-1a", "c5.large", "us-east-1a")
    assert matches("m5.large", "m5.large", "us-east-1d")
    assert matches("@us-east-1b", "c5.large", "us-east-1b")


def test_the_documentation_has_every_effect_with_its_value_in_the_preset():
    rows = [
        f"| `{name.replace('_', '-')}` | {effect.example} | {effect.preset} | {effect.meaning} |".replace(
            "|  |", "| |"
        )
        for name, effect in EFFECTS.items()
    ]
    page = (Path(__file__).parents[2] / "docs" / "weather.md").read_text(encoding="utf-8")
    assert [row for row in rows if row not in page] == []
