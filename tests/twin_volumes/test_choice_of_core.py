"""The server uses the compiled core if it was built from this source, and reports which it uses."""

from __future__ import annotations

import fcntl
import json
import os
import pickle
import resource
import socket
import subprocess
import sys
from importlib import reload

import pytest

from pytest_cloudbench.twin.volumes import server


def report(lowest=0, **environment):
    """Return whether a server uses the compiled core. Its descriptors are ``lowest`` or above."""
    device, kernel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control, region = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with device, kernel, control, region:
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, lowest) for end in (device, control)]
        command = [sys.executable, "-I", "-S", server.__file__, *map(str, ends)]
        process = subprocess.Popen(command, pass_fds=ends, env=environment)
        for end in ends:
            os.close(end)
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


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 1200, reason="needs 1,200 descriptors")
@pytest.mark.parametrize("core", ["", "python"])
def test_descriptors_above_those_of_select_are_served(core):
    assert report(lowest=1100, CLOUDBENCH_TWIN_CORE=core).keys() == {"compiled"}


def test_a_core_built_from_another_source_is_not_used(core, monkeypatch):
    from pytest_cloudbench.twin.volumes import compiled

    monkeypatch.setattr(compiled.core, "SOURCE", 1)
    with pytest.raises(ImportError, match="install the package again"):
        reload(compiled)
