"""Waiting for the end of a boot: on a model of a host, and on a host over SSH."""

from __future__ import annotations

import dataclasses
import warnings

import pytest
from local_sshd import LocalSshd

from pytest_cloudbench.hosts import boot
from pytest_cloudbench.hosts.boot import wait_for_boot
from pytest_cloudbench.hosts.errors import HostError
from pytest_cloudbench.hosts.host import Command, CommandResult
from pytest_cloudbench.hosts.shell_host import ShellHost
from pytest_cloudbench.hosts.ssh import SshHost

RUNCMD_FAILED = """
status: error
boot_status_code: enabled-by-generator
detail:
('scripts_user', RuntimeError('Runparts: 1 failures (runcmd) in 1 attempted commands'))
"""
NTP_FAILED = "\nstatus: error\nextended_status: error - done\nerrors:\n\t- ('ntp', OSError(28))\n"


class Booting(ShellHost):
    """A host whose cloud-init ends with this exit code and says this; None: it never ends."""

    def __init__(self, exit_code: int | None, said: str = "") -> None:
        super().__init__("booting host")
        self.exit_code, self.said = exit_code, said

    def execute(self, command: Command) -> CommandResult:
        if command.argv[0] == "tail":
            assert command.sudo
            return command.result(0, b"curl: (6) Could not resolve host\n", b"")
        if self.exit_code is None:
            raise TimeoutError
        return command.result(self.exit_code, self.said.encode(), b"")


@pytest.mark.parametrize(
    ("exit_code", "said"),
    [(0, ""), (0, "....\nstatus: done\n"), (0, "status: disabled\n"), (2, "status: done\n"), (127, "")],
    ids=["no cloud-init", "done", "disabled", "recovered", "unknown to it"],
)
def test_a_boot_that_has_ended_is_no_more_waited_for(exit_code: int, said: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wait_for_boot(Booting(exit_code, said))


def test_a_failed_command_of_the_first_boot_is_an_error_with_its_last_lines() -> None:
    with pytest.raises(HostError, match=r"(?s)booting host.*runcmd.*Could not resolve host"):
        wait_for_boot(Booting(1, RUNCMD_FAILED))


def test_a_lease_that_could_not_begin_is_an_error() -> None:
    with pytest.raises(HostError, match="bootcmd"):
        wait_for_boot(Booting(1, "status: error\nerrors:\n\t- ('bootcmd', ProcessExecutionError())\n"))


def test_another_failure_of_the_image_is_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"(?s)booting host.*ntp.*Could not resolve host"):
        wait_for_boot(Booting(1, NTP_FAILED))


def test_a_boot_that_does_not_end_is_an_error_with_its_last_lines() -> None:
    with pytest.raises(HostError, match=r"(?s)booting host still ran after 7 s.*Could not resolve host"):
        wait_for_boot(Booting(None), 7.0)


def test_each_boot_is_waited_for_once(sshd: LocalSshd, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(boot, "wait_for_boot", lambda _, limit_s: waited.append(limit_s))
    with sshd.connect() as plain:
        plain.connect()
        login = dataclasses.replace(plain._login, boot_s=9.0)
    assert waited == []
    with SshHost(login) as host:
        host.connect()
        host.reconnect()
        assert waited == [9.0]
        host.expect_reboot()
        host.connect()
        assert waited == [9.0, 9.0]
