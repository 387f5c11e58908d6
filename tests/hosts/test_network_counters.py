from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.hosts.errors import CommandTimedOut, ToolMissing
from pytest_cloudbench.hosts.network_counters import (
    COUNTERS,
    AllowanceSnapshot,
    NoAllowanceCounters,
    parse_statistics,
    read_allowances,
)
from pytest_cloudbench.hosts.ssh import SshHost
from pytest_cloudbench.verdicts.counters import AllowanceDelta

ENA = """\
NIC statistics:
     total_resets: 0
     tx_timeout: 0
     suspend: 0
     bw_in_allowance_exceeded: 17
     bw_out_allowance_exceeded: 4242
     pps_allowance_exceeded: 3
     conntrack_allowance_exceeded: 2
     conntrack_allowance_available: 136812
     linklocal_allowance_exceeded: 1
     queue_0_tx_cnt: 3245
     queue_0_rx_cnt: 99
"""

counts = st.integers(min_value=0, max_value=2**64 - 1)
snapshots = st.fixed_dictionaries(dict.fromkeys(COUNTERS, counts))


def test_only_the_five_counters_are_read() -> None:
    assert parse_statistics(ENA) == {
        "bw_in_exceeded": 17,
        "bw_out_exceeded": 4242,
        "pps_exceeded": 3,
        "conntrack_exceeded": 2,
        "linklocal_exceeded": 1,
    }


def test_an_early_driver_without_connection_counters_is_read_too() -> None:
    early = "\n".join(
        line for line in ENA.splitlines() if "conntrack" not in line and "linklocal" not in line
    )
    assert set(parse_statistics(early)) == {"bw_in_exceeded", "bw_out_exceeded", "pps_exceeded"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no stats available\n",
        "NIC statistics:\n     peer_ifindex: 7\n     rx_queue_0_xdp_packets: 0\n",
        "NIC statistics:\n     bw_in_allowance_exceeded: 17\n",
        "NIC statistics:\n     bw_in_allowance_exceeded: many\n     bw_out_allowance_exceeded: -1\n",
    ],
)
def test_another_driver_has_no_counters(text: str) -> None:
    with pytest.raises(NoAllowanceCounters):
        parse_statistics(text)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        packets = parse_statistics(text)
    except NoAllowanceCounters:
        return
    assert set(packets) <= set(COUNTERS)


@given(snapshots)
def test_the_printed_counters_are_read_back(packets: dict[str, int]) -> None:
    printed = "NIC statistics:\n" + "".join(f"     {COUNTERS[name]}: {n}\n" for name, n in packets.items())
    assert parse_statistics(printed) == packets


@given(snapshots, snapshots)
def test_a_gain_is_never_negative_and_adds_up(then: dict[str, int], gain: dict[str, int]) -> None:
    now = {name: then[name] + gain[name] for name in then}
    delta = AllowanceSnapshot(15.5, now).since(AllowanceSnapshot(10.0, then))
    assert delta == AllowanceDelta(elapsed_s=5.5, **gain)
    backwards = AllowanceSnapshot(1.0, gain).since(AllowanceSnapshot(0.0, then))
    assert all(0 <= getattr(backwards, name) <= gain[name] for name in COUNTERS)


def test_a_restarted_host_counts_from_zero() -> None:
    before = AllowanceSnapshot(0.0, dict.fromkeys(COUNTERS, 900))
    after = AllowanceSnapshot(5.0, dict.fromkeys(COUNTERS, 20))
    assert after.since(before).bw_out_exceeded == 20


def _install_ethtool(host: SshHost, directory: Path, script: str) -> Path:
    tool = directory / "ethtool"
    tool.write_text(f'#!/bin/sh\necho "$*" >> "${{0%/*}}/calls"\n{script}\n')
    tool.chmod(0o755)
    host._tools["ethtool"] = str(tool)
    return directory / "calls"


def test_the_counters_are_those_of_the_interface_with_the_address(host: SshHost, tmp_path: Path) -> None:
    (tmp_path / "statistics").write_text(ENA)
    calls = _install_ethtool(host, tmp_path, 'cat "${0%/*}/statistics"')
    before = read_allowances(host, "127.0.0.1")
    (tmp_path / "statistics").write_text(ENA.replace("4242", "5000"))
    after = read_allowances(host, "127.0.0.1")
    assert before is not None
    assert after is not None
    assert after.since(before).bw_out_exceeded == 758
    assert after.since(before).elapsed_s > 0
    assert calls.read_text().split("\n") == ["-S lo", "-S lo", ""]


@pytest.mark.parametrize(
    "script",
    ["echo 'NIC statistics:'; echo '     rx_drops: 0'", "echo 'no stats available' >&2; exit 94"],
)
def test_a_driver_without_counters_is_asked_once(host: SshHost, tmp_path: Path, script: str) -> None:
    calls = _install_ethtool(host, tmp_path, script)
    assert read_allowances(host, "127.0.0.1") is None
    assert read_allowances(host, "127.0.0.1") is None
    assert calls.read_text() == "-S lo\n"


def test_an_unknown_address_has_no_counters(host: SshHost, tmp_path: Path) -> None:
    calls = _install_ethtool(host, tmp_path, "exit 0")
    assert read_allowances(host, "192.0.2.199") is None
    assert not calls.exists()


def test_without_ethtool_there_are_no_counters(host: SshHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> str:
        raise ToolMissing("ethtool is not on instance i-0test")

    monkeypatch.setattr(host, "ensure_tool", missing)
    assert read_allowances(host, "127.0.0.1") is None
    monkeypatch.setattr(host, "ensure_tool", None)  # it is not asked again
    assert read_allowances(host, "127.0.0.1") is None


def test_a_missing_answer_is_not_an_error_and_is_retried(
    host: SshHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install_ethtool(host, tmp_path, "true")

    def late(*_: object, **__: object) -> None:
        raise CommandTimedOut("on instance i-0test, `sh` did not end within 20 s")

    with monkeypatch.context() as patch:
        patch.setattr(host, "run", late)
        assert read_allowances(host, "127.0.0.1") is None
    (tmp_path / "statistics").write_text(ENA)
    _install_ethtool(host, tmp_path, 'cat "${0%/*}/statistics"')
    assert read_allowances(host, "127.0.0.1") is not None
