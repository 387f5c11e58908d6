from __future__ import annotations

from pathlib import Path

import pytest

from pytest_cloudbench.hosts import shell_host
from pytest_cloudbench.hosts.errors import ToolMissing
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
    monkeypatch.setattr(
        shell_host, "_managers", lambda package: [(str(script), [[str(script), "install", package]])]
    )
    return tmp_path


def test_a_missing_tool_is_installed(host: SshHost, manager: Path) -> None:
    tool = manager / "new-tool"
    (manager / "package").write_text(f"echo > {tool}; chmod +x {tool}\n")
    assert host.ensure_tool(str(tool)) == str(tool)
    assert (manager / "calls").read_text() == f"install {tool}\n"
    host.ensure_tool(str(tool))
    assert (manager / "calls").read_text().count("\n") == 1


def test_the_error_of_a_failed_installation_quotes_the_package_manager(host: SshHost, manager: Path) -> None:
    (manager / "package").write_text("echo 'no package rare-tool' >&2; exit 1\n")
    with pytest.raises(ToolMissing, match=r"rare-tool is not on instance i-0test.*no package rare-tool"):
        host.ensure_tool("rare-tool")


def test_a_host_needs_a_package_manager_to_install_tools(
    host: SshHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_host, "_managers", lambda _: [("no-such-manager", [])])
    with pytest.raises(ToolMissing, match="neither dnf, yum nor apt-get"):
        host.ensure_tool("rare-tool")


def test_an_installation_that_takes_too_long_is_a_missing_tool(
    host: SshHost, manager: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_host, "_INSTALL_S", 0.3)
    (manager / "package").write_text("sleep 2\n")
    with pytest.raises(ToolMissing, match=r"rare-tool is not on .* did not end within 0\.3 s"):
        host.ensure_tool("rare-tool")
