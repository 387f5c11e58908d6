"""The command that ends an embedded instance from inside."""

from __future__ import annotations

import subprocess

import pytest

from pytest_cloudbench.twin.hosts.instance_commands import COMMANDS


@pytest.fixture
def end(tmp_path):
    """Run one of the commands as root, with a kill that only prints its words."""
    for name, line in (("id", "echo 0"), ("kill", 'echo "$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)

    def run(name, *words):
        (tmp_path / name).write_text(COMMANDS[name])
        return subprocess.run(
            ["/bin/sh", str(tmp_path / name), *words],
            env={"PATH": str(tmp_path)},  # without the real kill
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )

    return run


@pytest.mark.parametrize(
    ("command", "signal"),
    [
        (("poweroff",), "USR2"),
        (("poweroff", "-f", "-n"), "USR2"),
        (("poweroff", "--force"), "USR2"),
        (("reboot", "-f"), "USR1"),
        (("shutdown", "-r", "now"), "USR1"),
    ],
)
def test_a_forced_end_is_an_end(end, command, signal):
    assert end(*command).stdout == f"-s {signal} 1\n"


def test_an_unknown_option_is_refused(end):
    done = end("poweroff", "--firmware")
    assert (done.returncode, done.stdout) == (1, "")
    assert "--firmware" in done.stderr
