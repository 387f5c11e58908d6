"""How workloads use a host: a tool runs as a detached job that leaves nothing behind, and steps run side by side."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from pytest_cloudbench.hosts.errors import HostLost, JobVanished
from pytest_cloudbench.hosts.host import Host, Job

T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")


@dataclass(frozen=True)
class ToolRun:
    """A tool that has ended: its exit code, and by name its ``stdout``, ``stderr`` and other files of the job."""

    exit_code: int
    files: dict[str, bytes]


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
    return ToolRun(state.exit_code if state.exit_code is not None else 0, files)


@contextlib.contextmanager
def cleaned_up(running: Job) -> Iterator[None]:
    """Remove the job's directory after the block; if the block raises, end the job and everything it started first.

    The directory of a job that was lost remains: it is all that is known of it, and the error names it.
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


@overload
def side_by_side(first: Callable[[], T1], second: Callable[[], T2], /) -> tuple[T1, T2]: ...
@overload
def side_by_side(
    first: Callable[[], T1], second: Callable[[], T2], third: Callable[[], T3], /
) -> tuple[T1, T2, T3]: ...
def side_by_side(*steps: Callable[[], Any]) -> tuple[Any, ...]:
    """Call the steps at the same time, and return their results once all have ended.

    Raises the error of the first step in their order that failed. Do not call one host in two steps: commands that
    share an SSH connection delay each other by more than a round trip.
    """
    with ThreadPoolExecutor(len(steps) - 1) as pool:
        others = [pool.submit(step) for step in steps[1:]]
        first = steps[0]()
        return (first, *(each.result() for each in others))
