"""How workloads use a host: a tool runs as a detached job that leaves nothing behind, and steps run side by side."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar
from weakref import WeakKeyDictionary

from pytest_cloudbench.hosts.errors import HostLost, JobVanished
from pytest_cloudbench.hosts.host import Host, Job

T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")


_NOTED_SKEW_S = 0.5


def started_apart(what: str, skew_s: float | None) -> tuple[str, ...]:
    """Return a condition if these hosts or pairs did not start together: their first and last seconds then differ."""
    if skew_s is None or skew_s <= _NOTED_SKEW_S:
        return ()
    return (f"the {what} started within {skew_s:.1f} s, not together",)


def once_per_host(read: Callable[[Host], T]) -> Callable[[Host], T]:
    """Return ``read`` with its results kept: it is called once for each host."""
    known: WeakKeyDictionary[Host, T] = WeakKeyDictionary()

    def of(host: Host) -> T:
        if host not in known:
            known[host] = read(host)
        return known[host]

    return of


@dataclass(frozen=True)
class ToolRun:
    """A tool that has ended: its exit code, and by name its ``stdout``, ``stderr`` and other files of the job."""

    exit_code: int
    files: dict[str, bytes]


def text_of(files: Mapping[str, bytes], name: str) -> str:
    """Return one of a job's files as text; "" if it is missing."""
    return files.get(name, b"").decode("utf-8", "replace")


def run_tool(
    host: Host,
    argv: Sequence[str],
    *,
    timeout_s: float,
    sudo: bool = False,
    name: str = "tool",
    fetch: Sequence[str] = ("stdout", "stderr"),
    on_output: Callable[[str], None] | None = None,
) -> ToolRun:
    """Run a tool to its end in a new directory on the host, and return its files that match ``fetch``.

    on_output: called with each new piece of its standard output.
    Raises JobTimedOut, a TimeoutError, after ``timeout_s``, and the host's errors. Whatever is raised, Ctrl-C
    included, the tool and everything it started are ended.
    """
    running = host.start_job(argv, sudo=sudo, name=name)
    with cleaned_up(running):
        state = running.wait(timeout_s, on_output=on_output)
        files = running.fetch(fetch)
    return ToolRun(state.exit_code or 0, files)


@contextlib.contextmanager
def cleaned_up(running: Job) -> Iterator[None]:
    """Remove the job's directory after the block; if the block raises, end the job and everything it started first.

    The directory of a lost job remains: it holds all that is known of the job, and the error names it.
    """
    lost = False
    try:
        yield
    except BaseException as error:
        lost = isinstance(error, HostLost | JobVanished)
        with contextlib.suppress(Exception):
            running.kill()
        raise
    finally:
        if not lost:
            with contextlib.suppress(Exception):
                running.cleanup()


def side_by_side(first: Callable[[], T1], second: Callable[[], T2]) -> tuple[T1, T2]:
    """Call both at the same time, and return their results once both have ended.

    Raises the error of the call that failed, that of ``first`` if both did. Do not use one host in both: commands that
    share an SSH connection delay each other by more than a round trip.
    """
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(second)
        return first(), other.result()
