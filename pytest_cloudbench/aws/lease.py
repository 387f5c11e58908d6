"""The lease of an instance: it shuts itself down unless its run goes on renewing the lease.

So an instance ends also after a kill -9 of its run, without another run and without this machine. The timer runs in the
instance: user data starts it at every boot. EC2 terminates an instance that shuts itself down, because it was launched
so, and deletes the volumes that go with it. The run renews all its leases each time half of their length is over.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING

from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import LaunchedInstance

from .waits import gather

if TYPE_CHECKING:
    from pytest_cloudbench.hosts.host import Host

    from .clients import Clients

log = logging.getLogger(__name__)

LEASE_TAG = "cloudbench:lease-until"
"""Its value on an instance is when the lease ends unless it is renewed, as ISO 8601 in UTC."""
DEFAULT_LEASE_S = 3600.0
RENEWING = "cloudbench-lease"
"""Name of the thread that renews the leases of a run."""

RENEW_WITHIN_S = 30.0
"""How long a host may take to answer when its lease is renewed."""
# In memory, so that a full disk does not end a lease. Moved into place, so that the timer never reads half of it.
_END = "/run/cloudbench-lease"
_RENEW = f"echo $(($(date +%s) + $1)) >{_END}.new && mv {_END}.new {_END}"
_TIMER = (
    f"{_RENEW}; while left=$(($(cat {_END}) - $(date +%s))); [ $left -gt 0 ]; do sleep $left; done; poweroff"
)
# systemd's service outlives cloud-init's own, and the kernel does not end it if a load needs all memory.
_START = f"""timer='{_TIMER}'
if [ -d /run/systemd/system ] && systemd-run --no-block --quiet --unit=cloudbench-lease \\
    --property=OOMScoreAdjust=-1000 /bin/sh -c "$timer" sh "$1"
then exit 0
fi
setsid sh -c "$timer" sh "$1" </dev/null >/dev/null 2>&1 &
"""


def timer_command(lease_s: float) -> list[str]:
    """Return the command that starts an instance's timer; cloud-init runs it early in every boot."""
    return ["sh", "-c", _START, "sh", str(math.ceil(lease_s))]


def lease_end(lease_s: float) -> str:
    """Return the value of the tag for a lease that begins now."""
    return datetime.fromtimestamp(time.time() + lease_s, timezone.utc).isoformat(timespec="seconds")


class Leases:
    """Renews the leases of a run's instances. Thread-safe.

    A thread renews every half of a lease, so that the test may do anything meanwhile. A stopped instance has no timer;
    its next boot begins a new lease.
    """

    def __init__(
        self, clients: Clients, lease_s: float, open_host: Callable[[LaunchedInstance], Host]
    ) -> None:
        """`open_host` returns a host that may take some seconds to connect."""
        self.lease_s = lease_s
        self._clients = clients
        self._open_host = open_host
        self._lock = threading.Lock()
        self._held: dict[str, LaunchedInstance] = {}
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self, instances: Iterable[LaunchedInstance]) -> None:
        """Renew the leases of these from now on, or note how they are described now."""
        with self._lock:
            self._held.update((each.id, each) for each in instances)
            if self._thread is None and self._held:
                self._thread = threading.Thread(target=self._renew_in_time, name=RENEWING, daemon=True)
                self._thread.start()

    def drop(self, instance_ids: Iterable[str]) -> None:
        """Renew the leases of these no more: they are being removed."""
        with self._lock:
            for each in instance_ids:
                self._held.pop(each, None)

    def close(self) -> None:
        """Renew no more leases."""
        self._closed.set()

    def _renew_in_time(self) -> None:
        pause_s = self.lease_s / 2
        while not self._closed.wait(pause_s):
            pause_s = self.lease_s / (2 if self.renew() else 16)

    def renew(self) -> bool:
        """Renew all leases now, in tag and timer. Return False if some timer could not be set."""
        with self._lock:
            held = list(self._held.values())
        if held:
            try:
                self._clients.call(
                    "renew the leases of the run's instances",
                    "ec2",
                    "create_tags",
                    Resources=[each.id for each in held],
                    Tags=[{"Key": LEASE_TAG, "Value": lease_end(self.lease_s)}],
                )
            except (
                CloudError
            ) as error:  # the tag is for people and for `cloudbench reap`; the timer ends the instance
                log.warning("the tag %s was not renewed: %s", LEASE_TAG, error)
        running = [each for each in held if each.state == "running"]
        results = gather([partial(self._set_timer, each) for each in running])
        failed = False
        for instance, result in zip(running, results, strict=True):
            if isinstance(result, Exception) and instance.id in self._held:
                failed = True
                log.warning("the lease of %s was not renewed, it is tried again: %s", instance, result)
        return not failed

    def _set_timer(self, instance: LaunchedInstance) -> None:
        host = self._open_host(instance)
        try:
            host.run(
                ["sh", "-c", _RENEW, "sh", str(math.ceil(self.lease_s))],
                sudo=True,
                idempotent=True,
                timeout_s=RENEW_WITHIN_S,
            )
        finally:
            host.close()
