"""The end of a host's boot: cloud-init, which installs updates and runs the commands of the user data."""

from __future__ import annotations

import re
import warnings
from contextlib import suppress

from pytest_cloudbench.hosts.errors import CommandTimedOut, HostError
from pytest_cloudbench.hosts.host import Command
from pytest_cloudbench.hosts.shell_host import ShellHost

BOOT_S = 1800.0
"""How long cloud-init may take, including the commands that a test runs at the first boot."""

# An image without cloud-init has nothing to wait for.
_STATUS = "command -v cloud-init >/dev/null || exit 0; exec cloud-init status --wait --long"
_OUTPUT = "/var/log/cloud-init-output.log"
_TAIL_LINES = 15
_FAILED = 1  # cloud-init 23.4 and later exit with 2 after recoverable errors
_COMMANDS = re.compile(r"scripts.user|runcmd|bootcmd")


def wait_for_boot(host: ShellHost, limit_s: float = BOOT_S) -> None:
    """Wait until cloud-init has ended, so that the boot does not disturb an installation or a measurement.

    Raises HostError with the last lines of its output if it still runs after `limit_s`, or if a command of the user
    data failed. Any other failure of cloud-init comes from the image and is a warning.
    """
    argv = ("sh", "-c", _STATUS)
    try:
        status = host.run_unrecorded(Command(argv, host.user, timeout_s=limit_s, idempotent=True))
    except CommandTimedOut:
        raise HostError(
            f"cloud-init on {host.label} still ran after {limit_s:g} s{_last_lines(host)}"
        ) from None
    if status.exit_code != _FAILED:
        return
    said = " ".join(status.stdout.strip(". \n").split())
    sentence = f"cloud-init on {host.label} failed: {said}{_last_lines(host)}"
    if _COMMANDS.search(status.stdout):
        raise HostError(
            f"a command of the first boot failed, so the host is not as the test needs it: {sentence}"
        )
    warnings.warn(sentence, stacklevel=2)


def _last_lines(host: ShellHost) -> str:
    argv = ("tail", "-n", str(_TAIL_LINES), _OUTPUT)
    with suppress(HostError):
        said = host.run_unrecorded(Command(argv, host.user, sudo=True, idempotent=True)).stdout.rstrip()
        if said:
            return "; the last lines of its output:\n" + "\n".join(f"  {line}" for line in said.splitlines())
    return ""
