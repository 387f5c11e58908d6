"""A user's settings for the weather of an embedded region, which makes its API as slow and unreliable as EC2's.

The text form is a list such as ``aws,seed=3,lost-answers=2%``: the preset "aws", and effects by name. A TOML file has
the same names as keys.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any, NamedTuple

from pytest_cloudbench.limits.durations import parse_duration
from pytest_cloudbench.limits.region_settings import factor_words, parse_time_factor

PRESET = "aws"
OFF = "off"


class Span(NamedTuple):
    """A range of durations, in seconds; each delay is drawn from it uniformly."""

    least: float = 0.0
    most: float = 0.0

    def __str__(self) -> str:
        ends = [f"{end:g}s" for end in ((self.least, self.most) if self.least != self.most else (self.most,))]
        return "-".join(ends)


_NONE = Span()


@dataclass(frozen=True)
class Weather:
    """The weather of a region. Every effect is off by default.

    The same ``seed`` draws the same delays and faults for the same calls. All delays are ``speed`` times shorter.
    """

    seed: int = 1
    speed: float = 1.0
    describe_lag: Span = _NONE
    stale: Span = _NONE
    throttle: float = 0.0
    errors: float = 0.0
    lost_answers: float = 0.0
    volume_delay: Span = _NONE
    instance_delay: Span = _NONE
    ssh_delay: Span = _NONE
    metal_delay: Span = _NONE
    command_delay: Span = _NONE
    no_capacity: tuple[str, ...] = ()
    late_no_capacity: tuple[str, ...] = ()
    no_addresses: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    vcpus: int = 0
    spot_interruption: Span = _NONE
    expiry: Span = _NONE
    deny: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The shortest text that parses into this weather; "" if no effect is on."""
        return min(
            (",".join(filter(None, (start, *_differences(self, base)))) for start, base in _STARTS.items()),
            key=len,
        )

    @property
    def is_clear(self) -> bool:
        return all(getattr(self, name) == getattr(CLEAR, name) for name in EFFECTS)


def _parse_span(text: str) -> Span:
    least, _, most = text.partition("-")
    ends = [0.0 if end.strip() in ("0", "0s") else parse_duration(end) for end in (least, most or least)]
    if ends[0] > ends[1]:
        raise ValueError(f"{text!r} is not a range: write the shorter duration first")
    return Span(*ends)


def _parse_share(text: str) -> float:
    number = text.removesuffix("%").strip()
    try:
        share = float(number) / 100 if number != text else math.nan
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:  # false for NaN too
        raise ValueError(f"{text!r} is not a share: use a percentage from 0% to 100%, such as 2%")
    return share


def _parse_count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def _parse_names(text: str) -> tuple[str, ...]:
    return tuple(name for name in (each.strip() for each in text.split("+")) if name)


class Effect(NamedTuple):
    """One effect: how its value is parsed, an example of one, and its value in the preset ("" if it is off there)."""

    parse: Callable[[str], Any]
    example: str
    preset: str
    meaning: str


EFFECTS: dict[str, Effect] = {
    "describe_lag": Effect(
        _parse_span,
        "12s",
        "0s-12s",
        "new resources are missing from listings this long, and half as long from calls that name them by id",
    ),
    "stale": Effect(
        _parse_span, "5s", "0s-5s", "describe calls show a changed or deleted resource as it was"
    ),
    "throttle": Effect(
        _parse_share, "50%", "100%", "request rates are limited to AWS's token buckets, or a share of each"
    ),
    "errors": Effect(
        _parse_share, "2%", "0.5%", "calls fail with 500 InternalError or 503 Unavailable; nothing is done"
    ),
    "lost_answers": Effect(
        _parse_share, "2%", "0.5%", "calls are carried out, but the connection closes without an answer"
    ),
    "volume_delay": Effect(
        _parse_span, "3s-6s", "3s-6s", "volumes take this long to be available, attached and detached"
    ),
    "instance_delay": Effect(
        _parse_span, "10s-30s", "10s-30s", "instances take this long to be running and to be terminated"
    ),
    "ssh_delay": Effect(_parse_span, "20s-60s", "20s-60s", "a booted instance answers SSH after this time"),
    "metal_delay": Effect(_parse_span, "4min-10min", "4min-10min", "the ssh-delay of bare metal"),
    "command_delay": Effect(
        _parse_span,
        "1s-3s",
        "1s-3s",
        "commands sent by SSM reach their instances after this time, and half of it no call knows their invocations",
    ),
    "no_capacity": Effect(
        _parse_names, "m5.*@us-east-1a", "", "RunInstances answers InsufficientInstanceCapacity"
    ),
    "late_no_capacity": Effect(
        _parse_names, "m5.*@us-east-1a", "", "pending instances end with Server.InsufficientInstanceCapacity"
    ),
    "no_addresses": Effect(
        _parse_names,
        "us-east-1a",
        "",
        "RunInstances answers InsufficientFreeAddressesInSubnet in these zones",
    ),
    "unsupported": Effect(_parse_names, "m5.*@us-east-1a", "", "RunInstances answers Unsupported"),
    "vcpus": Effect(_parse_count, "64", "", "the quota of virtual CPUs (VcpuLimitExceeded)"),
    "spot_interruption": Effect(
        _parse_span, "5min", "", "spot instances get their interruption notice after running this long"
    ),
    "expiry": Effect(_parse_span, "1h", "", "the credentials expire this long after the region's start"),
    "deny": Effect(_parse_names, "CreateTags+Modify*", "", "these actions answer UnauthorizedOperation"),
}
_SETTINGS: dict[str, Callable[[str], Any]] = {"seed": _parse_count, "speed": parse_time_factor}

