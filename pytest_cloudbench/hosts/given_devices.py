"""Block devices of existing hosts: a load reads one only if it is proven idle, and writes only if allowed too."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_cloudbench.hosts.content import read_signature
from pytest_cloudbench.hosts.device_facts import DeviceFacts, inspect_devices
from pytest_cloudbench.hosts.devices import directory_instead, in_use, not_to_overwrite
from pytest_cloudbench.hosts.errors import NotOurs
from pytest_cloudbench.hosts.host import Host, operation

_REAL_PATHS = 'for each; do readlink -f -- "$each" || echo; done'


def identity_of(facts: DeviceFacts) -> str:
    """Return the serial number of a device, or a link in /dev/disk/by-id; "" if it has neither."""
    return facts.serial or next(iter(sorted(facts.links, key=len)), "")


@operation("prove_given_device", repeatable=True)
def prove_given_device(
    host: Host,
    path: str,
    *,
    allowed: Sequence[str] | None = None,
    identity: str | None = None,
) -> DeviceFacts:
    """Return the current facts of the device at `path`, once it is proven idle.

    allowed: the paths that the owner of the host allows to overwrite; None for a load that only reads. identity: what
    `identity_of` returned earlier. Raises DeviceNotFound, or NotOurs listing every reason.
    """
    _check_root(host, path)
    (facts,) = inspect_devices(host, [path])
    problems = in_use(facts)
    if identity is not None and identity != identity_of(facts):
        problems.append(f"is now {identity_of(facts) or 'without identity'}, and was {identity} before")
    if allowed is not None:
        problems += not_to_overwrite(facts)
        # Skipped for a device in use, which is refused anyway.
        if not problems and (signature := read_signature(host, facts.path)) is not None:
            problems.append(f"carries {signature}")
        if not _is_allowed(host, facts, allowed):
            named = f"allowed: {', '.join(allowed)}" if allowed else "none is allowed"
            problems.append(
                "is not allowed by the owner of the host: name it with --cloudbench-allow-device, or as "
                f"cloudbench_devices in the inventory ({named})"
            )
    if problems:
        what = "it is not read" if allowed is None else "nothing is written to it"
        raise NotOurs(
            f"{_shown(path, facts)} on {host.label}: {what}: it {', and it '.join(problems)}{directory_instead(facts)}"
        )
    return facts


def _check_root(host: Host, path: str) -> None:
    if host.user != "root" and host.run(["true"], sudo=True, check=False, idempotent=True).exit_code != 0:
        raise NotOurs(
            f"{path} on {host.label}: a raw device needs root, and {host.user} has no sudo without a password there: "
            "allow that, or measure in a directory, which needs no root"
        )


def _is_allowed(host: Host, facts: DeviceFacts, allowed: Sequence[str]) -> bool:
    if not allowed:
        return False
    found = host.run(["sh", "-c", _REAL_PATHS, "sh", *allowed], idempotent=True).stdout.splitlines()
    return facts.path in found


def _shown(path: str, facts: DeviceFacts) -> str:
    identity = identity_of(facts)
    others = ", ".join(
        each for each in (facts.path if facts.path != path else "", identity and f"serial {identity}") if each
    )
    return f"{path} ({others})" if others else path
