from __future__ import annotations

import contextlib
import dataclasses
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from iperf3_recordings import VERSIONS, as_written, document, files, kinds_of, parsed

from pytest_cloudbench.workloads.iperf3.errors import Iperf3Error, Iperf3OutputError, Iperf3Refused
from pytest_cloudbench.workloads.iperf3.output import (
    CLIENT,
    SERVER,
    ProcessFiles,
    iperf3_words,
    parse_output,
)
from pytest_cloudbench.workloads.iperf3.streams import pair_streams, read_streams, summed

_RUNS = [
    (version, kind)
    for version in VERSIONS
    for kind in kinds_of(version)
    if kind in ("tcp", "reverse", "bidir", "udp", "udp-reverse", "udp-bidir")
]
_RATE_MBIT = {"tcp": 400, "reverse": 400, "bidir": 200, "udp": 40, "udp-reverse": 20, "udp-bidir": 20}
"""The requested rate of each recorded run, over all its streams of one direction."""
_STREAMS = {"udp-reverse": 1, "udp-bidir": 1}


def _parse(output: bytes | None, *, stderr: str = "", exit_code: int | None = 0) -> Any:
    return parse_output(ProcessFiles(output, stderr, exit_code), role=CLIENT, reverse=False)


@pytest.mark.parametrize(("version", "kind"), _RUNS)
def test_runs_of_every_version_are_parsed_at_both_ends(version: str, kind: str) -> None:
    client, server = (parsed(version, kind, role) for role in (CLIENT, SERVER))
    assert client.version == server.version == f"iperf {version}"
    assert client.error is None
    assert server.error is None
    assert client.cpu_percent is not None
    assert server.cpu_percent is not None
    assert client.other_cpu_percent == pytest.approx(server.cpu_percent, abs=0.01)
    pairings = pair_streams(1, client, server)
    ways = {True, False} if "bidir" in kind else {"reverse" not in kind}
    assert {each.from_client for each in pairings} == ways
    for way in ways:
        mine = [each for each in pairings if each.from_client == way]
        assert len(mine) == _STREAMS.get(kind, 2)
        assert all(each.sent is not None and each.received is not None for each in mine)
        assert all(each.sent.port == each.received.port for each in mine if each.sent and each.received)
        streams, series = read_streams(mine, step_s=1.0, compression=1.0)
        # The omitted first second is not in it, nor what trickled in after the end.
        assert series.seconds == (1.0, 2.0, 3.0)
        sent = summed([stream.sent for stream in streams])
        assert sent is not None
        # The eldest begin late.
        assert sent.mbit == pytest.approx(_RATE_MBIT[kind], rel=0.05 if version == "3.1.3" else 0.02)
        # The loopback of a busy machine loses a third of the eldest's UDP, which asks for no larger buffers.
        if not ("udp" in kind and version == "3.1.3"):
            received = summed([stream.received for stream in streams])
            assert received is not None
            assert received.mbit == pytest.approx(_RATE_MBIT[kind], rel=0.03)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_received_rate_agrees_with_iperf3s_own(version: str) -> None:
    end = document(version, "tcp", SERVER)["end"]["sum_received"]
    pairings = pair_streams(1, parsed(version, "tcp", CLIENT), parsed(version, "tcp", SERVER))
    streams, _ = read_streams(pairings, step_s=1.0, compression=1.0)
    received = summed([stream.received for stream in streams])
    assert received is not None
    assert received.bytes_per_second * 8 == pytest.approx(end["bits_per_second"], rel=0.005)


@pytest.mark.parametrize("version", ["3.7", "3.9"])
def test_both_directions_of_versions_whose_sums_hold_only_one(version: str) -> None:
    pairings = pair_streams(1, parsed(version, "bidir", CLIENT), parsed(version, "bidir", SERVER))
    for way in (True, False):
        streams, series = read_streams(
            [each for each in pairings if each.from_client == way], step_s=1.0, compression=1.0
        )
        known = [stream.retransmits for stream in streams]
        assert sum(each for each in known if each is not None) == sum(series.retransmits)
        assert all(stream.rtt_s is not None and stream.rtt_s < 0.1 for stream in streams)