CLEAR = Weather()
AWS = Weather(**{name: effect.parse(effect.preset) for name, effect in EFFECTS.items() if effect.preset})
_STARTS = {"": CLEAR, PRESET: AWS}


def parse_weather(text: str) -> Weather:
    """Parse the text form; "" is clear weather. Raises ValueError; for an unknown name it lists the known ones."""
    words = [word for word in (each.strip() for each in text.split(",")) if word]
    return _weather(
        (name.strip(), value.strip()) for name, _, value in (word.partition("=") for word in words)
    )


def parse_weather_file(text: str, file: str) -> Weather:
    """Parse the text of a TOML file; ``file`` is its name in errors. Raises ValueError."""
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        return _weather(_of_table(toml.loads(text)))
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def read_weather(setting: str, read: Callable[[str], str]) -> Weather:
    """Return the weather of a setting, the text form or the name of a TOML file, which ``read`` reads.

    Raises ValueError.
    """
    if not setting.endswith(".toml"):
        return parse_weather(setting)
    try:
        text = read(setting)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read the weather {setting}: {error}") from None
    return parse_weather_file(text, setting)


def _of_table(table: dict[str, Any]) -> Iterable[tuple[str, str]]:
    if (preset := table.pop("preset", None)) is not None:
        yield str(preset), ""
    for name, value in table.items():
        if isinstance(value, bool):
            yield name, "" if value else OFF
        else:
            yield name, "+".join(map(str, value)) if isinstance(value, list) else str(value)


def _weather(words: Iterable[tuple[str, str]]) -> Weather:
    values: dict[str, Any] = {}
    for name, value in words:
        key = name.replace("-", "_")
        if name == PRESET and not value:
            values = {each.name: getattr(AWS, each.name) for each in fields(AWS)} | values
        elif key in _SETTINGS:
            values[key] = _parsed(name, _SETTINGS[key], value)
        elif key in EFFECTS:
            values[key] = getattr(CLEAR, key) if value == OFF else _effect(name, EFFECTS[key], value)
        else:
            known = ", ".join(each.replace("_", "-") for each in (*EFFECTS, *_SETTINGS))
            raise ValueError(f"unknown weather {name!r}: use the preset {PRESET}, or some of {known}")
    return Weather(**values)


def _effect(name: str, effect: Effect, value: str) -> Any:
    if not (value or effect.preset):
        raise ValueError(f"{name} needs a value, such as {name}={effect.example}")
    parsed = _parsed(name, effect.parse, value or effect.preset)
    if not parsed or parsed == _NONE:
        raise ValueError(
            f"{name}={value} has no effect: use a value such as {effect.example}, or {name}={OFF}"
        )
    return parsed


def _parsed(name: str, parse: Callable[[str], Any], value: str) -> Any:
    try:
        return parse(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _differences(weather: Weather, base: Weather) -> Iterable[str]:
    for name in (*EFFECTS, *_SETTINGS):
        value = getattr(weather, name)
        if value != getattr(base, name):
            yield f"{name.replace('_', '-')}={_words(name, value)}"


def _words(name: str, value: Any) -> str:
    if name in _SETTINGS:
        return factor_words(value)
    if value == getattr(CLEAR, name):
        return OFF
    if isinstance(value, tuple) and not isinstance(value, Span):
        return "+".join(value)
    return f"{value * 100:g}%" if isinstance(value, float) else str(value)


def matches(pattern: str, instance_type: str, zone: str) -> bool:
    """Return True if a pattern means this type in this zone: "m5.*@us-east-1a", "m5.large" or "@us-east-1b"."""
    kind, _, where = pattern.partition("@")
    return fnmatchcase(instance_type, kind or "*") and fnmatchcase(zone, where or "*")
