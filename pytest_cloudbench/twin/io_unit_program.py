"""The program that counts I/Os in the kernel as EBS does; `io_units` loads it and reads what it counts.

At every read and write that passes the throttle it notes where the I/O ended and how full its unit is. One that
begins where another ended goes on filling that unit; any other begins a new one; what is larger fills several.
"""

from __future__ import annotations

import struct

from pytest_cloudbench.twin import bpf

LOOP_MAJOR = 7
MINORS = 4096  # loop devices beyond are not looked at
# What follows on is looked for among so many I/Os before it. On a small file random I/O passes
# for a sequel now and then, so it is not believed before the third one in a row; a stream that was believed is found
# again among many others.
_NEAR_IOS, _FAR_IOS = 256, 4096
# And what is read again and again at random comes after any of its neighbours as soon as after itself. So the one
# before must be so many times (a power of two) more recent than the last I/O of the same place.
_MORE_RECENT_BITS = 4
STREAM_BITS = 16  # of the table that all devices share; far more places than I/Os that are looked for
# A device: its unit in sectors, the window of time in ns (0: nothing is merged), then units and pieces of its reads
# and of its writes, how many I/Os it has seen, one spare.
DEVICE = struct.Struct("<8Q")
_UNIT, _WINDOW, COUNTS_AT, _OF_WRITES, _SEEN = 0, 8, 16, 16, 48
# A stream: the sector where it ended, the time, device and direction, how full its unit is in sectors, how many I/Os
# the device had seen, how many followed on (at most three; another number once something else goes on from here), and
# units counted too many if another one does.
STREAM_BYTES = 40
_END, _TIME, _WHOSE, _FILL, _SEEN_THEN, _SEQUELS, _TOO_MANY = 0, 8, 16, 20, 24, 32, 36
# Where the program keeps what does not fit in its registers.
_KEY, _DIRECTION, _MY_UNIT, _MY_WINDOW, _MY_FILL = -4, -16, -24, -32, -40
_NOW, _MY_SEEN, _MY_SEQUELS, _MY_TOO_MANY, _SAME_PLACE = -48, -56, -64, -72, -80
_BELIEVED, _GONE_ON_FROM = 3, 4


def unit_counter(queued: bpf.Tracepoint, devices: int, streams: int) -> bytes:
    """What is done at every I/O, at the tracepoint block_bio_queue.

    Registers: 6 is the device's counts of reads or of writes, 7 device and direction, 8 the I/O's sectors, 9 its
    first sector.
    """
    code = bpf.Assembler()
    sectors, size = queued.fields["nr_sector"]
    code.load(8, 1, sectors, size)
    code.jump("end", "==", 8, 0)  # a flush alone
    code.load(9, 1, *queued.fields["sector"])
    _find_device(code, queued, devices)
    _count_piece(code)
    _continue_stream(code, streams)
    _count_units(code)
    _note_stream(code, streams)
    _end(code)
    return code.assembled()


def split_counter(split: bpf.Tracepoint, devices: int) -> bytes:
    """What is done when an I/O is split, at the tracepoint block_split: the throttle counts the rest once more."""
    code = bpf.Assembler()
    _find_device(code, split, devices)
    _count_piece(code)
    _end(code)
    return code.assembled()


def _end(code: bpf.Assembler) -> None:
    code.label("end")
    code.do("mov", 0, 0)
    code.leave()


