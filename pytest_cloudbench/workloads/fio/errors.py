"""What can go wrong between asking fio for a measurement and having one. None of it is a violation."""

from __future__ import annotations

from collections.abc import Sequence


class FioError(Exception):
    """A measurement by fio could not be made."""


class BadFioJob(FioError, ValueError):
    """The job as written cannot be run: nothing was started."""


class UnknownFioOption(BadFioJob):
    """The fio on the host knows no such option."""

    def __init__(self, option: str, version: str, nearest: Sequence[str]) -> None:
        self.option = option
        self.nearest = tuple(nearest)
        hint = f"; nearest: {', '.join(nearest)}" if nearest else ""
        super().__init__(f"{version} knows no option {option!r}{hint}")


class FioRefused(FioError):
    """fio itself said no, or ended with an error; its own words are in the message."""


class FioOutputError(FioError):
    """fio ended well but left output that cannot be read as its JSON."""


class FioTimedOut(FioError):
    """fio was still running long after its run time; it has been ended."""


class TargetError(FioError):
    """The target is not what the job needs: not there, not a block device, too full."""
