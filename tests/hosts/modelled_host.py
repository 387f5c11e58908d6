"""A model of a host: the parts of devices, md, LVM, file systems and udev that striping uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_cloudbench.hosts import content, device_facts, filesystems, stripe_methods
from pytest_cloudbench.hosts.errors import ToolMissing
from pytest_cloudbench.hosts.host import Command, CommandResult
from pytest_cloudbench.hosts.shell_host import ShellHost


@dataclass
class ModelledDevice:
    """A block device of the model; an array consists of its `members`."""

    path: str
    number: str
    size: int
    holders: list[str] = field(default_factory=list)
    members: tuple[str, ...] = ()
    signature: str | None = None


@dataclass(eq=False)
class ModelledHost(ShellHost):
    """Answers the commands of stripes like a host, and keeps in ``done`` those that change something.

    able: the methods of its kernel. assembled_again: how often udev assembles a stopped array again.
    failing: the first words of commands that fail, and their messages.
    """

    able: tuple[str, ...] = ("nodes", "md", "LVM", "btrfs")
    missing_tools: tuple[str, ...] = ()
    assembled_again: int = 0
    failing: dict[str, str] = field(default_factory=dict)
    devices: dict[str, ModelledDevice] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    mounts: dict[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    done: list[str] = field(default_factory=list)
    made: dict[str, int] = field(default_factory=dict)
    serial: int = 0
    label: str = "modelled host"
    user: str = "tester"

    def __post_init__(self) -> None:
        super().__init__(self.label, user=self.user)

    def add(self, path: str, size: int) -> None:
        self.devices[path] = ModelledDevice(path, f"259:{len(self.devices)}", size)

    def ensure_tool(self, name: str) -> str:
        if name in self.missing_tools:
            raise ToolMissing(f"{name} is not on {self.label}, which has neither dnf, yum nor apt-get")
        return f"/usr/sbin/{name}"

    def execute(self, command: Command) -> CommandResult:
        def said(text: str, exit_code: int = 0) -> CommandResult:
            return command.result(exit_code, text.encode(), b"")

        words = list(command.argv)
        script = words[2] if words[:2] == ["sh", "-c"] else ""
        if script == stripe_methods._LOOK:
            return said("\n".join(self.able))
        if script.endswith(device_facts._INSPECT):
            finds = script != device_facts._INSPECT
            paths = [path for path in words[5:] if path in self.devices] if finds else words[4:]
            each = "".join(self._facts(path) for path in paths)
            mounts = "".join(
                # btrfs is mounted under a number of its own.
                f"mount=1 1 0:99 / {at} rw - btrfs {path} rw\nsource={self.devices[path].number} {path}\n"
                if self.devices[path].signature == "btrfs"
                else f"mount=1 1 {self.devices[path].number} / {at} rw - any {path} rw\n"
                for at, path in self.mounts.items()
            )
            root = "mount=2 1 0:23 / / rw - overlay overlay rw\n"  # there always is
            return said(f"{each}device=\n{root}{mounts}")
        if script == content.PROBE:
            return said("next device\n".join([*map(self._signature, words[4:]), ""]))
        if words[0] == "find":
            return said("\n".join(self.files))
        if script == filesystems.CHECK_MOUNT_POINT:
            return said("")
        assert command.sudo, f"{words} changes something and needs root"
        self.done.append(" ".join(words) if not script else "sh")
        if complaint := self.failing.get(words[0]):
            return command.result(1, b"", complaint.encode())
        if script == filesystems.MOUNT:
            self._mount(words[4], words[8])
        elif "umount" in script:
            self._unmount(words[4])
        elif words[0].startswith("/usr/sbin/mkfs."):
            self._make(words[0].partition(".")[2], words[words.index("--") + 1 :])
        elif script == stripe_methods._END:
            self._end_md(words[4], words[5:])
        elif script and "vgremove" in script:
            self._end_lvm(words[4], words[5:])
        elif words[0] in ("mdadm", "pvcreate", "vgcreate", "lvcreate", "wipefs"):
            getattr(self, f"_{words[0]}")(words)
        return said("")

    def _signature(self, path: str) -> str:
        signature = self.devices[path].signature
        uuid = f"UUID={self.label}{self.made[path]}\n" if path in self.made else ""
        return f"TYPE={signature}\n{uuid}exit code=0\n" if signature else "exit code=2\n"

    def _facts(self, path: str) -> str:
        device = self.devices.get(self.links.get(path, path))
        if device is None:
            return f"device={path}\npath={path}\nkind=missing\n"
        lines = [
            f"device={path}",
            f"path={device.path}",
            "kind=block",
            f"number={device.number}",
            f"sectors={device.size // 512}",
            "ro=0",
            *(f"holder={holder}" for holder in device.holders),
            *(f"beside={self.devices[other].number}" for other in self._beside(device.path)),
            *(f"member={self.devices[member].number}" for member in device.members),
        ]
        return "\n".join(lines) + "\n"

    def _array(self, name: str, members: Sequence[str], signature: str) -> None:
        size = sum(self.devices[member].size for member in members) - len(members) * 1024**2
        self.devices[f"/dev/{name}"] = ModelledDevice(
            f"/dev/{name}", f"9:{len(self.devices)}", size, members=tuple(members)
        )
        for member in members:
            self.devices[member].holders = [name]
            self.devices[member].signature = signature

    def _make(self, kind: str, paths: Sequence[str]) -> None:
        self.serial += 1
        for path in paths:
            self.devices[path].signature = kind
            self.made[path] = self.serial

    def _beside(self, path: str) -> list[str]:
        """Return all devices of the file system on this one."""
        mine = self.made.get(path)
        return [other for other, serial in self.made.items() if serial == mine]

    def _mount(self, at: str, path: str) -> None:
        self.mounts[at] = path
        if self.devices[path].signature == "btrfs":
            for member in self._beside(path):
                self.devices[member].holders.append("btrfs")

    def _unmount(self, at: str) -> None:
        path = self.mounts.pop(at)
        if self.devices[path].signature == "btrfs":
            for member in self._beside(path):
                self.devices[member].holders.remove("btrfs")

    def restart(self, *, assembled_as: str | None) -> None:
        """Restart the host: udev may assemble the array again, under another name. The data stay."""
        array = self.devices.pop("/dev/md127")
        self._after_restart = array
        for member in array.members:
            self.devices[member].holders = []
        if assembled_as is not None:
            self._assemble(assembled_as)

    def _assemble(self, name: str) -> None:
        array = self._after_restart
        array.path = f"/dev/{name}"
        self.devices[array.path] = array
        self.made[array.path] = self.made.pop("/dev/md127")
        for member in array.members:
            self.devices[member].holders = [name]

    def _mdadm(self, words: list[str]) -> None:
        members = [word for word in words[2:] if word in self.devices]
        if words[1] == "--assemble":
            self._assemble("md126")
            return
        assert words[1] == "--create"
        assert f"--raid-devices={len(members)}" in words
        self._array("md127", members, "linux_raid_member")

    def _end_md(self, array: str, members: Sequence[str]) -> None:
        if self.devices.pop(array, None) is None:
            return
        for member in members:
            self.devices[member].holders = []
        if self.assembled_again:
            # udev saw the members come free before their superblocks were gone.
            self.assembled_again -= 1
            self._array(f"md{126 - self.assembled_again}", members, "linux_raid_member")
            return
        for member in members:
            self.devices[member].signature = None

    def _pvcreate(self, words: list[str]) -> None:
        for member in words[3:]:
            self.devices[member].signature = "LVM2_member"

    def _vgcreate(self, words: list[str]) -> None:
        self._group = (words[3], words[4:])

    def _lvcreate(self, words: list[str]) -> None:
        name, members = self._group
        assert words[words.index("-i") + 1] == str(len(members))
        self._array("dm-0", members, "LVM2_member")
        self.links[f"/dev/{name}/data"] = "/dev/dm-0"

    def _end_lvm(self, name: str, members: Sequence[str]) -> None:
        self.devices.pop("/dev/dm-0", None)
        self.links.pop(f"/dev/{name}/data", None)
        for member in members:
            self.devices[member].holders = []
            self.devices[member].signature = None

    def _wipefs(self, words: list[str]) -> None:
        for member in words[words.index("--") + 1 :]:
            assert not self.devices[member].holders, f"{member} is held"
            self.made.pop(member, None)
            self.devices[member].signature = None