def test_each_figure_comes_from_the_end_that_knows_it() -> None:
    pairings = pair_streams(1, parsed("3.12", "tcp", CLIENT), parsed("3.12", "tcp", SERVER))
    stream = read_streams(pairings, step_s=1.0, compression=1.0)[0][0]
    assert stream.retransmits is not None
    assert stream.rtt_s == pytest.approx(30e-6, abs=30e-6)
    assert stream.cwnd_bytes == pytest.approx(1.18e6, rel=0.5)
    assert len(stream.series.rtt_s) == len(stream.series.cwnd_bytes) == 3
    assert stream.jitter_s is None
    assert stream.lost_packets is None
    assert stream.lost_percent is None

    pairings = pair_streams(1, parsed("3.1.3", "udp", CLIENT), parsed("3.1.3", "udp", SERVER))
    stream = read_streams(pairings, step_s=1.0, compression=1.0)[0][0]
    assert stream.retransmits is None
    assert stream.rtt_s is None
    assert (stream.lost_packets, stream.packets) == (272, 868)
    assert stream.lost_percent == pytest.approx(31.3364, abs=0.001)
    assert stream.jitter_s == pytest.approx(86e-6, abs=1e-6)
    assert sum(stream.series.lost_packets) == 272
    # iperf3's own sum of this version calls what was sent received.
    assert stream.sent is not None
    assert stream.received is not None
    assert stream.received.bytes_per_second < 0.75 * stream.sent.bytes_per_second


def test_streams_are_paired_by_port_in_any_order() -> None:
    turned = document("3.12", "tcp", SERVER)
    for interval in turned["intervals"]:
        interval["streams"].reverse()
    server = parse_output(ProcessFiles(as_written(turned)), role=SERVER, reverse=False)
    pairings = pair_streams(1, parsed("3.12", "tcp", CLIENT), server)
    assert [each.sent.port for each in pairings if each.sent] == [
        each.received.port for each in pairings if each.received
    ]


def test_streams_with_translated_ports_are_paired_by_order() -> None:
    translated = document("3.12", "tcp", SERVER)
    for each in translated["start"]["connected"]:
        each["remote_port"] += 1000
    server = parse_output(ProcessFiles(as_written(translated)), role=SERVER, reverse=False)
    pairings = pair_streams(1, parsed("3.12", "tcp", CLIENT), server)
    assert len(pairings) == 2
    assert all(each.sent and each.received for each in pairings)


def test_the_servers_output_inside_the_clients_is_used() -> None:
    both = document("3.12", "tcp", CLIENT)
    both["server_output_json"] = document("3.12", "tcp", SERVER)
    client = parse_output(ProcessFiles(as_written(both)), role=CLIENT, reverse=False)
    pairings = pair_streams(1, client, None)
    assert len(pairings) == 2
    assert all(each.sent and each.received for each in pairings)


