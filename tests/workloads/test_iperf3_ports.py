from __future__ import annotations

import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.workloads.ports import FIRST_PORT, LAST_PORT, choose_ports, parse_sockets

_TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1451 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 0000
   1: 0100007F:C350 0100007F:1451 01 00000000:00000000 00:00000000 00000000     0        0 12346 1 0000
  sl  local_address                         remote_address                        st tx_queue rx_queue tr
  12: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A 00000000:00000000
garbage: line: here
"""


def test_sockets_are_parsed_from_the_kernels_lists() -> None:
    used, listening = parse_sockets(_TCP)
    assert used == {0x1451, 50000, 22}
    assert listening == {0x1451, 22}


def test_a_real_listener_is_seen() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert port in parse_sockets(Path("/proc/net/tcp").read_text())[1]


@given(st.text(max_size=300))
def test_parsing_never_raises(text: str) -> None:
    parse_sockets(text)
    parse_sockets(f"1: {text}")


@given(
    st.sets(st.integers(FIRST_PORT, LAST_PORT), max_size=200),
    st.integers(1, 64),
    st.integers(FIRST_PORT, LAST_PORT),
)
def test_chosen_ports_are_free_consecutive_and_below_the_ephemeral_range(
    used: set[int], count: int, start: int
) -> None:
    ports = choose_ports(used, count, start=start)
    assert len(ports) == count
    assert list(ports) == list(range(ports[0], ports[0] + count))
    assert not used & set(ports)
    assert ports[0] >= FIRST_PORT
    assert ports[-1] < 32_768


def test_no_port_is_chosen_if_all_are_used() -> None:
    assert choose_ports(range(FIRST_PORT, LAST_PORT + 1), 1, start=FIRST_PORT) == ()
    every_second = range(FIRST_PORT, LAST_PORT + 1, 2)
    assert choose_ports(every_second, 2, start=FIRST_PORT + 100) == ()
    assert choose_ports(every_second, 1, start=LAST_PORT) == (LAST_PORT,)


def test_the_search_goes_on_from_the_first_one() -> None:
    assert choose_ports(set(range(LAST_PORT - 5, LAST_PORT + 1)), 3, start=LAST_PORT - 5) == (
        FIRST_PORT,
        FIRST_PORT + 1,
        FIRST_PORT + 2,
    )


@pytest.mark.parametrize("start", [FIRST_PORT, LAST_PORT - 1, LAST_PORT])
def test_neighbours_never_go_beyond_the_last(start: int) -> None:
    assert choose_ports((), 3, start=start)[-1] <= LAST_PORT
