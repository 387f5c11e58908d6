"""The server uses the compiled core if it was built from this source, and reports which it uses."""

from __future__ import annotations

import json
import pickle
import socket
import subprocess
import sys
from importlib import reload

import pytest

from pytest_cloudbench.twin.volumes import server


def report(**environment):
    """Return whether a server uses the compiled core."""
    device, kernel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control, region = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with device, kernel, control, region:
        ends = device.fileno(), control.fileno()
        command = [sys.executable, "-I", "-S", server.__file__, *map(str, ends)]
        process = subprocess.Popen(command, pass_fds=ends, env=environment)
        try:
            region.settimeout(30)
            region.send(pickle.dumps(("report", {})))
            return json.loads(region.recv(4096))
        finally:
            region.close()
            kernel.close()
            assert process.wait(10) == 0


def test_the_core_is_used_unless_python_is_required(core):
    assert report() == {"compiled": True}
    assert report(CLOUDBENCH_TWIN_CORE="python") == {"compiled": False}


def test_a_core_built_from_another_source_is_not_used(core, monkeypatch):
    from pytest_cloudbench.twin.volumes import compiled

    monkeypatch.setattr(compiled.core, "SOURCE", 1)
    with pytest.raises(ImportError, match="install the package again"):
        reload(compiled)
