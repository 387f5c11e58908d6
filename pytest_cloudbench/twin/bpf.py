"""Small programs for the kernel: assembling, loading and hanging them on a tracepoint. Root only.

Everything made here is a descriptor, so it goes with the process, however that ends. Functions raise `OSError`
where the kernel lacks something or refuses.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
import platform
import re
import struct
from pathlib import Path

# bpf(2) and perf_event_open(2) have no function in the C library.
_CALLS = {"x86_64": (321, 298), "aarch64": (280, 241)}
_MAP_CREATE, _PROG_LOAD = 0, 5
_MAP_TYPE_ARRAY = 2
_MAP_FLAG_MMAPABLE = 1 << 10
_PROG_TYPE_TRACEPOINT = 5
_PERF_TYPE_TRACEPOINT = 2
_PERF_FLAG_CLOEXEC = 8
_PERF_SET_PROGRAM = 0x40042408
_PERF_ENABLE = 0x2400
_LOG_BYTES = 64 * 1024
_FIELD = re.compile(r"field:[^;]*?(\w+)(?:\[\d*\])?;\s*offset:(\d+);\s*size:(\d+);")

_libc = ctypes.CDLL(None, use_errno=True)

_ALU = {
    "add": 0x0,
    "sub": 0x1,
    "mul": 0x2,
    "div": 0x3,
    "and": 0x5,
    "lsh": 0x6,
    "rsh": 0x7,
    "xor": 0xA,
    "mov": 0xB,
}
_JUMPS = {"always": 0x0, "==": 0x1, ">": 0x2, ">=": 0x3, "!=": 0x5, "<": 0xA}
_SIZES = {1: 0x10, 2: 0x08, 4: 0x00, 8: 0x18}
_LOOKUP, _CLOCK = 1, 5  # helpers: bpf_map_lookup_elem, bpf_ktime_get_ns


class Assembler:
    """Instructions in the order in which they are called for; registers are the numbers 0 to 10.

    10 is the frame, 0 what a call answers, 1 to 5 its arguments (lost by the call), 6 to 9 are kept.
    """

    def __init__(self) -> None:
        self._code: list[tuple[int, int, int, int, int]] = []
        self._jumps: dict[int, str] = {}
        self._labels: dict[str, int] = {}

    def _emit(self, code: int, target: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> None:
        self._code.append((code, target, source, offset, value))

    def do(self, operation: str, target: int, value: int) -> None:
        """``target`` = ``target`` operation constant (64 bits wide, the constant 32)."""
        self._emit(_ALU[operation] << 4 | 0x07, target, value=value)

    def do_with(self, operation: str, target: int, source: int) -> None:
        """``target`` = ``target`` operation another register."""
        self._emit(_ALU[operation] << 4 | 0x0F, target, source)

    def set_wide(self, target: int, value: int) -> None:
        """A constant of 64 bits."""
        self._emit(0x18, target, value=value & 0xFFFFFFFF)
        self._emit(0, value=value >> 32)

    def set_map(self, target: int, map_descriptor: int) -> None:
        """The address of a map."""
        self._emit(0x18, target, 1, value=map_descriptor)
        self._emit(0)

    def load(self, target: int, base: int, offset: int, size: int) -> None:
        """``target`` = ``size`` bytes at ``base`` + ``offset``."""
        self._emit(0x61 | _SIZES[size], target, base, offset)

    def store(self, base: int, offset: int, source: int, size: int) -> None:
        """``size`` bytes at ``base`` + ``offset`` = ``source``."""
        self._emit(0x63 | _SIZES[size], base, source, offset)

    def add_to(self, base: int, offset: int, source: int) -> None:
        """Add to the 8 bytes at ``base`` + ``offset``, whoever else does so at the same time."""
        self._emit(0xDB, base, source, offset)

    def jump(self, label: str, condition: str = "always", register: int = 0, value: int = 0) -> None:
        """Go on at ``label`` when the register compares so (unsigned) with the constant."""
        self._jumps[len(self._code)] = label
        self._emit(_JUMPS[condition] << 4 | 0x05, register, value=value)

    def jump_with(self, label: str, condition: str, register: int, other: int) -> None:
        """Go on at ``label`` when the register compares so (unsigned) with the other."""
        self._jumps[len(self._code)] = label
        self._emit(_JUMPS[condition] << 4 | 0x0D, register, other)

    def label(self, name: str) -> None:
        """Name the place of the next instruction."""
        self._labels[name] = len(self._code)

    def look_up(self) -> None:
        """Register 0 = address of the value in the map of register 1 under the key that register 2 points to."""
        self._emit(0x85, value=_LOOKUP)

    def read_clock(self) -> None:
        """Register 0 = nanoseconds since the machine started."""
        self._emit(0x85, value=_CLOCK)

    def leave(self) -> None:
        """End the program with register 0."""
        self._emit(0x95)

    def assembled(self) -> bytes:
        """The program as the kernel takes it."""
        parts = []
        for place, (code, target, source, offset, value) in enumerate(self._code):
            label = self._jumps.get(place)
            skip = offset if label is None else self._labels[label] - place - 1
            parts.append(struct.pack("<BBhI", code, target | source << 4, skip, value & 0xFFFFFFFF))
        return b"".join(parts)


def _call_numbers() -> tuple[int, int]:
    numbers = _CALLS.get(platform.machine())
    if numbers is None:
        raise OSError(f"the numbers of bpf(2) on {platform.machine()} are not known here")
    return numbers


def _bpf(command: int, attributes: bytes) -> int:
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    result = int(_libc.syscall(_call_numbers()[0], command, buffer, len(attributes)))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"bpf({command}): {os.strerror(number)}")
    return result


class Array:
    """An array of values of one size that a program and this process share.

    ``memory`` is the array itself where it was asked for: reading it costs no call.
    """

    def __init__(self, value_bytes: int, entries: int, *, mapped: bool) -> None:
        if value_bytes % 8:
            raise ValueError(f"values of {value_bytes} bytes do not lie side by side: take a multiple of 8")
        flags = _MAP_FLAG_MMAPABLE if mapped else 0
        self.descriptor = _bpf(
            _MAP_CREATE, struct.pack("<5I", _MAP_TYPE_ARRAY, 4, value_bytes, entries, flags)
        )
        self.memory: mmap.mmap | None = None
        if mapped:
            size = -(-value_bytes * entries // mmap.PAGESIZE) * mmap.PAGESIZE
            try:
                self.memory = mmap.mmap(self.descriptor, size)
            except OSError:
                os.close(self.descriptor)
                raise

    def close(self) -> None:
        """Let it go; a program that uses it keeps it until it goes itself."""
        if self.memory is not None:
            self.memory.close()
        os.close(self.descriptor)


def load_program(code: bytes) -> int:
    """A descriptor of a tracepoint program, proven by the kernel to end and to touch only what is its own."""
    instructions = ctypes.create_string_buffer(code, len(code))
    licence = ctypes.create_string_buffer(b"Apache-2.0")
    log = ctypes.create_string_buffer(_LOG_BYTES)
    attributes = struct.pack(
        "<IIQQIIQII", _PROG_TYPE_TRACEPOINT, len(code) // 8, ctypes.addressof(instructions),
        ctypes.addressof(licence), 1, _LOG_BYTES, ctypes.addressof(log), 0, 0,
    )  # fmt: skip
    try:
        return _bpf(_PROG_LOAD, attributes)
    except OSError as error:
        said = log.value.decode(errors="replace").strip().splitlines()
        raise OSError(error.errno, f"{error.strerror}; {' | '.join(said[-3:])}") from error


class Tracepoint:
    """A tracepoint of the kernel: its number and where its fields lie in what a program is given."""

    def __init__(self, description: str) -> None:
        """``description`` is the file ``format`` of the event. Raises `ValueError` for anything else."""
        found = re.search(r"^ID: (\d+)$", description, re.MULTILINE)
        if found is None:
            raise ValueError(f"this is no description of an event: {description[:80]!r}")
        self.number = int(found.group(1))
        self.fields = {name: (int(at), int(size)) for name, at, size in _FIELD.findall(description)}

    @classmethod
    def find(cls, group: str, event: str, tracing: Path) -> Tracepoint:
        """The tracepoint by its name; ``tracing`` is where tracefs is mounted."""
        return cls((tracing / "events" / group / event / "format").read_text())

    def run(self, program: int) -> int:
        """Have the program run whenever it is passed, on every processor; a descriptor that keeps it there."""
        attributes = struct.pack("<IIQQQQQ", _PERF_TYPE_TRACEPOINT, 64, self.number, 1, 0, 0, 0).ljust(
            64, b"\0"
        )
        buffer = ctypes.create_string_buffer(attributes, len(attributes))
        everybody, any_processor, no_group = -1, 0, -1
        descriptor = int(
            _libc.syscall(_call_numbers()[1], buffer, everybody, any_processor, no_group, _PERF_FLAG_CLOEXEC)
        )
        if descriptor < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"perf_event_open: {os.strerror(number)}")
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, descriptor)
            fcntl.ioctl(descriptor, _PERF_SET_PROGRAM, program)
            fcntl.ioctl(descriptor, _PERF_ENABLE, 0)
            undo.pop_all()
        return descriptor