def _find_device(code: bpf.Assembler, tracepoint: bpf.Tracepoint, devices: int) -> None:
    """Go on with reads and writes of loop devices that are watched, and with nothing else."""
    letters, _ = tracepoint.fields["rwbs"]
    code.load(7, 1, *tracepoint.fields["dev"])
    code.do_with("mov", 2, 7)
    code.do("rsh", 2, 20)
    code.jump("end", "!=", 2, LOOP_MAJOR)
    code.do("and", 7, (1 << 20) - 1)
    code.jump("end", ">=", 7, MINORS)
    code.load(2, 1, letters, 1)
    code.jump("direction", "!=", 2, ord("F"))  # of a flush that goes before
    code.load(2, 1, letters + 1, 1)
    code.label("direction")
    code.do("mov", 3, 0)
    code.jump("known", "==", 2, ord("R"))
    code.do("mov", 3, 1)
    code.jump("end", "!=", 2, ord("W"))
    code.label("known")
    code.store(10, _DIRECTION, 3, 8)
    code.store(10, _KEY, 7, 4)
    code.do("lsh", 3, 20)
    code.do_with("add", 7, 3)
    _look_up(code, devices)
    code.do_with("mov", 6, 0)
    code.load(3, 6, _UNIT, 8)
    code.jump("end", "==", 3, 0)  # nobody's, or another region's
    code.store(10, _MY_UNIT, 3, 8)
    code.load(3, 6, _WINDOW, 8)
    code.store(10, _MY_WINDOW, 3, 8)
    code.load(3, 6, _SEEN, 8)
    code.store(10, _MY_SEEN, 3, 8)
    code.do("mov", 3, 1)
    code.add_to(6, _SEEN, 3)
    code.load(2, 10, _DIRECTION, 8)
    code.jump("counts", "==", 2, 0)
    code.do("add", 6, _OF_WRITES)
    code.label("counts")


def _count_piece(code: bpf.Assembler) -> None:
    code.do("mov", 2, 1)
    code.add_to(6, COUNTS_AT + 8, 2)


def _continue_stream(code: bpf.Assembler, streams: int) -> None:
    """How full the unit is that this I/O goes on with; one that begins anew finds a full one."""
    code.load(3, 10, _MY_UNIT, 8)
    code.store(10, _MY_FILL, 3, 8)
    code.do("mov", 3, 0)
    code.store(10, _MY_SEQUELS, 3, 8)
    code.store(10, _MY_TOO_MANY, 3, 8)
    code.read_clock()
    code.store(10, _NOW, 0, 8)
    _find_same_place(code, streams)
    _find_stream(code, streams)
    code.load(2, 0, _END, 8)
    code.jump_with("apart", "!=", 2, 9)
    code.load(2, 0, _WHOSE, 4)
    code.jump_with("apart", "!=", 2, 7)
    code.load(2, 10, _NOW, 8)
    code.load(3, 0, _TIME, 8)
    code.do_with("sub", 2, 3)
    code.load(3, 10, _MY_WINDOW, 8)
    code.jump_with("apart", ">=", 2, 3)
    code.load(2, 0, _SEQUELS, 4)
    code.jump("apart", "==", 2, _GONE_ON_FROM)
    code.load(2, 10, _MY_SEEN, 8)
    code.load(3, 0, _SEEN_THEN, 8)
    code.do_with("sub", 2, 3)
    code.jump("apart", ">", 2, _FAR_IOS)
    code.do_with("mov", 3, 2)
    code.do("lsh", 3, _MORE_RECENT_BITS)
    code.load(4, 10, _SAME_PLACE, 8)
    code.jump_with("apart", ">", 3, 4)
    code.jump("near", "<", 2, _NEAR_IOS + 1)
    code.load(2, 0, _SEQUELS, 4)
    code.jump("apart", "!=", 2, _BELIEVED)
    code.label("near")
    for held, place in ((_MY_FILL, _FILL), (_MY_TOO_MANY, _TOO_MANY)):
        code.load(2, 0, place, 4)
        code.store(10, held, 2, 8)
    code.load(2, 0, _SEQUELS, 4)
    code.do("add", 2, 1)
    code.jump("few", "<", 2, _BELIEVED)
    code.do("mov", 2, _BELIEVED)
    code.label("few")
    code.store(10, _MY_SEQUELS, 2, 8)
    code.do("mov", 2, _GONE_ON_FROM)
    code.store(0, _SEQUELS, 2, 4)
    code.label("apart")


