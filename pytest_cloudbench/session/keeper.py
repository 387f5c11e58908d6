"""The keeper of a session stands between its tests and the cloud, to record or replay what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pytest_cloudbench.options import OF_A_TEST

if TYPE_CHECKING:
    from pytest_cloudbench.evidence.plain_values import WorkloadRequest
    from pytest_cloudbench.resources.provider import Provider

T = TypeVar("T")

REQUESTED: pytest.StashKey[WorkloadRequest] = pytest.StashKey()
"""In a test's stash: the workload that it requested last."""
OF_A_TEST.append(REQUESTED)
_KEEPER: pytest.StashKey[Keeper] = pytest.StashKey()


class Keeper:
    """The interface of a session's tests to the cloud, its hosts and workloads. This class records nothing."""

    def cloud(
        self,
        item: pytest.Item,
        opened: Callable[[], Provider],
        shared: Callable[[Provider], Provider],
        running: Callable[[], pytest.Item] | None = None,
    ) -> Provider:
        """Return the provider for a test.

        ``opened`` opens the real one, once per session; ``shared`` returns one that keeps hardware for later tests.
        ``running`` returns the test that runs now, for a provider that outlives ``item``.
        """
        return shared(opened())

    def begins(self, item: pytest.Item) -> None:
        """Begin a test that uses hardware of an earlier one."""

    def prepared(self, item: pytest.Item, name: str, target: Any, run: Callable[[], T]) -> T:
        """Prepare storage by ``run`` (initialise it, lay out files) and return what that returns."""
        return run()

    def workload(self, item: pytest.Item, request: WorkloadRequest, run: Callable[[], T]) -> T:
        """Run a workload by ``run`` and return what it measured."""
        return run()


def keeper_of(config: pytest.Config) -> Keeper:
    """Return the session's keeper, created by the first call: it replays, records, or does neither."""
    found = config.stash.get(_KEEPER, None)
    if found is None:
        found = config.stash[_KEEPER] = _make_keeper(config)
    return found


def _make_keeper(config: pytest.Config) -> Keeper:
    from pytest_cloudbench.session.session import evidence_folder, replayed_folder

    if (replayed := replayed_folder(config)) is not None:
        from pytest_cloudbench.session.replaying import Replaying

        return Replaying(config, replayed)
    if (folder := evidence_folder(config)) is not None:
        from pytest_cloudbench.session.recording import Recording

        return Recording(config, folder)
    return Keeper()
