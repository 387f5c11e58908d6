"""Ctrl-C while a run is being set up and taken down: it ends as interrupted, and nothing is left of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from inner_runs import HEAD, LIMIT_S, start_pytest
from leftovers import gone, leftovers

pytestmark = [pytest.mark.embedded, pytest.mark.alone]

RUN = f"""{HEAD}
def test_it(ebs_volume):
    ebs_volume.mounted("xfs")
"""
INTERRUPTING = """
import functools
import importlib
import os
import pathlib
import signal
import threading

module, _, name = {called!r}.rpartition(":")
owner = functools.reduce(getattr, name.split(".")[:-1], importlib.import_module(module))
real = getattr(owner, name.split(".")[-1])
reached = pathlib.Path("reached")


@functools.wraps(real)
def interrupted(*arguments, **options):
    if {word!r} in str(arguments[1:]) and not reached.exists():
        reached.touch()
        threading.Timer({after_s}, os.kill, (os.getpid(), signal.SIGINT)).start()
    return real(*arguments, **options)


setattr(owner, name.split(".")[-1], interrupted)
"""
MOMENTS = {
    "region start": ("pytest_cloudbench.launcher:_ready_line", "", 0.3),
    "launch": ("pytest_cloudbench.aws.cloud:Cloud.launch_many", "", 0.1),
    "boot": ("pytest_cloudbench.hosts.ssh:SshHost.connect", "", 0.01),
    "attach": ("pytest_cloudbench.aws.cloud:Cloud.attach_all", "", 0.03),
    "mkfs": ("pytest_cloudbench.hosts.ssh:SshHost.run", "mkfs.xfs", 0.01),
    "test teardown": ("pytest_cloudbench.resources.ec2:Ec2.close", "", 0.01),
    "run teardown": ("pytest_cloudbench.aws.cloud:Cloud.close", "", 0.05),
    "region teardown": ("pytest_cloudbench.launcher:LeasedRegion.close", "", 0.05),
}
"""What is going on -> the call that does it, a word of its arguments, and how long after its start Ctrl-C comes."""


@pytest.mark.usefixtures("_cloudbench_cloud")  # this session's own region is up all the while
@pytest.mark.parametrize(("called", "word", "after_s"), MOMENTS.values(), ids=MOMENTS)
def test_nothing_is_left_of_a_run_interrupted_during(
    tmp_path: Path, called: str, word: str, after_s: float
) -> None:
    before = leftovers()
    (tmp_path / "conftest.py").write_text(INTERRUPTING.format(called=called, word=word, after_s=after_s))
    output, _ = (process := start_pytest(tmp_path, RUN)).communicate(timeout=LIMIT_S)
    assert (tmp_path / "reached").exists(), output
    # Python 3.11 can be interrupted at an instruction of no line, and pytest then fails to show where that was.
    shown = "in lineno" not in output or "TypeError: unsupported operand" not in output
    assert process.returncode == (2 if shown else 1), output
    assert "KeyboardInterrupt" in output
    gone(before)
    journals = tmp_path / "state" / "cloudbench" / "journal"
    assert not journals.exists() or not list(journals.iterdir()), "a journal: something was not removed"