def test_without_the_servers_output_the_clients_figures_count() -> None:
    pairings = pair_streams(1, parsed("3.12", "tcp", CLIENT), None)
    streams, series = read_streams(pairings, step_s=1.0, compression=1.0)
    received = summed([stream.received for stream in streams])
    assert received is not None
    assert received.mbit == pytest.approx(400, rel=0.01)
    assert series.throughput == series.sent
    streams, _ = read_streams(
        pair_streams(1, parsed("3.12", "udp", CLIENT), None), step_s=1.0, compression=1.0
    )
    assert streams[0].packets == 229


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_that_was_killed_leaves_the_clients_intervals_and_its_error(version: str) -> None:
    client = parsed(version, "server-killed", CLIENT)
    assert client.error == "control socket has closed unexpectedly"
    pairings = pair_streams(1, client, None)
    streams, series = read_streams(pairings, step_s=1.0, compression=1.0)
    assert len(streams) == 2
    assert series.seconds == (1.0, 2.0, 3.0)
    with pytest.raises(Iperf3Refused, match="killed by signal 9"):
        parsed(version, "server-killed", SERVER)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_that_was_killed_leaves_the_servers_intervals(version: str) -> None:
    server = parsed(version, "client-killed", SERVER)
    assert server.error == "the client has unexpectedly closed the connection"
    streams, series = read_streams(pair_streams(1, None, server), step_s=1.0, compression=1.0)
    assert [stream.from_client for stream in streams] == [True, True]
    assert [stream.sent for stream in streams] == [None, None]
    assert len(series) == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_an_interrupted_client_has_written_its_intervals(version: str) -> None:
    client = parsed(version, "client-interrupted", CLIENT)
    assert client.error is not None
    assert client.error.startswith("the client has terminated")
    _, series = read_streams(pair_streams(1, client, None), step_s=1.0, compression=1.0)
    assert series.seconds == (1.0, 2.0, 3.0)


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("3.1.3", "unable to connect to server: Connection refused"),
        ("3.7", "unable to connect to server: Connection refused"),
        ("3.9", "unable to send control message: Bad file descriptor"),  # no error in its JSON
        ("3.12", "unable to connect to server: Connection refused"),  # with an exit code of 0
        ("3.16", "firewall issue, etc.: Connection refused"),
        ("3.22", "firewall issue, etc.: Connection refused"),
    ],
)
def test_a_missing_server_is_an_error_without_intervals(version: str, words: str) -> None:
    client = parsed(version, "refused", CLIENT)
    assert client.error is not None
    assert client.error.endswith(words)
    assert not client.error.startswith("error")
    assert not client.measured


@pytest.mark.parametrize("version", VERSIONS)
def test_a_missing_congestion_control_is_reported_in_iperf3s_words(version: str) -> None:
    error = parsed(version, "bad-congestion", CLIENT).error
    assert error is not None
    assert error.startswith("unable to set TCP_CONGESTION: Supplied congestion control algorithm")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_refused_option_is_reported_without_usage_text(version: str) -> None:
    with pytest.raises(Iperf3Refused) as caught:
        parse_output(files(version, "bad-window", CLIENT), role=CLIENT, reverse=False)
    assert str(caught.value) == (
        "iperf3 ended with exit code 1 and without a result: socket buffer size too large (maximum = 536870912 bytes)"
    )


def test_text_before_the_json_is_skipped() -> None:
    notes = "warning: TCP congestion control algorithm not supported\nUsing {braces} too\n"
    found = document("3.12", "tcp", CLIENT)
    output = _parse(as_written(found, notes))
    assert output == _parse(as_written(found))
    assert len(output.flows) == 2


def test_text_after_the_json_is_ignored() -> None:
    assert len(_parse(as_written(document("3.12", "tcp", CLIENT)) + b"iperf3: done\n{}").flows) == 2


def test_an_error_beside_good_intervals_is_kept_with_them() -> None:
    broken = document("3.12", "tcp", CLIENT)
    broken["error"] = "interrupt - the client has terminated"
    output = _parse(as_written(broken))
    assert output.error == "the client has terminated"
    assert output.measured


def test_empty_intervals_are_no_flows() -> None:
    empty = document("3.12", "tcp", CLIENT)
    empty["intervals"] = []
    assert not _parse(as_written(empty)).measured


def test_omitted_intervals_alone_measure_nothing() -> None:
    omitted = document("3.12", "tcp", CLIENT)
    for interval in omitted["intervals"]:
        for stream in interval["streams"]:
            stream["omitted"] = True
    assert not _parse(as_written(omitted)).measured