def _find_same_place(code: bpf.Assembler, streams: int) -> None:
    """How many I/Os ago the last one ended where this one will: very many where none is known."""
    code.do("mov", 2, -1)
    code.store(10, _SAME_PLACE, 2, 8)
    code.do_with("add", 9, 8)
    _find_stream(code, streams)
    code.load(2, 0, _END, 8)
    code.jump_with("elsewhere", "!=", 2, 9)
    code.load(2, 0, _WHOSE, 4)
    code.jump_with("elsewhere", "!=", 2, 7)
    code.load(2, 10, _MY_SEEN, 8)
    code.load(3, 0, _SEEN_THEN, 8)
    code.do_with("sub", 2, 3)
    code.store(10, _SAME_PLACE, 2, 8)
    code.label("elsewhere")
    code.do_with("sub", 9, 8)


def _count_units(code: bpf.Assembler) -> None:
    """The units that this I/O and what went before fill together, without the one that is counted already.

    Sequels are counted as if they stood alone until they are believed; that one takes back what was too many.
    """
    code.load(4, 10, _MY_FILL, 8)
    code.do_with("add", 4, 8)
    _divide_up(code, 4)
    code.do("sub", 2, 1)
    code.do_with("mov", 5, 2)
    code.do_with("mul", 5, 3)
    code.do_with("sub", 4, 5)
    code.store(10, _MY_FILL, 4, 8)
    code.load(4, 10, _MY_SEQUELS, 8)
    code.jump("alone", "==", 4, 0)
    code.jump("doubted", "!=", 4, _BELIEVED)
    code.load(4, 10, _MY_TOO_MANY, 8)
    code.do_with("sub", 2, 4)
    code.label("alone")
    code.do("mov", 4, 0)
    code.jump("sum")
    code.label("doubted")
    code.do_with("mov", 5, 2)
    _divide_up(code, 8)
    code.load(4, 10, _MY_TOO_MANY, 8)
    code.do_with("add", 4, 2)
    code.do_with("sub", 4, 5)
    code.label("sum")
    code.store(10, _MY_TOO_MANY, 4, 8)
    code.add_to(6, COUNTS_AT, 2)


def _note_stream(code: bpf.Assembler, streams: int) -> None:
    code.do_with("add", 9, 8)
    _find_stream(code, streams)
    code.store(0, _END, 9, 8)
    code.store(0, _WHOSE, 7, 4)
    for held, place, size in (
        (_NOW, _TIME, 8),
        (_MY_SEEN, _SEEN_THEN, 8),
        (_MY_FILL, _FILL, 4),
        (_MY_SEQUELS, _SEQUELS, 4),
        (_MY_TOO_MANY, _TOO_MANY, 4),
    ):
        code.load(2, 10, held, 8)
        code.store(0, place, 2, size)


def _divide_up(code: bpf.Assembler, sectors: int) -> None:
    """Register 2 = the register's sectors in units, rounded up; register 3 = the unit."""
    code.load(3, 10, _MY_UNIT, 8)
    code.do_with("mov", 2, sectors)
    code.do_with("add", 2, 3)
    code.do("sub", 2, 1)
    code.do_with("div", 2, 3)


def _find_stream(code: bpf.Assembler, streams: int) -> None:
    """Register 0 = the place for a stream of register 7's device that ends at the sector in register 9."""
    code.set_wide(2, 0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: spreads neighbours far apart
    code.do_with("mov", 3, 7)
    code.do("lsh", 3, 42)
    code.do_with("xor", 3, 9)
    code.do_with("mul", 3, 2)
    code.do("rsh", 3, 64 - STREAM_BITS)
    code.store(10, _KEY, 3, 4)
    _look_up(code, streams)


def _look_up(code: bpf.Assembler, array: int) -> None:
    """Register 0 = the array's value under the key on the frame; without one there is nothing more to do."""
    code.set_map(1, array)
    code.do_with("mov", 2, 10)
    code.do("add", 2, _KEY)
    code.look_up()
    code.jump("end", "==", 0, 0)
