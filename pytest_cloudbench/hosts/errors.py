"""What can go wrong on a host. Each message says which host, what was tried, and what it answered."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from pytest_cloudbench.errors import InfrastructureError, RequestError

_TAIL_CHARS = 2000


class HostError(InfrastructureError):
    """Something on a host, or on the way to it, did not work."""


class HostUnreachable(HostError):
    """The host did not answer within its time."""


class HostKeyMismatch(HostError):
    """Somebody answered with another host key than the instance was given: not the host we launched."""


class LoginRefused(HostError):
    """The host answered, but does not accept our key for this user."""


class ConnectionDropped(HostError):
    """The connection broke while a command ran; whether it took effect is not known. It is not repeated."""


class CommandTimedOut(HostError):
    """A command did not end within its time."""


class CommandFailed(HostError, RequestError):
    """A command ended with another exit code than 0."""

    def __init__(self, host: str, argv: Sequence[str], exit_code: int, stdout: str, stderr: str) -> None:
        self.host = host
        self.argv = tuple(argv)
        self.exit_code = exit_code
        self.stdout = stdout
        self.stderr = stderr
        words = (stderr.strip() or stdout.strip())[-_TAIL_CHARS:]
        said = f": {words}" if words else ", saying nothing"
        super().__init__(f"on {host}, `{shlex.join(argv)}` ended with exit code {exit_code}{said}")


class HostLost(HostError):
    """A host that ran a job does not answer any more; what became of the job is not known."""


class JobVanished(HostError):
    """A job is gone without an exit code: it was killed, or its host was restarted."""


class JobTimedOut(HostError, TimeoutError):
    """A job was still running when its time was over. It has not been ended."""


class DeviceNotFound(HostError):
    """The host shows no such block device."""


class NotOurs(HostError, RequestError):
    """A device is not proven to be the one that was meant: nothing is written to it."""


class FilesystemError(HostError):
    """A file system could not be made or mounted."""


class ToolMissing(HostError):
    """A tool is not on the host and could not be installed."""


class StripeError(HostError):
    """Several devices could not be made one; none of them was written to unless the message says so."""
