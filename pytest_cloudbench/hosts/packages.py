"""Installing a missing tool by the host's package manager, which boot-time updates may keep locked for minutes."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_cloudbench.hosts.errors import CommandFailed, CommandTimedOut, ToolMissing
from pytest_cloudbench.hosts.phases import phase
from pytest_cloudbench.hosts.shell_host import ShellHost

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
"""Package of each tool, as most package managers name it. A tool that is not listed has a package of its own name."""

INSTALL_S = 600.0
"""How long an installation may take, with the wait for locks of other installations."""
_LOCKED_PAUSE_S = 2.0
# apt-get about its package lists, which DPkg::Lock::Timeout does not cover, and about its database; zypper.
_LOCKED = re.compile(
    r"could not get lock|unable to lock directory|is locked by the application", re.IGNORECASE
)
_NO_PACKAGE = re.compile(
    r"no match for argument|unable to find a match|no package \S+ available|unable to locate package|"
    r"no installation candidate|no provider of|not found in package names",
    re.IGNORECASE,
)
_ELSE = "install it in the image, or by commands= at the first boot, for example a static build; docs/aws.md has more"


@dataclass(frozen=True)
class Manager:
    """A package manager: its command, what it runs to install a package, and the packages that it names differently."""

    command: str
    install: Sequence[str]
    before: Sequence[Sequence[str]] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    def steps(self, package: str) -> Iterator[list[str]]:
        """Return the commands that install the package."""
        yield from map(list, self.before)
        yield [*self.install, self.names.get(package, package)]

    def by_hand(self, package: str) -> str:
        """Return the command that a person would type."""
        return f"{self.command} install {self.names.get(package, package)}"


_APT = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=240")
MANAGERS: tuple[Manager, ...] = (
    Manager("dnf", ("dnf", "-q", "-y", "install")),
    Manager("yum", ("yum", "-q", "-y", "install")),
    # The package lists of a new image are empty or stale.
    Manager("apt-get", (*_APT, "install", "--no-install-recommends"), before=((*_APT, "update"),)),
    Manager(
        "zypper",
        ("zypper", "--quiet", "--non-interactive", "install", "--no-recommends"),
        names={"iperf3": "iperf", "btrfs-progs": "btrfsprogs"},
    ),
)


def install(host: ShellHost, tool: str) -> str:
    """Install a tool that the host lacks and return its path.

    Waits while another installation locks the package manager. Raises ToolMissing with the manager's message, or with
    instructions if the run does not install tools on this host.
    """
    package = PACKAGES.get(tool, tool)
    manager = next((each for each in MANAGERS if host.find_tool(each.command) is not None), None)
    if not host.installs_tools:
        by = f" by `sudo {manager.by_hand(package)}`" if manager is not None else ""
        raise ToolMissing(
            f"{tool} is not on {host.label}, and nothing is installed on a machine that the run did not create: "
            f"install it{by}, or let the run do it with --cloudbench-install-tools"
        )
    if manager is None:
        known = ", ".join(each.command for each in MANAGERS)
        raise ToolMissing(f"{tool} is not on {host.label}, which has none of {known} to install it: {_ELSE}")
    deadline = time.monotonic() + INSTALL_S
    try:
        with phase(f"install {package} on {host.label}"):
            for step in manager.steps(package):
                _run_unlocked(host, step, deadline)
    except (CommandFailed, CommandTimedOut) as error:
        # zypper may install a package and still fail, because it skipped some repository.
        if isinstance(error, CommandFailed) and (path := host.find_tool(tool)) is not None:
            return path
        sentence = f"{tool} is not on {host.label} and {manager.command} could not install {package}"
        said = error.stdout + error.stderr if isinstance(error, CommandFailed) else ""
        if _NO_PACKAGE.search(said):
            raise ToolMissing(
                f"{sentence}, because no repository of this host has it: enable one that has (EPEL for RHEL and Amazon "
                f"Linux 2, universe for Ubuntu, PackageHub for SLES), or {_ELSE}: {error}"
            ) from error
        if _LOCKED.search(said):
            raise ToolMissing(
                f"{sentence}, because another installation kept it locked for {INSTALL_S:g} s: {error}"
            ) from error
        raise ToolMissing(f"{sentence}: {error}") from error
    path = host.find_tool(tool)
    if path is None:
        raise ToolMissing(
            f"{manager.command} installed {package} on {host.label}, but {tool} is still missing"
        )
    return path


def _run_unlocked(host: ShellHost, argv: Sequence[str], deadline: float) -> None:
    """Run a command as root; retry it while it fails because of a lock. Raises CommandFailed or CommandTimedOut."""
    while True:
        try:
            host.run(argv, sudo=True, timeout_s=max(0.1, deadline - time.monotonic()))
            return
        except CommandFailed as error:
            locked = _LOCKED.search(error.stdout + error.stderr)
            if not locked or time.monotonic() + _LOCKED_PAUSE_S >= deadline:
                raise
        time.sleep(_LOCKED_PAUSE_S)
