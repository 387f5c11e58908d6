"""The lease of an instance: it shuts itself down unless its run keeps renewing the lease.

The instance ends even if its run is killed and no other run starts. The timer runs in the instance: user data starts it
at every boot, and a renewal starts it if it does not run. By an option of its launch, EC2 terminates an instance that
shuts itself down, and deletes its volumes with DeleteOnTermination. The run renews all its leases one minute after a
launch, and then after every half lease.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial

from pytest_cloudbench.hosts.host import Host
from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import LaunchedInstance

from .clients import Clients
from .errors import is_temporary
from .waits import gather

log = logging.getLogger(__name__)

LEASE_TAG = "cloudbench:lease-until"
"""Its value on an instance is the end of the lease unless it is renewed, as ISO 8601 in UTC."""
DEFAULT_LEASE_S = 3600.0
RENEWING = "cloudbench-lease"
"""Name of the thread that renews the leases of a run."""

RENEW_WITHIN_S = 30.0
"""How long a host may take to answer when its lease is renewed."""
FIRST_RENEWAL_S = 60.0
"""From a launch to the first renewal: by then most instances answer, and it shows that their timers run."""
SHORTEST_ON_AWS_S = 600.0
"""A boot, a slow launch beside it and a failed renewal or two must fit into one lease."""

# The lease's end is in memory, so that a full disk does not end the lease. It is moved into place, so that the timer
# never reads half of it. It is an uptime, because the clock may be set at any time. The timer is a file, because
# systemd replaces ${...} and $$ in the words of a command. As a systemd service, it outlives cloud-init's service, and
# the kernel does not kill it if a load needs all memory. Without default dependencies systemd starts it before the boot
# has completed, even if the boot fails, and does not stop it when a shutdown begins, which may hang. A forced power-off
# does not wait for disks.
_END = "/run/cloudbench-lease"
_START = f"""end={_END}
read up rest </proc/uptime
echo $((${{up%.*}} + $1)) >$end.new && mv $end.new $end || exit
runs() {{ grep -qsF $end.timer "/proc/$(cat $end.pid 2>/dev/null)/cmdline"; }}
runs && exit
cat >$end.timer <<"EOF" || exit
echo $$ >{_END}.pid
while read up rest </proc/uptime; left=$(($(cat {_END}) - ${{up%.*}})); [ $left -gt 0 ]; do sleep $left; done
for attempt in 1 2 3; do poweroff; sleep 60; done
while :; do poweroff -f -n; sleep 60; done
EOF
if ! [ -d /run/systemd/system ] || ! systemd-run --no-block --quiet --unit=cloudbench-lease \\
    --property=OOMScoreAdjust=-1000 --property=DefaultDependencies=no --property=IgnoreOnIsolate=yes /bin/sh $end.timer
then setsid sh $end.timer </dev/null >/dev/null 2>&1 &
fi
"""
_RENEW = f"""{_START}
for pause in 0 1 2 4; do sleep $pause; runs && exit; done
echo "the timer that ends the instance does not run, and could not be started" >&2
exit 1
"""


def timer_command(lease_s: float) -> list[str]:
    """Return the command that starts an instance's timer; cloud-init runs it early in every boot."""
    return ["sh", "-c", _START, "sh", str(math.ceil(lease_s))]


def renewal_command(lease_s: float) -> list[str]:
    """Return the command that begins a new lease. It starts the timer if none runs, and fails if it cannot."""
    return ["sh", "-c", _RENEW, "sh", str(math.ceil(lease_s))]


def why_alive(lease_ends: Sequence[float], newest: float | None, now: float) -> str:
    """Return why a run may still be going on, by its lease tags and newest resource: a part of a sentence; "" if not.

    All times are in seconds since 1970. A resource newer than the end of every lease shows a run that did not renew its
    tags.
    """
    last_end = max(lease_ends, default=None)
    if last_end is not None and last_end > now:
        return f"its lease ends in {(last_end - now) / 60:.0f} min"
    if newest is None:
        return "" if lease_ends else "its age is unknown"
    age_s = max(0.0, now - newest)
    young = age_s < DEFAULT_LEASE_S and (last_end is None or newest > last_end)
    return f"it is {age_s / 60:.0f} min old" if young else ""


def lease_end(lease_s: float) -> str:
    """Return the value of the tag for a lease that begins now."""
    return datetime.fromtimestamp(time.time() + lease_s, timezone.utc).isoformat(timespec="seconds")


