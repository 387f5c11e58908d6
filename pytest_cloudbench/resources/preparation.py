"""How what a test does before its measurements goes about it: at what pace, and whether anybody watches."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from pytest_cloudbench.resources.instance import Instance
    from pytest_cloudbench.resources.provider import Provider
    from pytest_cloudbench.workloads.pace import Pace

T = TypeVar("T")


class Preparation(Protocol):
    """The pace of the run, how its hosts are reached, and who is told of what takes its time."""

    @property
    def pace(self) -> Pace: ...

    def live(self, name: str) -> AbstractContextManager[Callable[[Any], None] | None]:
        """What shows a progress behind that name while it lasts; None where nothing is to be shown."""
        ...

    def done(self, name: str, target: Any, run: Callable[[], T]) -> T:
        """Have a target prepared by ``run`` and return what that gives."""
        ...

    def step(self, name: str) -> AbstractContextManager[None]:
        """Have what lasts that long known as a step of the test."""
        ...

    def launched(self, instance: Instance, cloud: Provider) -> None:
        """Have the test's new instance known."""
        ...


class Unwatched:
    """A preparation that nobody watches, at full pace."""

    @property
    def pace(self) -> Pace:
        """Full."""
        from pytest_cloudbench.workloads.pace import Pace

        return Pace.FULL

    def live(self, name: str) -> AbstractContextManager[Callable[[Any], None] | None]:
        """Show nothing."""
        return contextlib.nullcontext()

    def done(self, name: str, target: Any, run: Callable[[], T]) -> T:
        """Prepare it."""
        return run()

    def step(self, name: str) -> AbstractContextManager[None]:
        """Nobody is told."""
        return contextlib.nullcontext()

    def launched(self, instance: Instance, cloud: Provider) -> None:
        """Nobody is told."""
