"""Serve moto on loopback with two corrections, print its address, and end when standard input does."""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any

from moto.core.utils import utcnow
from moto.ec2.models.instances import Instance
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.server import ThreadedMotoServer

start, dispatch, one_at_a_time = Instance.start, DomainDispatcherApplication.__call__, threading.Lock()


def start_with_a_new_launch_time(instance: Any) -> Any:
    """Start as EC2 does: moto leaves the LaunchTime of the first launch."""
    before = start(instance)
    if before.name == "stopped":
        instance.launch_time = utcnow()
    return before


def answer(application: Any, environ: Any, start_response: Any) -> Any:
    """Two of moto's answers written at once now and then end in a 500 ("dictionary changed size during iteration")."""
    with one_at_a_time:
        return dispatch(application, environ, start_response)


Instance.start = start_with_a_new_launch_time
DomainDispatcherApplication.__call__ = answer
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print("http://{}:{}".format(*server.get_host_and_port()), flush=True)
sys.stdin.read()
server.stop()
