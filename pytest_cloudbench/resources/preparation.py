"""The work of a test before its measurements: its pace, its progress, and its steps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pytest_cloudbench.resources.instance import Instance
    from pytest_cloudbench.resources.provider import Provider
    from pytest_cloudbench.workloads.pace import Pace

T = TypeVar("T")


class Preparation:
    """How storage is prepared and reported. This base class works at full pace and reports nothing."""

    @property
    def pace(self) -> Pace:
        """The pace of the run."""
        from pytest_cloudbench.workloads.pace import Pace

        return Pace.FULL

    def live(self, name: str) -> AbstractContextManager[Callable[[Any], None] | None]:
        """Return a context that yields a function to show progress after ``name``, or None if none is shown."""
        return contextlib.nullcontext()

    def done(self, name: str, target: Any, run: Callable[[], T]) -> T:
        """Prepare a target by ``run`` and return its result."""
        return run()

    def step(self, name: str) -> AbstractContextManager[None]:
        """Return a context that is a step of the test."""
        return contextlib.nullcontext()

    def launched(self, instance: Instance, cloud: Provider) -> None:
        """Report the test's new instance."""