def test_null_is_unknown_and_an_interval_without_length_is_skipped() -> None:
    strange = document("3.12", "tcp", CLIENT)
    first = strange["intervals"][1]["streams"][0]
    first.update(rtt=None, retransmits=None, snd_cwnd=None)
    for stream in strange["intervals"][2]["streams"]:
        late = {**stream, "start": stream["start"], "end": stream["start"], "bytes": 0}
        strange["intervals"].insert(2, {"streams": [late]})
    flow = _parse(as_written(strange)).flows[0]
    assert (flow.intervals[0].rtt_s, flow.intervals[0].retransmits) == (None, None)
    assert len(flow.intervals) == 3


@pytest.mark.parametrize(
    ("version", "kind", "role"),
    [("3.12", "server-killed", CLIENT), ("3.22", "client-interrupted", SERVER)],
)
def test_the_last_interval_that_an_interrupted_run_repeats_counts_once(
    version: str, kind: str, role: str
) -> None:
    assert len(document(version, kind, role)["intervals"]) == 4
    for flow in parsed(version, kind, role).flows:
        assert [round(each.end_s) for each in flow.intervals] == [1, 2, 3]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"bytes": -1}, "holds -1 bytes"),
        ({"bytes": None}, "holds None bytes"),
        ({"bytes": float("nan")}, "holds nan bytes"),
        ({"start": 0.0, "end": 1.0}, "after one that ended"),
        ({"start": 1.5}, "after one that ended at 1"),
        ({"start": 2.5, "end": 1.5}, "lasts from 2.5 to 1.5 s"),
        ({"end": None}, "lasts from"),
        ({"end": 1e9}, "lasts from"),
        ({"bytes": 5}, "but its total is"),
    ],
)
def test_an_interval_that_is_wrong_is_refused(changes: dict[str, Any], why: str) -> None:
    strange = document("3.12", "tcp", CLIENT)
    strange["intervals"][2]["streams"][0].update(changes)
    with pytest.raises(Iperf3OutputError, match=re.escape(why)):
        _parse(as_written(strange))


@pytest.mark.parametrize("lost", [1, 2])
def test_a_missing_interval_is_refused(lost: int) -> None:
    strange = document("3.12", "tcp", CLIENT)
    del strange["intervals"][lost]
    with pytest.raises(Iperf3OutputError, match="after one that ended"):
        _parse(as_written(strange))


@pytest.mark.parametrize("output", [None, b""])
def test_missing_output_is_reported(output: bytes | None) -> None:
    with pytest.raises(Iperf3OutputError, match="wrote no output"):
        _parse(output)


def test_truncated_output_is_reported() -> None:
    whole = as_written(document("3.12", "tcp", CLIENT))
    with pytest.raises(Iperf3OutputError, match="damaged or cut off after"):
        _parse(whole[: len(whole) // 2])


@pytest.mark.parametrize(
    "output", [b"{}", b'{"start": {}}', b'{"intervals": []}', b'{"start":{},"intervals":{}}']
)
def test_json_without_the_expected_keys_is_reported(output: bytes) -> None:
    with pytest.raises(Iperf3OutputError, match="'start' or the list 'intervals'"):
        _parse(output)


def test_an_error_alone_is_reported_in_iperf3s_words() -> None:
    with pytest.raises(
        Iperf3Refused, match=r"^iperf3 ended without a result: unable to create a new stream$"
    ):
        _parse(b'{"error": "error - unable to create a new stream"}')


@pytest.mark.parametrize("intervals", [[1], [{}], [{"streams": 3}], [{"streams": None}]])
def test_invalid_intervals_are_reported(intervals: list[Any]) -> None:
    strange = document("3.12", "tcp", CLIENT)
    strange["intervals"] = intervals
    with pytest.raises(Iperf3OutputError, match="holds an invalid value"):
        _parse(as_written(strange))


def test_a_signal_is_named_if_nothing_was_written() -> None:
    with pytest.raises(Iperf3Refused, match="killed by signal 9"):
        _parse(b"", exit_code=137)


def test_an_error_on_stderr_is_used_if_the_json_has_none() -> None:
    # Version 3.9 writes its errors there, in the middle of a run too.
    client = parsed("3.9", "server-killed", CLIENT)
    assert "error" not in document("3.9", "server-killed", CLIENT)
    assert client.error == "control socket has closed unexpectedly"


def test_a_warning_of_a_successful_run_is_no_error() -> None:
    output = as_written(document("3.12", "tcp", CLIENT))
    assert _parse(output, stderr="warning: no window scaling").error is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("iperf3: error - the server has terminated", "the server has terminated"),
        ("iperf3: parameter error - bad\nUsage: iperf3 [-s]\n  -p port", "bad"),
        ("iperf3: interrupt - x\niperf3: interrupt - x", "x"),
        ("sh: iperf3: not found", "sh: iperf3: not found"),
        ("", "it gave no reason"),
        ("\n \n", "it gave no reason"),
    ],
)
def test_prefixes_are_removed_from_iperf3s_errors(text: str, words: str) -> None:
    assert iperf3_words(text) == words


