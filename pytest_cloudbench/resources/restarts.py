"""What a test must forget and find again after it stopped, started or rebooted an instance.

Data on EBS volumes survives; mounts do not, and `mounted(...)` mounts a file system again. Data on the instance store
survives a reboot, but not a stop.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pytest_cloudbench.hosts.errors import HostError, HostKeyMismatch, LoginRefused
from pytest_cloudbench.hosts.host import Host

if TYPE_CHECKING:
    from pytest_cloudbench.resources.instance import Instance

_LOOK_AGAIN_S = 0.1
_LONGEST_PAUSE_S = 2.0
_ATTEMPT_S = 10.0
_BOOT = "cat /proc/sys/kernel/random/boot_id /proc/1/stat"


class NotRunning(RuntimeError):
    """The instance is stopped, or did not come back from a restart."""


def boot_identity(host: Host) -> str:
    """Return what differs from boot to boot: the kernel's boot id, and the start of process 1."""
    said = host.run(["sh", "-c", _BOOT], idempotent=True, timeout_s=_ATTEMPT_S).stdout
    kernel, _, process = said.partition("\n")
    return f"{kernel} {process.rpartition(')')[2].split()[19]}"


def forget_what_a_restart_ends(instance: Instance, why: str, *, stopped: bool) -> None:
    """Forget mounts and devices of the instance, and the data on its instance store if it was stopped."""
    for volume in instance.volumes:
        volume.forget_mount(why)
    store = instance.known_store
    if store is not None:
        if stopped:
            store.lose(why)
        else:
            for disk in store:
                disk.forget_mount(why)
            store.look_again()


def find_again(instance: Instance) -> None:
    """Find the volumes and stripes of a restarted instance again."""
    stripes = {id(volume.stripe): volume.stripe for volume in instance.volumes if volume.stripe is not None}
    for volume in instance.volumes:
        if volume.stripe is None:
            volume.look_again()
    store = instance.known_store
    for disk in store or ():
        if disk.stripe is not None:
            stripes[id(disk.stripe)] = disk.stripe
    for stripe in stripes.values():
        stripe.look_again()


def wait_for_reboot(instance: Instance, before: str, timeout_s: float) -> None:
    """Wait until the host answers with a boot identity other than ``before``. Raises NotRunning."""
    deadline = time.monotonic() + timeout_s
    pause_s = _LOOK_AGAIN_S
    last = "it has not restarted yet"
    while time.monotonic() < deadline:
        host = instance.host
        host.expect_reboot()  # an open connection to the old boot may look alive
        try:
            host.connect(_ATTEMPT_S)
            if boot_identity(host) != before:
                return
        except (HostKeyMismatch, LoginRefused):
            raise
        except HostError as error:  # not up yet, or still going down
            last = str(error)
        _refuse_ended(instance)
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
    raise NotRunning(
        f"{instance.launched} did not come back from its reboot within {timeout_s:.0f} s: {last}"
    )


def _refuse_ended(instance: Instance) -> None:
    state = instance.look().state
    if state not in ("running", "pending"):
        raise NotRunning(f"{instance.launched} did not come back from its reboot: it is {state!r}")
