from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pytest_cloudbench.hosts import packages
from pytest_cloudbench.hosts.errors import ToolMissing
from pytest_cloudbench.hosts.host import Command, CommandResult
from pytest_cloudbench.hosts.packages import Manager
from pytest_cloudbench.hosts.shell_host import ShellHost
from pytest_cloudbench.hosts.ssh import SshHost


def test_an_installed_tool_is_found(host: SshHost) -> None:
    assert host.ensure_tool("sh").endswith("/sh")
    assert host.find_tool("no-such-tool-at-all") is None


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package manager that writes down its arguments and runs the script that the test put into `package`."""
    script = tmp_path / "manager"
    script.write_text('#!/bin/sh\necho "$*" >> "${0%/*}/calls"\n. "${0%/*}/package"\n')
    script.chmod(0o755)
    monkeypatch.setattr(packages, "MANAGERS", (Manager(str(script), (str(script), "install")),))
    return tmp_path


def test_a_missing_tool_is_installed(host: SshHost, manager: Path) -> None:
    tool = manager / "new-tool"
    (manager / "package").write_text(f"echo > {tool}; chmod +x {tool}\n")
    assert host.ensure_tool(str(tool)) == str(tool)
    assert (manager / "calls").read_text() == f"install {tool}\n"
    host.ensure_tool(str(tool))
    assert (manager / "calls").read_text().count("\n") == 1


def test_the_error_of_a_failed_installation_quotes_the_package_manager(host: SshHost, manager: Path) -> None:
    (manager / "package").write_text("echo 'disk full' >&2; exit 1\n")
    with pytest.raises(ToolMissing, match=r"rare-tool is not on instance i-0test.*disk full"):
        host.ensure_tool("rare-tool")


def test_an_installation_that_takes_too_long_is_a_missing_tool(
    host: SshHost, manager: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "INSTALL_S", 0.3)
    (manager / "package").write_text("sleep 2\n")
    with pytest.raises(ToolMissing, match=r"rare-tool is not on .* did not end within 0\.\d+ s"):
        host.ensure_tool("rare-tool")


SKIPPED_A_REPOSITORY = 106  # of zypper, which has installed the package


@dataclass(eq=False)
class FreshImage(ShellHost):
    """A host whose only package manager is `manager`; each installing command ends with the next of `answers`.

    An answer is an exit code and what the manager writes to its standard error; after the last one it installs `tool`.
    """

    manager: str
    tool: str
    answers: list[tuple[int, str]]
    done: list[str] = field(default_factory=list)
    installed: bool = False

    def __post_init__(self) -> None:
        super().__init__("fresh image")

    def execute(self, command: Command) -> CommandResult:
        if command.argv[0] == "sh":
            name = command.argv[-1]
            found = name == self.manager or (name == self.tool and self.installed)
            return command.result(0 if found else 1, f"/usr/bin/{name}\n".encode() if found else b"", b"")
        assert command.sudo
        self.done.append(" ".join(command.argv))
        code, said = self.answers.pop(0) if self.answers else (0, "")
        self.installed = self.installed or (code in (0, SKIPPED_A_REPOSITORY) and not self.answers)
        return command.result(code, b"", said.encode())


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_LOCKED_PAUSE_S", 0.0)


APT_LISTS_LOCKED = (
    "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 812 (apt-get)\n"
    "E: Unable to lock directory /var/lib/apt/lists/\n"
)
ZYPPER_LOCKED = "System management is locked by the application with pid 1307 (/usr/bin/zypper).\n"


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize(
    ("manager", "locked", "code"), [("apt-get", APT_LISTS_LOCKED, 100), ("zypper", ZYPPER_LOCKED, 7)]
)
def test_a_lock_of_boot_time_updates_is_waited_for(manager: str, locked: str, code: int) -> None:
    host = FreshImage(manager, "fio", [(code, locked), (code, locked), (0, "")])
    assert host.ensure_tool("fio") == "/usr/bin/fio"
    assert host.done[0] == host.done[1] == host.done[2]
    assert host.done[-1].endswith(" fio")


@pytest.mark.usefixtures("no_pauses")
def test_a_lock_that_stays_is_named_with_its_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "INSTALL_S", 0.2)
    host = FreshImage("apt-get", "fio", [(100, APT_LISTS_LOCKED)] * 1_000_000)
    with pytest.raises(ToolMissing, match=r"(?s)fio is not on fresh image.* 0\.2 s.*process 812 \(apt-get\)"):
        host.ensure_tool("fio")


@pytest.mark.parametrize(
    ("manager", "said"),
    [
        ("dnf", "No match for argument: fio\nError: Unable to find a match: fio\n"),
        ("yum", "No package fio available.\n"),
        ("apt-get", "E: Unable to locate package fio\n"),
        ("zypper", "No provider of 'fio' found.\n"),
    ],
)
def test_a_repository_without_the_package_is_named_with_what_to_do(manager: str, said: str) -> None:
    before = [(0, "")] if manager == "apt-get" else []
    host = FreshImage(manager, "fio", [*before, (1, said), (1, said)])
    with pytest.raises(ToolMissing, match=r"(?s)no repository.*EPEL.*PackageHub.*commands=.*fio"):
        host.ensure_tool("fio")


def test_suse_names_some_packages_differently() -> None:
    for tool, package in (("iperf3", "iperf"), ("mkfs.btrfs", "btrfsprogs"), ("mkfs.xfs", "xfsprogs")):
        host = FreshImage("zypper", tool, [])
        assert host.ensure_tool(tool) == f"/usr/bin/{tool}"
        assert host.done == [f"zypper --quiet --non-interactive install --no-recommends {package}"]


def test_a_tool_that_is_there_after_a_warning_of_the_manager_is_used() -> None:
    host = FreshImage("zypper", "fio", [(SKIPPED_A_REPOSITORY, "Repository 'x' was skipped\n")])
    assert host.ensure_tool("fio") == "/usr/bin/fio"


def test_a_host_needs_a_package_manager_to_install_tools() -> None:
    with pytest.raises(ToolMissing, match="dnf, yum, apt-get, zypper"):
        FreshImage("pacman", "fio", []).ensure_tool("fio")
