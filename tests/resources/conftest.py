"""A provider that only notes its calls, for tests of the resources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.resources.facts import ImageFacts, Launch, LaunchedInstance, PlacementGroup

CARDS = {
    "m5.2xlarge": (2.5, 10.0),
    "c5.18xlarge": (25.0, 25.0),
    "t2.medium": (None, None),
}
"""Baseline and peak in Gbit/s."""


def limits(type_name: str) -> InstanceLimits:
    baseline, peak = CARDS[type_name]
    card: dict[str, Any] = {"NetworkCardIndex": 0, "NetworkPerformance": "Up to 10 Gigabit"}
    if peak is not None:
        card |= {"BaselineBandwidthInGbps": baseline, "PeakBandwidthInGbps": peak}
    return InstanceLimits.from_describe(
        {"InstanceType": type_name, "NetworkInfo": {"NetworkCards": [card]}}, date="2026-11-01"
    )


def launched(type_name: str, number: int = 1, **changes: Any) -> LaunchedInstance:
    instance = LaunchedInstance(
        id=f"i-{number:017x}",
        type=type_name,
        zone="us-east-1a",
        state="running",
        private_ip=f"198.18.0.{number}",
        public_ip=None,
        address=f"198.18.0.{number}",
        limits=limits(type_name),
        image=ImageFacts("ami-1", "Debian 12", "x86_64", "admin", "/dev/xvda", 8, "ami-1"),
        key_name="key",
        private_key="private",
        host_public_key="ssh-ed25519 AAAA",
    )
    return replace(instance, **changes)


@dataclass
class NotingCloud:
    """Launches everything at once, and notes every call in its order."""

    calls: list[tuple[str, Any]] = field(default_factory=list)
    released: list[Any] = field(default_factory=list)
    refuses: Exception | None = None
    tags: dict[str, str] = field(default_factory=dict)

    def check_launches(self, launches: Sequence[Launch], *, strategy: str | None = None) -> None:
        self.calls.append(("check", ([launch.type for launch in launches], strategy)))
        if self.refuses is not None:
            raise self.refuses

    def launch(self, type: str, *, placement_group: Any = None, **options: Any) -> LaunchedInstance:
        return self.launch_many([Launch(type, **options)], placement_group=placement_group)[0]

    def launch_many(
        self, launches: Sequence[Launch], *, placement_group: PlacementGroup | str | None = None
    ) -> tuple[LaunchedInstance, ...]:
        self.calls.append(("launch", (list(launches), placement_group)))
        name = None if placement_group is None else str(placement_group)
        before = sum(len(what[0]) for call, what in self.calls if call == "launch") - len(launches)
        return tuple(
            launched(launch.type, before + number, placement_group=name, tags=self.tags)
            for number, launch in enumerate(launches, start=1)
        )

    def create_placement_group(self, strategy: str = "cluster", *, name: str = "") -> PlacementGroup:
        self.calls.append(("group", (strategy, name)))
        number = sum(call == "group" for call, _ in self.calls)
        return PlacementGroup(f"cloudbench-run-{number}", f"pg-{number}", strategy)

    def refresh(self, instance: LaunchedInstance) -> LaunchedInstance:
        return instance

    def release(self, resources: Sequence[Any]) -> None:
        self.released += list(resources)


@pytest.fixture
def cloud() -> NotingCloud:
    return NotingCloud()


@pytest.fixture
def launched_as() -> Callable[..., LaunchedInstance]:
    return launched
