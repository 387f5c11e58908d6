"""The process that paces the volumes of one instance: a FUSE server, run as ``python -I -S server.py FUSE CONTROL``.

Each volume is a file of its file system, and a loop device is bound to that file. There is one thread; a second one
gains little. The region sends commands over CONTROL, a sequenced-packet socket: one pickled command per message, with
descriptors, and one JSON object as the answer to each. The process ends when that socket or the file system ends.
"""

from __future__ import annotations

import gc
import json
import math
import os
import pickle
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar

if __name__ == "__main__":  # with -I the package's own directory is not on the path
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from pytest_cloudbench.twin import linux
from pytest_cloudbench.twin.volumes import fuse
from pytest_cloudbench.twin.volumes.figures import StageFigures, VolumeFigures
from pytest_cloudbench.twin.volumes.request_loop import END, MESSAGE, REQUEST
from pytest_cloudbench.twin.volumes.shared_pages import VolumePage, VolumeState

try:
    if os.environ.get("CLOUDBENCH_TWIN_CORE") == "python":
        raise ImportError("the Python implementation is required")
    from pytest_cloudbench.twin.volumes.compiled import Pacer, RequestLoop

    COMPILED = True
except ImportError:
    from pytest_cloudbench.twin.volumes.pacer import Pacer  # type: ignore[assignment]
    from pytest_cloudbench.twin.volumes.request_loop import RequestLoop  # type: ignore[assignment]

    COMPILED = False

_NICE = -20
_PUBLISH_S = 0.05
_MESSAGE_BYTES = 65_536


@dataclass
class _File:
    """A volume as a file of the file system."""

    name: str
    size: int
    backing: int
    page: VolumePage
    state: VolumeState

    def clear(self, offset: int, length: int) -> None:
        """Punch a hole. Raises OSError."""
        linux.punch_hole(self.backing, offset, length)


class Server:
    """Answers the kernel and the region until one of them ends the connection."""

    def __init__(self, device: int, control: socket.socket) -> None:
        self._device = device
        self._control = control
        self._pacer = Pacer()
        self._loop = RequestLoop(self._pacer, device, control.fileno())
        self._files: dict[int, _File] = {}
        self._state: VolumeState | None = None
        self._ended = False

    def run(self) -> None:
        """Serve until the end."""
        publish_at = math.inf
        while not self._ended:
            event, request = self._loop.serve(publish_at)
            if event == REQUEST:
                self._answer_other(request)
            elif event == MESSAGE:
                self._run_command()
            elif event == END:
                return
            now = monotonic()
            if now >= publish_at:
                publish_at = now + _PUBLISH_S if self._publish(now) else math.inf
            elif math.isinf(publish_at):
                publish_at = now + _PUBLISH_S

    def _answer_other(self, request: bytes) -> None:
        _, operation, unique, node = fuse.IN_HEADER(request)
        answer = fuse.answer(operation, unique, node, request[fuse.IN_HEADER_BYTES :], self._files)
        if answer is not None:
            try:
                os.write(self._device, answer)
            except OSError:
                return  # the request was interrupted

    def _publish(self, now: float) -> bool:
        """Publish counters and credits; return True if any request waits."""
        self._pacer.earn(now)
        waiting = 0
        for node, file in self._files.items():
            figures = self._pacer.figures(node, now)
            file.page.show(figures)
            file.state.show_levels(now, self._pacer.levels(node, now))
            waiting += figures.queue_length
        if self._state is not None:
            self._state.show_levels(now, self._pacer.levels(None, now))
        return waiting > 0

    # --- the region's commands -----------------------------------------------------------------------

    def _run_command(self) -> None:
        message, descriptors, _, _ = socket.recv_fds(self._control, _MESSAGE_BYTES, 4)
        if not message:
            self._ended = True
            return
        command, details = pickle.loads(message)  # noqa: S301 - the region started this process
        try:
            answer = self._commands[command](self, *descriptors, **details) or {}
        except Exception as error:  # the other volumes continue
            answer = {"error": repr(error)}
        self._control.send(json.dumps(answer).encode())

    def _limit_instance(self, state: int, *, figures: StageFigures) -> None:
        self._state = VolumeState(state)
        as_of, levels = self._state.levels
        self._pacer.limit_instance(figures, levels, as_of)

    def _attach(
        self, backing: int, page: int, state: int, *, node: int, name: str, size: int, path_s: float,
        figures: VolumeFigures,
    ) -> None:  # fmt: skip
        file = _File(name, size, backing, VolumePage(page), VolumeState(state))
        self._pacer.add(node, backing, file.state, path_s)
        self._files[node] = file
        self._apply(node, figures)

    def _apply(self, node: int, figures: VolumeFigures) -> None:
        as_of, levels = self._files[node].state.levels
        self._pacer.limit_volume(node, figures, levels, as_of)

    def _change(self, *, node: int, size: int, figures: VolumeFigures) -> None:
        self._publish(monotonic())
        self._files[node].size = size
        self._apply(node, figures)

    def _fail(self, *, node: int) -> None:
        self._files[node].size = 0
        self._pacer.fail(node)
        for answer in self._pacer.drop(node):
            self._loop.answer(answer)

    def _detach(self, *, node: int) -> None:
        self._fail(node=node)
        self._publish(monotonic())
        self._pacer.remove(node)
        file = self._files.pop(node)
        file.page.close()
        file.state.close()
        os.close(file.backing)

    def _pace(self, *, paced: bool) -> None:
        self._pacer.paced = paced

    _commands: ClassVar[dict[str, Callable[..., dict[str, Any] | None]]] = {
        "limit instance": _limit_instance,
        "attach": _attach,
        "change": _change,
        "fail": _fail,
        "detach": _detach,
        "pace": _pace,
        "report": lambda _: {"compiled": COMPILED},
    }


def main() -> None:
    """Serve on the descriptors that the command line names."""
    # A region with many descriptors passes high ones. select() accepts none above 1023; dup() returns the lowest free.
    device, control = os.dup(int(sys.argv[1])), socket.socket(fileno=os.dup(int(sys.argv[2])))
    for number in sys.argv[1:3]:
        os.close(int(number))
    linux.hold_deadlines(_NICE)
    os.set_blocking(device, False)
    gc.disable()
    Server(device, control).run()


if __name__ == "__main__":
    main()
