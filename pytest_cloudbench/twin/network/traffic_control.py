"""The kernel's traffic control by rtnetlink: reading a class's figures and changing its rate, within microseconds.

`tc` does the set-up, with commands that a person can read and repeat. This module does what happens many times a second
or at an exact moment. Functions raise `OSError` with the kernel's error number.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from dataclasses import dataclass

from pytest_cloudbench.limits.quantities import Throughput
from pytest_cloudbench.twin import linux
from pytest_cloudbench.twin.network.flow_filter import MAJOR
from pytest_cloudbench.twin.network.shaping import BURST_S, QUANTUM, WHOLE

_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, sender
_CLASS = struct.Struct("=BBHiIII")  # tcmsg: family, padding, interface, class, parent, info
_ATTRIBUTE = struct.Struct("=HH")
# tc_htb_opt: rate and ceiling, then bursts, quantum, level, priority
_HTB = struct.Struct("=" + "BBHhHI" * 2 + "5I")
_NEW_CLASS, _GET_CLASS = 40, 42
_ERROR = 2
_REQUEST, _ACKNOWLEDGE, _ECHO = 1, 4, 8
_KIND, _OPTIONS, _STATS = 1, 2, 7
_BASIC, _QUEUE = 1, 3
_HTB_PARAMETERS, _HTB_RATE_64, _HTB_CEILING_64 = 1, 6, 7
_ETHERNET_LINK = 1
_TICK_NS = 64  # the unit of times in these messages
_NESTED = 0x8000
_MOST_32 = 2**32 - 1
_ANSWER_S = 5.0
_ANSWER_BYTES = 16 * 1024


@dataclass(frozen=True)
class ClassFigures:
    """The counters of a class: bytes sent, packets lost, and how often it had to wait for its rate.

    ``waits`` and ``drops`` wrap at 2**32.
    """

    bytes: int = 0
    drops: int = 0
    waits: int = 0


class ShapedEnd:
    """The class that limits a whole device, in the network namespace of the device.

    It keeps that namespace alive until it is closed.
    """

    def __init__(self, namespace: str, device: str) -> None:
        """``namespace`` is a path such as /proc/PID/ns/net."""
        self.device = device
        self._lock = threading.Lock()
        self._sequence = 0
        self._socket, self._index = _opened_in(namespace, device)
        self._ask = _CLASS.pack(0, 0, 0, self._index, MAJOR << 16 | WHOLE, 0, 0)

    def figures(self) -> ClassFigures:
        """Return its counters since it was made."""
        answer = self._talk(_GET_CLASS, _ECHO, self._ask)  # without the flag only listeners get an answer
        return parse_figures(answer)

    def set_rate(self, rate: Throughput) -> None:
        self._talk(_NEW_CLASS, _ACKNOWLEDGE, rate_message(self._index, rate))

    def close(self) -> None:
        """Release the namespace. A second call does nothing."""
        self._socket.close()

    def _talk(self, kind: int, flags: int, body: bytes) -> bytes:
        with self._lock:
            self._sequence += 1
            head = _HEADER.pack(_HEADER.size + len(body), kind, _REQUEST | flags, self._sequence, 0)
            self._socket.send(head + body)
            while True:
                answer = self._socket.recv(_ANSWER_BYTES)
                _, answered, _, sequence, _ = _HEADER.unpack_from(answer)
                if sequence == self._sequence:  # otherwise it is the late answer to an earlier call
                    break
        if answered == _ERROR:
            number = -struct.unpack_from("=i", answer, _HEADER.size)[0]
            if number:
                raise OSError(number, f"traffic control of {self.device}: {os.strerror(number)}")
        return answer[_HEADER.size :]


@dataclass(frozen=True)
class ShapedEnds:
    """Both shaped ends of an instance's cable; ``port`` is the name of the end at the switch."""

    port: bytes
    egress: ShapedEnd
    ingress: ShapedEnd

    def close(self) -> None:
        self.egress.close()
        self.ingress.close()


def rate_message(interface: int, rate: Throughput) -> bytes:
    """Return the body of the message that changes the rate of an interface's whole class."""
    wide = round(rate.bytes_per_second)
    spec = (0, _ETHERNET_LINK, 0, 0, 0, min(wide, _MOST_32))
    burst = round(BURST_S * 1e9) // _TICK_NS
    options = _attribute(_HTB_PARAMETERS, _HTB.pack(*spec, *spec, burst, burst, QUANTUM, 0, 0))
    if wide > _MOST_32:
        options += _attribute(_HTB_RATE_64, struct.pack("=Q", wide))
        options += _attribute(_HTB_CEILING_64, struct.pack("=Q", wide))
    message = _CLASS.pack(0, 0, 0, interface, MAJOR << 16 | WHOLE, MAJOR << 16, 0)
    return message + _attribute(_KIND, b"htb\0") + _attribute(_OPTIONS | _NESTED, options)


def parse_figures(body: bytes) -> ClassFigures:
    """Return the counters in the kernel's description of a class. Raises ValueError if there are none."""
    stats = _attributes(body[_CLASS.size :]).get(_STATS)
    if stats is None:
        raise ValueError("the kernel's description of the class holds no figures")
    found = _attributes(stats)
    (size,) = struct.unpack_from("=Q", found[_BASIC])
    _, _, drops, _, waits = struct.unpack_from("=5I", found[_QUEUE])
    return ClassFigures(size, drops, waits)


def _attribute(kind: int, content: bytes) -> bytes:
    length = _ATTRIBUTE.size + len(content)
    return _ATTRIBUTE.pack(length, kind) + content + bytes(-length % 4)


def _attributes(data: bytes) -> dict[int, bytes]:
    found = {}
    place = 0
    while place + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, place)
        if length < _ATTRIBUTE.size:
            break
        found[kind & ~_NESTED] = data[place + _ATTRIBUTE.size : place + length]
        place += length + (-length % 4)
    return found


def _opened_in(namespace: str, device: str) -> tuple[socket.socket, int]:
    """Return a netlink socket of that namespace, and the device's number there."""

    def make() -> tuple[socket.socket, int]:
        index = socket.if_nametoindex(device)
        route = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        route.settimeout(_ANSWER_S)
        return route, index

    return linux.in_network_namespace(namespace, make)
