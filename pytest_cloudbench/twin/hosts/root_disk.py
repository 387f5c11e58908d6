"""An instance's root disk: the layers over this machine's root file system.

The root of an instance is an overlay. Below are this machine's files, which are never written; above is the instance's
own layer, which is kept between boots. This module makes that layer: it hides this machine's private files (homes,
temporary files, keys, unknown top directories) and adds an image's user, SSH and sudo configuration.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from pytest_cloudbench.twin.hosts.instance_commands import COMMANDS, LOGIN_PATH
from pytest_cloudbench.twin.network.outbound import Outbound

SYSTEM_DIRECTORIES = frozenset(
    ["bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "var", "opt", "nix", "gnu"]
)
_OWN_DIRECTORIES = {
    "dev": 0o755, "proc": 0o555, "sys": 0o555, "run": 0o755, "boot": 0o755, "home": 0o755, "root": 0o700,
    "tmp": 0o1777, "mnt": 0o755, "media": 0o755, "srv": 0o755,
}  # fmt: skip
_HIDDEN_BELOW = {
    "var/tmp": 0o1777, "var/log": 0o755, "var/mail": 0o755, "var/spool/cron": 0o755, "etc/ssh": 0o755,
    "etc/ssl/private": 0o700, "etc/profile.d": 0o755, "etc/sudoers.d": 0o750, "etc/cron.d": 0o755,
}  # fmt: skip
# Mount points of this machine with parts of the system, which need a layer of their own.
_SEPARATE_MOUNTS = ("/usr", "/usr/local", "/var", "/opt", "/nix", "/nix/store", "/gnu/store")
_FIRST_HUMAN_ID = 1000
_LAST_HUMAN_ID = 59_999

_SSHD_CONFIG = """\
AddressFamily inet
HostKey /etc/ssh/ssh_host_ed25519_key
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin no
UsePAM no
UseDNS no
PrintMotd no
PrintLastLog no
X11Forwarding no
MaxStartups 200
MaxSessions 200
AuthorizedKeysFile .ssh/authorized_keys
SetEnv {environment}
Subsystem sftp internal-sftp
PidFile none
"""
_SUDOERS = """\
Defaults secure_path="{path}"
Defaults !requiretty
root ALL=(ALL:ALL) NOPASSWD: ALL
{user} ALL=(ALL:ALL) NOPASSWD: ALL
#includedir /etc/sudoers.d
"""
_PERMISSIVE_PAM = """\
auth sufficient pam_permit.so
account required pam_permit.so
session required pam_permit.so
"""
_NO_PROXY = "localhost,127.0.0.1,169.254.169.254"
_PROXIED = {
    "/etc/apt/apt.conf.d/99cloudbench": (
        'Acquire::http::Proxy "{url}";\nAcquire::https::Proxy "{url}";\nAcquire::http::Pipeline-Depth "0";\n'
    ),
    "/etc/dnf/dnf.conf": "\nproxy={url}\n",
}
_NSSWITCH = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
_PROFILE = 'PATH={path}\nexport PATH\n[ -n "$BASH" ] && [ -r ~/.bashrc ] && . ~/.bashrc\ntrue\n'


@dataclass(frozen=True)
class Layer:
    """One overlay of an instance's root: its mount point and the directories that hold it."""

    at: str
    upper: str
    work: str


def separate_system_mounts(mountinfo: str) -> list[str]:
    """Return the parts of the system that have mounts of their own, shortest path first."""
    points = {line.split()[4] for line in mountinfo.splitlines()}
    return sorted(points.intersection(_SEPARATE_MOUNTS), key=len)


