"""The thread that mounts, makes namespaces and starts instances.

It has a mount namespace of its own. So this machine sees none of its mounts, and the kernel removes them when the
process ends, even if it is killed. All other threads of the process stay in the machine's namespace.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pytest_cloudbench.twin import linux

T = TypeVar("T")


class Workshop:
    """Runs functions, one after another, in the private mount namespace."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="cloudbench-workshop")
        try:
            self.run(self._enter)
        except BaseException:
            self._executor.shutdown()
            raise

    @staticmethod
    def _enter() -> None:
        linux.unshare(linux.CLONE_NEWNS)
        linux.make_mounts_private()

    def run(self, work: Callable[[], T]) -> T:
        """Run ``work`` in the thread; return its result or raise its error."""
        return self._executor.submit(work).result()

    def close(self) -> None:
        """End the thread, and with it the mount namespace and its mounts."""
        self._executor.shutdown()
