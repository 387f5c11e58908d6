"""Ctrl-C while a run is being set up and taken down: it ends as interrupted, and nothing is left of it."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
from inner_runs import HEAD, Ended, finish, start_pytest
from leftovers import Leftover, gone

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
HOST = "ssm:SsmHost" if os.environ.get("CLOUDBENCH_TEST_ACCESS") == "ssm" else "ssh:SshHost"
MOMENTS = {
    "region start": ("pytest_cloudbench.launcher:_ready_line", "", 0.3),
    "launch": ("pytest_cloudbench.aws.cloud:Cloud.launch_many", "", 0.1),
    "boot": (f"pytest_cloudbench.hosts.{HOST}.connect", "", 0.01),
    "attach": ("pytest_cloudbench.aws.cloud:Cloud.attach_all", "", 0.03),
    "mkfs": (f"pytest_cloudbench.hosts.{HOST}.run", "mkfs.xfs", 0.01),
    "test teardown": ("pytest_cloudbench.resources.ec2:close_factories", "", 0.01),
    "run teardown": ("pytest_cloudbench.aws.cloud:Cloud.close", "", 0.05),
    "region teardown": ("pytest_cloudbench.launcher:LeasedRegion.close", "", 0.05),
}
"""What is going on -> the call that does it, a word of its arguments, and how long after its start Ctrl-C comes."""


def interrupt(called: str, word: str, after_s: float, folder: Path) -> Ended:
    (folder / "conftest.py").write_text(INTERRUPTING.format(called=called, word=word, after_s=after_s))
    return finish(start_pytest(folder, RUN), folder)


RUNS = {name: partial(interrupt, *moment) for name, moment in MOMENTS.items()}


@pytest.mark.fault("kill", "Ctrl-C from the region's start to its end")
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_run_ends_as_interrupted_during(ended: dict[str, Ended], moment: str) -> None:
    folder, code, output, _ = ended[moment]
    assert (folder / "reached").exists(), output
    # Python 3.11 can be interrupted at an instruction of no line, and pytest then fails to show where that was.
    shown = "in lineno" not in output or "TypeError: unsupported operand" not in output
    assert code == (2 if shown else 1), output
    assert "KeyboardInterrupt" in output
    journals = folder / "state" / "cloudbench" / "journal"
    assert not journals.exists() or not list(journals.iterdir()), "a journal: something was not removed"


@pytest.mark.fault("kill", "Ctrl-C from the region's start to its end", leak=True)
@pytest.mark.usefixtures("ended")
def test_nothing_is_left_of_any(before: set[Leftover]) -> None:
    gone(before)