class Leases:
    """Renews the leases of a run's instances. Thread-safe.

    A thread renews them, so that the test is not blocked. A stopped instance has no timer; its next boot begins a new
    lease.
    """

    def __init__(
        self,
        clients: Clients,
        lease_s: float,
        open_host: Callable[[LaunchedInstance], Host],
        others: Callable[[], Iterable[str]],
        refresh: Callable[[LaunchedInstance], LaunchedInstance],
    ) -> None:
        """`open_host` returns a host that may take some seconds to connect.

        `others` returns the ids of resources that last as long as the run: their tag shows that a run without instances
        is alive. `refresh` returns an instance as it is described now.
        """
        self.lease_s = lease_s
        self._clients = clients
        self._open_host = open_host
        self._others = others
        self._refresh = refresh
        self._changed = threading.Condition()
        self._renewing = threading.Lock()
        self._held: dict[str, LaunchedInstance] = {}
        self._failed: set[str] = set()
        self._due = math.inf
        self._closed = False
        self._thread: threading.Thread | None = None

    def hold(self, instances: Iterable[LaunchedInstance]) -> None:
        """Renew the leases of these instances from now on, or replace their descriptions."""
        with self._changed:
            self._held.update((each.id, each) for each in instances)
            if not self._held:
                return
            self._due = min(self._due, time.monotonic() + min(FIRST_RENEWAL_S, self.lease_s / 2))
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._renew_in_time, name=RENEWING, daemon=True)
                self._thread.start()

    def drop(self, instance_ids: Iterable[str]) -> None:
        """Stop renewing the leases of these instances, such as before their removal."""
        with self._changed:
            for each in instance_ids:
                self._held.pop(each, None)

    def extend(self, instance: LaunchedInstance, lease_s: float) -> bool:
        """Begin one last lease of this length. Return False if the instance did not accept it."""
        self.drop([instance.id])
        with self._renewing:  # a renewal in progress would shorten it again
            try:
                self._set_timer(instance, lease_s)
            except Exception as error:
                log.warning("the lease of %s was not extended: %s", instance, error)
                return False
            self._set_tags([instance.id], lease_s)
        return True

    def close(self) -> None:
        """Stop renewing leases."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _renew_in_time(self) -> None:
        while True:
            with self._changed:
                while not self._closed and (left_s := self._due - time.monotonic()) > 0:
                    self._changed.wait(left_s)
                if self._closed:
                    return
                self._due = math.inf
            began = time.monotonic()
            pause_s = self.lease_s / (2 if self.renew() else 16)
            with self._changed:
                self._due = min(self._due, began + pause_s)

    def renew(self) -> bool:
        """Renew all leases now, in tags and timers. Return False if some timer could not be set."""
        with self._renewing:
            return self._renew()

    def _renew(self) -> bool:
        with self._changed:
            # Those that Describe may not show yet come last, so that they do not delay the others.
            held = sorted(self._held.values(), key=lambda each: each.state == "pending")
        self._set_tags([*(each.id for each in held), *self._others()], self.lease_s)
        results = gather([partial(self._set_timer, each, self.lease_s) for each in held])
        failed = {each.id for each, it in zip(held, results, strict=True) if isinstance(it, Exception)}
        for instance, result in zip(held, results, strict=True):
            if isinstance(result, Exception) and instance.id in self._held:
                # A new instance may be booting: the first failure needs no warning.
                level = logging.WARNING if instance.id in self._failed else logging.DEBUG
                log.log(level, "the lease of %s was not renewed, it is tried again: %s", instance, result)
        self._failed = failed
        return not failed & self._held.keys()

    def _as_it_is(self, instance: LaunchedInstance) -> LaunchedInstance:
        """Return an instance, refreshed if it was pending: its launch may still be waiting for another instance."""
        if instance.state == "pending":
            with suppress(CloudError):
                return self._refresh(instance)
        return instance

    def _set_tags(self, ids: Sequence[str], lease_s: float) -> None:
        if not ids:
            return
        try:
            self._clients.call(
                "renew the leases of the run's resources",
                "ec2",
                "create_tags",
                Resources=list(ids),
                Tags=[{"Key": LEASE_TAG, "Value": lease_end(lease_s)}],
            )
        except CloudError as error:
            if len(ids) > 1 and not is_temporary(error):
                # An id that no longer exists fails the whole call: repeat it for each id.
                for each in ids:
                    self._set_tags([each], lease_s)
                return
            # The tag is for users and for `cloudbench reap`; the timer ends the instance.
            log.warning("the tag %s of %s was not renewed: %s", LEASE_TAG, ", ".join(ids), error)

    def _set_timer(self, instance: LaunchedInstance, lease_s: float) -> None:
        """Renew the lease in the instance, if it runs."""
        described = self._as_it_is(instance)
        if described.state != "running":
            return
        host = self._open_host(described)
        try:
            host.run(renewal_command(lease_s), sudo=True, idempotent=True, timeout_s=RENEW_WITHIN_S)
        finally:
            host.close()
