"""The keeper of a session: what stands between its tests and the world, to record it or to take its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pytest

if TYPE_CHECKING:
    from pytest_cloudbench.aws.cloud import Cloud
    from pytest_cloudbench.hosts.connection import HostConnection
    from pytest_cloudbench.verdicts.verdict import Verdict

T = TypeVar("T")

_KEEPER: pytest.StashKey[Keeper] = pytest.StashKey()


class Keeper(Protocol):
    """What every test asks of the world goes through it, with the test that asks."""

    def cloud(self, item: pytest.Item, opened: Callable[[], Cloud]) -> Cloud:
        """The control plane for a test; ``opened`` opens the real one, once a session."""
        ...

    def host(self, item: pytest.Item, address: str, **how: Any) -> HostConnection:
        """A host by SSH, with HostConnection's arguments."""
        ...

    def prepared(self, item: pytest.Item, name: str, target: Any, run: Callable[[], T]) -> T:
        """Have storage prepared (initialised, files laid out) and return what that gives."""
        ...

    def workload(
        self,
        item: pytest.Item,
        name: str,
        target: object,
        arguments: Mapping[str, Any],
        run: Callable[[], T],
    ) -> T:
        """Have a workload run on a target, as the test's own arguments say, and return what it measured."""
        ...

    def part_measured(self, item: pytest.Item, measurement: Any) -> None:
        """Take note of a part of a workload that goes on: what was measured so far must not be lost."""
        ...

    def measured_as(self, item: pytest.Item) -> str | None:
        """Where the test's latest measurement is kept, to say later which one a verdict is on."""
        ...

    def verdict(self, item: pytest.Item, verdict: Verdict, of: str | None) -> None:
        """Take note of a verdict and of what it is on."""
        ...


def keeper_of(config: pytest.Config) -> Keeper:
    """The session's keeper, made when first asked for: a replay, a recording, or where neither is wanted none."""
    found = config.stash.get(_KEEPER, None)
    if found is None:
        found = config.stash[_KEEPER] = _made(config)
    return found


def _made(config: pytest.Config) -> Keeper:
    from pytest_cloudbench.session.session import evidence_folder, replayed_folder

    if (replayed := replayed_folder(config)) is not None:
        from pytest_cloudbench.session.replaying import Replaying

        return Replaying(config, replayed)
    if (folder := evidence_folder(config)) is not None:
        from pytest_cloudbench.session.recording import Recording

        return Recording(config, folder)
    return Unkept()


class Unkept:
    """A session of which nothing is kept."""

    def cloud(self, item: pytest.Item, opened: Callable[[], Cloud]) -> Cloud:
        """The real one."""
        return opened()

    def host(self, item: pytest.Item, address: str, **how: Any) -> HostConnection:
        """The real one."""
        from pytest_cloudbench.hosts.connection import HostConnection

        return HostConnection(address, **how)

    def prepared(self, item: pytest.Item, name: str, target: Any, run: Callable[[], T]) -> T:
        """Prepare it."""
        return run()

    def workload(
        self,
        item: pytest.Item,
        name: str,
        target: object,
        arguments: Mapping[str, Any],
        run: Callable[[], T],
    ) -> T:
        """Run it."""
        return run()

    def part_measured(self, item: pytest.Item, measurement: Any) -> None:
        """Nothing."""

    def measured_as(self, item: pytest.Item) -> str | None:
        """Nowhere."""
        return None

    def verdict(self, item: pytest.Item, verdict: Verdict, of: str | None) -> None:
        """Nothing."""
