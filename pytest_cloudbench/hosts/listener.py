"""Who listens to what is done on a host, and how whole pieces of work are told from single commands."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
H = TypeVar("H")


class HostListener(Protocol):
    """Is told of everything that happens on a host; ``host`` is the host's label."""

    def command(
        self,
        host: str,
        argv: Sequence[str],
        *,
        sudo: bool,
        seconds: float,
        exit_code: int | None = None,
        stdout: str = "",
        stderr: str = "",
        error: BaseException | None = None,
    ) -> None:
        """A command ended, or the error ended it."""
        ...

    def job_started(self, host: str, job: str, argv: Sequence[str], *, sudo: bool) -> None:
        """A detached job was started."""
        ...

    def job_ended(self, host: str, job: str, *, exit_code: int | None, seconds: float) -> None:
        """It was seen to have ended, so many seconds after its start."""
        ...

    def operation(self, host: str, name: str, arguments: Sequence[Any], run: Callable[[], T]) -> T:
        """Run a whole piece of work, return what it returns and raise what it raises."""
        ...


def operation(function: Callable[Concatenate[H, P], T]) -> Callable[Concatenate[H, P], T]:
    """Mark a function, whose first argument is a host, as one whole piece of work on it.

    A host with a method ``perform`` is asked to have it done: it may tell a listener, or know the result.
    """

    @functools.wraps(function)
    def done(host: H, /, *args: P.args, **kwargs: P.kwargs) -> T:
        perform = getattr(host, "perform", None)
        if perform is None:
            return function(host, *args, **kwargs)
        # An option that is None is as good as left out, so that one more of them makes it no other piece of work.
        options = {name: value for name, value in kwargs.items() if value is not None}
        arguments = [*args, options] if options else list(args)
        result: T = perform(function.__name__, arguments, functools.partial(function, host, *args, **kwargs))
        return result

    return done