class RootDisk:
    """The writable layers of a new instance below ``directory``, which must allow trusted xattrs."""

    def __init__(
        self,
        directory: Path,
        hostname: str,
        address: str,
        login_user: str,
        authorized_keys: list[str],
        *,
        outbound: Outbound,
    ) -> None:
        mountinfo = Path("/proc/thread-self/mountinfo").read_text()
        self.layers = [
            Layer(at, str(directory / f"upper{number}"), str(directory / f"work{number}"))
            for number, at in enumerate(["/", *separate_system_mounts(mountinfo)])
        ]
        for layer in self.layers:
            Path(layer.upper).mkdir(parents=True)
            Path(layer.upper).chmod(0o755)
            Path(layer.work).mkdir()
        self._hide_private_files()
        self._write_accounts(login_user, authorized_keys)
        self._write_system_files(login_user, address, hostname)
        self._write_outbound(login_user, outbound)
        for name, script in COMMANDS.items():
            self._write(f"/usr/local/sbin/{name}", script, 0o755)

    def _place(self, path: str) -> Path:
        """Return the place of an absolute path of the instance in its layers."""
        layer = max(
            (
                layer
                for layer in self.layers
                if path == layer.at or path.startswith(layer.at.rstrip("/") + "/")
            ),
            key=lambda layer: len(layer.at),
        )
        return Path(layer.upper) / path[len(layer.at) :].lstrip("/")

    def _directory(self, path: str, mode: int | None = None) -> Path:
        """Make a directory and its parents in their layer. Without ``mode`` it has its mode on this machine."""
        place = self._place(path)
        if mode is None:
            known = next((each for each in (place, Path(path)) if each.is_dir()), None)
            mode = stat.S_IMODE(known.stat().st_mode) if known is not None else 0o755
        if not place.exists():
            parent = os.path.dirname(path)
            if parent not in {layer.at for layer in self.layers}:
                self._directory(parent)
            place.mkdir()
        place.chmod(mode)
        return place

    def _hide(self, path: str, mode: int) -> None:
        os.setxattr(self._directory(path, mode), "trusted.overlay.opaque", b"y")

    def _hide_private_files(self) -> None:
        for name, mode in _OWN_DIRECTORIES.items():
            self._hide(f"/{name}", mode)
        for entry in os.scandir("/"):
            if entry.name not in SYSTEM_DIRECTORIES and entry.name not in _OWN_DIRECTORIES:
                os.mknod(self._place(f"/{entry.name}"), stat.S_IFCHR, os.makedev(0, 0))  # a whiteout
        for path, mode in _HIDDEN_BELOW.items():
            if not os.path.islink(f"/{path}"):
                self._hide(f"/{path}", mode)

    def _write(self, path: str, text: str, mode: int = 0o644) -> None:
        self._directory(os.path.dirname(path))
        place = self._place(path)
        place.write_text(text)
        place.chmod(mode)

    def _write_accounts(self, login_user: str, authorized_keys: list[str]) -> None:
        shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
        users = [fields for fields in _machine_lines("/etc/passwd", 7) if fields[0] != login_user]
        groups = [fields for fields in _machine_lines("/etc/group", 4) if fields[0] != login_user]
        for fields in users:
            if fields[0] == "root":
                fields[5], fields[6] = "/root", shell
        for fields in groups:
            fields[3] = ""
        number = str(_FIRST_HUMAN_ID)
        home = f"/home/{login_user}"
        users.append([login_user, "x", number, number, "", home, shell])
        groups.append([login_user, "x", number, ""])
        self._write("/etc/passwd", "".join(":".join(fields) + "\n" for fields in users))
        self._write("/etc/group", "".join(":".join(fields) + "\n" for fields in groups))
        # "*" matches no password but does not lock the account; sshd refuses locked accounts.
        self._write("/etc/shadow", "".join(f"{fields[0]}:*:19000:0:99999:7:::\n" for fields in users), 0o600)
        self._write("/etc/gshadow", "".join(f"{fields[0]}:*::\n" for fields in groups), 0o600)
        self._hide(home, 0o755)
        self._directory(f"{home}/.ssh", 0o700)
        self._write(
            f"{home}/.ssh/authorized_keys", "".join(f"{key.strip()}\n" for key in authorized_keys), 0o600
        )
        for path in (home, f"{home}/.ssh", f"{home}/.ssh/authorized_keys"):
            os.chown(self._place(path), _FIRST_HUMAN_ID, _FIRST_HUMAN_ID)

    def _write_system_files(self, login_user: str, address: str, hostname: str) -> None:
        short = hostname.split(".", maxsplit=1)[0]
        self._write("/etc/hostname", f"{hostname}\n")
        self._write("/etc/hosts", f"127.0.0.1 localhost\n::1 localhost\n{address} {hostname} {short}\n")
        for service in ("sudo", "sudo-i", "su", "su-l"):
            self._write(f"/etc/pam.d/{service}", _PERMISSIVE_PAM)
        self._write("/etc/nsswitch.conf", _NSSWITCH)
        self._write("/etc/resolv.conf", "# an embedded region has no names beyond its hosts\n")
        self._write("/etc/profile", _PROFILE.format(path=LOGIN_PATH))
        self._write("/etc/bash.bashrc", "")
        self._write("/etc/machine-id", os.urandom(16).hex() + "\n")
        self._write("/etc/fstab", "")
        self._write("/etc/environment", "")

    def _write_outbound(self, login_user: str, outbound: Outbound) -> None:
        """Let package managers use the proxy, which explains refusals, and all programs if it allows any host."""
        environment = {"PATH": LOGIN_PATH}
        for manager, text in _PROXIED.items():
            if os.path.isdir(os.path.dirname(manager)):
                own = Path(manager).read_text(encoding="utf-8") if os.path.exists(manager) else ""
                self._write(manager, own + text.format(url=outbound.url))
        if outbound.allows_some:
            environment |= {"http_proxy": outbound.url, "https_proxy": outbound.url, "no_proxy": _NO_PROXY}
        variables = " ".join(f"{name}={value}" for name, value in environment.items())
        kept = " ".join(name for name in environment if name != "PATH")
        self._write("/etc/ssh/sshd_config", _SSHD_CONFIG.format(environment=variables))
        keeps = f'Defaults env_keep += "{kept}"\n' if kept else ""
        self._write("/etc/sudoers", keeps + _SUDOERS.format(user=login_user, path=LOGIN_PATH), 0o440)


def _machine_lines(path: str, count: int) -> list[list[str]]:
    """Return the lines of this machine's passwd or group for system accounts, without those of people."""
    lines = [line.split(":") for line in Path(path).read_text().splitlines()]
    return [
        fields
        for fields in lines
        if len(fields) == count and not _FIRST_HUMAN_ID <= int(fields[2] or 0) <= _LAST_HUMAN_ID
    ]
