"""Tools on a host: found, or installed by its package manager."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_cloudbench.hosts.errors import CommandFailed, CommandTimedOut, ToolMissing

if TYPE_CHECKING:
    from pytest_cloudbench.hosts.connection import HostConnection

PACKAGES: dict[str, str] = {
    "fio": "fio",
    "iperf3": "iperf3",
    "mkfs.xfs": "xfsprogs",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.btrfs": "btrfs-progs",
    "btrfs": "btrfs-progs",
    "nvme": "nvme-cli",
    "mdadm": "mdadm",
    "pvcreate": "lvm2",
    "vgcreate": "lvm2",
    "lvcreate": "lvm2",
    "ethtool": "ethtool",
    "lsblk": "util-linux",
    "wipefs": "util-linux",
}
"""Package of each tool; the names are the same for dnf and apt."""

_INSTALL_S = 300.0


def find_tool(host: HostConnection, name: str) -> str | None:
    """Path of the tool on the host, or None."""
    said = host.run(["sh", "-c", 'command -v -- "$1"', "sh", name], check=False, idempotent=True)
    path = said.stdout.strip()
    return path if said.exit_code == 0 and path.startswith("/") else None


def ensure_tool(host: HostConnection, name: str) -> str:
    """Path of the tool on the host; installed by dnf, yum or apt-get when missing.

    Raises ToolMissing with the package manager's words.
    """
    path = find_tool(host, name)
    if path is not None:
        return path
    package = PACKAGES.get(name, name)
    for manager, commands in _managers(package):
        if find_tool(host, manager) is None:
            continue
        try:
            for command in commands:
                host.run(command, sudo=True, timeout_s=_INSTALL_S)
        except (CommandFailed, CommandTimedOut) as error:
            raise ToolMissing(
                f"{name} is not on {host.label} and {manager} could not install {package}: {error}"
            ) from error
        path = find_tool(host, name)
        if path is None:
            raise ToolMissing(f"{manager} installed {package} on {host.label}, but {name} is still not there")
        return path
    raise ToolMissing(f"{name} is not on {host.label}, which has neither dnf, yum nor apt-get to install it")


def _managers(package: str) -> list[tuple[str, list[list[str]]]]:
    apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=240"]
    return [
        ("dnf", [["dnf", "-q", "-y", "install", package]]),
        ("yum", [["yum", "-q", "-y", "install", package]]),
        # Package lists of a new image are empty or stale, so they are read first.
        ("apt-get", [[*apt, "update"], [*apt, "install", "--no-install-recommends", package]]),
    ]
