"""Every problem that the doctor finds has a remedy."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_cloudbench.twin import doctor
from pytest_cloudbench.twin.volumes import disks

ALWAYS_THERE = {"python", "overlay"}
"""Checks that cannot fail on the machine that runs this test."""


def refuses(command, **_):
    return subprocess.CompletedProcess(command, 1, "", "not permitted")


def is_not_there(command, **_):
    raise FileNotFoundError(2, "No such file or directory", command[0])


def does_not_end(command, timeout, **_):
    raise subprocess.TimeoutExpired(command, timeout)


@pytest.fixture
def worst_machine(monkeypatch):
    """A machine without any tool on which every attempt fails."""
    monkeypatch.setattr(doctor, "_FUSE", "/nowhere/fuse")
    monkeypatch.setattr(disks, "memory_available", lambda: 0)
    monkeypatch.setattr(doctor.subprocess, "run", refuses)
    monkeypatch.setattr(Path, "exists", lambda self: False)
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda _: None)
    return monkeypatch


@pytest.mark.parametrize("user", [0, 1000], ids=["root", "a plain user"])
@pytest.mark.parametrize("tools", [None, "/usr/bin/tool"], ids=["no tools", "tools that fail"])
@pytest.mark.parametrize("program", [refuses, is_not_there, does_not_end])
def test_every_finding_on_the_worst_machine_has_a_remedy(worst_machine, user, tools, program):
    worst_machine.setattr(doctor.subprocess, "run", program)
    worst_machine.setattr(doctor.os, "geteuid", lambda: user)
    worst_machine.setattr(doctor.shutil, "which", lambda _, path=None: tools)
    wrong = [check for check in doctor.examine() if check.state != "ok"]
    assert not [check.name for check in wrong if not check.remedy.strip()]
    assert not [check.name for check in wrong if not check.finding.strip()]


def test_the_worst_machine_fails_every_check(worst_machine):
    """Otherwise the test above would check little."""
    found = set()
    for user in (0, 1000):
        for tools in (None, "/usr/bin/tool"):
            worst_machine.setattr(doctor.os, "geteuid", lambda user=user: user)
            worst_machine.setattr(doctor.shutil, "which", lambda _, path=None, tools=tools: tools)
            found |= {check.name for check in doctor.examine() if check.state != "ok"}
    assert {check.name for check in doctor.examine()} - found <= ALWAYS_THERE


def test_a_python_without_ctypes_has_a_remedy():
    without = "import sys; sys.modules['_ctypes'] = None; from pytest_cloudbench.twin.__main__ import main"
    done = subprocess.run(
        [sys.executable, "-c", f"{without}; sys.exit(main(['doctor']))"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    assert "missing python: 3." in done.stdout
    assert "ctypes" in done.stdout
    assert "remedy: apt-get install -y libffi-dev" in done.stdout


def test_a_container_without_fuse_says_how_to_start_it(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "_FUSE", str(tmp_path / "fuse"))
    check = doctor._fuse()
    assert check.state == "missing"
    assert "No such file" in check.finding
    assert "modprobe fuse" in check.remedy
    assert "--device /dev/fuse" in check.remedy


@pytest.mark.parametrize(("user", "state"), [(0, "missing"), (1000, "ok")])
def test_only_root_can_check_whether_fuse_can_be_opened(monkeypatch, user, state):
    """A container may forbid the device to root. Other users cannot check that."""

    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(doctor.os, "geteuid", lambda: user)
    with monkeypatch.context() as patch:
        patch.setattr(doctor.os, "open", refuse)
        check = doctor._fuse()
    assert check.state == state


def test_fuse_that_can_be_opened_is_ok(monkeypatch, tmp_path):
    (tmp_path / "fuse").touch()
    monkeypatch.setattr(doctor, "_FUSE", str(tmp_path / "fuse"))
    assert doctor._fuse().state == "ok"


def test_every_check_in_the_source_has_a_remedy():
    calls = [
        node
        for node in ast.walk(ast.parse(inspect.getsource(doctor)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Check"
    ]
    wrong = [
        call for call in calls if not (isinstance(call.args[1], ast.Constant) and call.args[1].value == "ok")
    ]
    assert len(wrong) > 10
    for call in wrong:
        assert len(call.args) == 4, ast.unparse(call)
        assert not (isinstance(call.args[3], ast.Constant) and not call.args[3].value), ast.unparse(call)


@pytest.mark.parametrize(("held", "state"), [("000001ffffffffff", "ok"), ("000001fffeffffff", "limited")])
def test_a_machine_that_may_stop_volumes_when_memory_is_short_is_reported(monkeypatch, held, state):
    monkeypatch.setattr(doctor.os, "geteuid", lambda: 0)
    monkeypatch.setattr(doctor.Path, "read_text", lambda _: f"Name:\tx\nCapEff:\t{held}\n")
    check = doctor._waits_for_no_io()
    assert check.state == state
    assert ("SYS_RESOURCE" in check.remedy) == (state == "limited")


def test_a_program_that_only_hosts_find_is_there(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    found = {check.name: check.state for check in doctor.examine()}
    assert found["mkfs.ext4"] == found["sudo"] == "ok"