@given(
    version=st.sampled_from(VERSIONS),
    role=st.sampled_from((CLIENT, SERVER)),
    cut=st.integers(0, 20_000),
    flips=st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 255)), max_size=3),
)
def test_damaged_output_gives_an_iperf3_error_or_a_result(
    version: str, role: str, cut: int, flips: list[tuple[int, int]]
) -> None:
    whole = as_written(document(version, "bidir" if version != "3.1.3" else "tcp", role))
    data = bytearray(whole[:cut] if cut % 2 else whole)
    for at, byte in flips:
        if data:
            data[at % len(data)] = byte
    with contextlib.suppress(Iperf3Error):
        output = parse_output(ProcessFiles(bytes(data)), role=role, reverse=False)
        client, server = (output, None) if role == CLIENT else (None, output)
        streams, series = read_streams(pair_streams(1, client, server), step_s=1.0, compression=60.0)
        assert all(math.isfinite(rate.bytes_per_second) for rate in series.throughput)
        assert all(stream.throughput.bytes_per_second >= 0 for stream in streams)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(
    key=st.sampled_from(("socket", "start", "end", "bytes", "retransmits", "rtt", "omitted", "sender")),
    value=_JSON,
)
def test_a_strange_value_in_a_stream_gives_an_iperf3_error_or_a_result(key: str, value: Any) -> None:
    strange = document("3.12", "tcp", CLIENT)
    strange["intervals"][1]["streams"][0][key] = value
    with contextlib.suppress(Iperf3Error):
        read_streams(pair_streams(1, _parse(as_written(strange)), None), step_s=1.0, compression=1.0)


@given(key=st.sampled_from(("start", "intervals", "end", "error", "server_output_json")), value=_JSON)
def test_a_strange_value_at_the_top_gives_an_iperf3_error_or_a_result(key: str, value: Any) -> None:
    strange = document("3.22", "udp", CLIENT)
    strange[key] = value
    with contextlib.suppress(Iperf3Error):
        read_streams(pair_streams(1, _parse(as_written(strange)), None), step_s=1.0, compression=1.0)


def test_a_stream_unknown_to_one_end_does_not_take_another_streams_figures() -> None:
    client, server = parsed("3.12", "tcp", CLIENT), parsed("3.12", "tcp", SERVER)
    first, *others = client.flows
    missing = dataclasses.replace(
        server, flows=tuple(flow for flow in server.flows if flow.port != first.port)
    )
    pairings = pair_streams(1, client, missing)
    assert len(pairings) == len(client.flows)
    assert pairings[0].sent is first
    assert pairings[0].received is None
    for pairing, mine in zip(pairings[1:], others, strict=True):
        assert pairing.received is not None
        assert pairing.received.port == mine.port
