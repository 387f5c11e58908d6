"""The page of allowance counters and the command that shows it."""

from __future__ import annotations

import subprocess

import pytest

from pytest_cloudbench.hosts.network_counters import parse_statistics
from pytest_cloudbench.twin.hosts.instance_commands import ALLOWANCES_DIRECTORY, ETHTOOL_COMMAND
from pytest_cloudbench.twin.network.governor import AllowancePage


@pytest.fixture
def ethtool(tmp_path):
    """Run the command with its pages in ``tmp_path`` and a machine's ethtool that prints its arguments."""
    machine = tmp_path / "machine-ethtool"
    machine.write_text('#!/bin/sh\necho "machine:" "$@"\n')
    machine.chmod(0o755)
    script = tmp_path / "ethtool"
    script.write_text(
        ETHTOOL_COMMAND.replace(ALLOWANCES_DIRECTORY, str(tmp_path)).replace(
            "/usr/sbin/ethtool /sbin/ethtool /usr/bin/ethtool", str(machine)
        )
    )

    def run(*arguments):
        done = subprocess.run(
            ["sh", str(script), *arguments], capture_output=True, text=True, timeout=20, check=False
        )
        return done.returncode, done.stdout, done.stderr

    run.machine = machine
    return run


def test_statistics_look_like_the_drivers(ethtool, tmp_path):
    page = AllowancePage(tmp_path / "eth0")
    page.show(3, 2**63)
    assert (tmp_path / "eth0").stat().st_mode & 0o777 == 0o644
    for option in ("-S", "--statistics"):
        code, out, _ = ethtool(option, "eth0")
        assert code == 0
        assert out == (
            "NIC statistics:\n"
            "     bw_in_allowance_exceeded: 3\n"
            "     bw_out_allowance_exceeded: 9223372036854775808\n"
            "     pps_allowance_exceeded: 0\n"
            "     conntrack_allowance_exceeded: 0\n"
            "     linklocal_allowance_exceeded: 0\n"
        )
    assert parse_statistics(out)["bw_in_exceeded"] == 3
    page.show(4, 0)
    assert parse_statistics(ethtool("-S", "eth0")[1])["bw_in_exceeded"] == 4
    page.close()


@pytest.mark.parametrize(
    "arguments",
    [("-i", "eth0"), ("-S", "eth1"), ("-S",), ("eth0",), ("--json", "-S", "eth0"), ("-S", "a/../eth0")],
)
def test_every_other_request_goes_to_the_machines_own(ethtool, tmp_path, arguments):
    AllowancePage(tmp_path / "eth0").close()
    assert ethtool(*arguments)[:2] == (0, f"machine: {' '.join(arguments)}\n")


def test_a_machine_without_ethtool_is_an_error(ethtool):
    ethtool.machine.unlink()
    code, out, error = ethtool("-i", "eth0")
    assert (code, out) == (1, "")
    assert error.startswith("ethtool: answered here is only '-S'")
