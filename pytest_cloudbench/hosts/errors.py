"""Errors on hosts. Each message names the host, what was tried, and the answer."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from pytest_cloudbench.errors import InfrastructureError, RequestError

_TAIL_CHARS = 2000


class HostError(InfrastructureError):
    """A failure on a host, or on the way to it."""


class HostUnreachable(HostError):
    """The host did not answer in time."""


class HostKeyMismatch(HostError):
    """A machine answered with an unexpected or revoked host key: it may be another machine."""


class UnknownHostKey(HostError):
    """A machine answered with a host key that neither the login nor a known_hosts file names."""


class LoginRefused(HostError):
    """The host answered, but does not let this user log in."""


class ConnectionDropped(HostError):
    """The connection broke while a command ran, so it is unknown whether the command took effect."""


class CommandTimedOut(HostError):
    """A command did not end in time; it may still run on the host."""


class CommandFailed(HostError, RequestError):
    """A command ended with an exit code other than 0."""

    def __init__(self, host: str, argv: Sequence[str], exit_code: int, stdout: str, stderr: str) -> None:
        self.host = host
        self.argv = tuple(argv)
        self.exit_code = exit_code
        self.stdout = stdout
        self.stderr = stderr
        output = (stderr.strip() or stdout.strip())[-_TAIL_CHARS:]
        shown = f": {output}" if output else " and wrote nothing"
        super().__init__(f"on {host}, `{shlex.join(argv)}` ended with exit code {exit_code}{shown}")


class HostLost(HostError):
    """A host that ran a job no longer answers; the state of the job is unknown."""


class JobVanished(HostError):
    """A job ended without an exit code: it was killed, its host was restarted, or the host's disk is full."""


class JobTimedOut(HostError, TimeoutError):
    """A job still ran at its timeout. It was not killed."""


class DeviceNotFound(HostError):
    """The host has no such block device."""


class NotOurs(HostError, RequestError):
    """A device or directory is not proven to be ours: nothing was written to it."""


class FilesystemError(HostError):
    """A file system could not be made, mounted or unmounted."""


class WouldDestroy(FilesystemError, RequestError):
    """The test's request would destroy the content of a device. Nothing was written."""


class MountPointRefused(FilesystemError, RequestError):
    """A file system may not be mounted on this directory. Nothing was written."""


class BadPath(HostError, RequestError, ValueError):
    """A path or a name for a host is empty, or contains a line break or another control character."""


class ToolMissing(HostError):
    """A tool is not on the host and could not be installed."""


class StripeError(HostError):
    """Several devices could not be striped; unless the message says otherwise, nothing was written to them."""
