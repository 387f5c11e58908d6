"""What the allowance counters of both ends say, and of which ceiling they can speak."""

import pytest
from synthetic_networks import C5_2XL, M5_2XL, machine, network_run

from pytest_cloudbench.limits.network import flow_limit, network_envelope
from pytest_cloudbench.verdicts.counters import AllowanceDelta, AllowancePair
from pytest_cloudbench.verdicts.run import run_of

IDLE, OUT = AllowanceDelta(60.0), AllowanceDelta(60.0, bw_out_exceeded=600)
UNLIKE = network_envelope(C5_2XL, M5_2XL, streams=5, cluster=False, machine=machine(13))
CLIENT, SERVER = UNLIKE.find(C5_2XL.network_peak), UNLIKE.find(M5_2XL.network_peak)
EITHER = network_envelope(M5_2XL, M5_2XL, streams=5, cluster=False).find(M5_2XL.network_peak)


@pytest.mark.parametrize(("packets", "acted"), [(0, False), (59, None), (60, True), (10**9, True)])
def test_a_packet_a_second_shows_an_allowance_at_work(packets, acted):
    assert IDLE.acted(packets) is acted


@pytest.mark.parametrize(
    ("client", "server", "ceiling", "acted"),
    [
        (OUT, IDLE, CLIENT, True),
        (OUT, IDLE, SERVER, False),
        (IDLE, OUT, SERVER, True),
        (AllowanceDelta(60.0, bw_in_exceeded=600), IDLE, CLIENT, True),
        (OUT, None, SERVER, None),
        (None, None, EITHER, None),
        (IDLE, OUT, EITHER, True),
        (IDLE, None, EITHER, False),
        (AllowanceDelta(60.0, bw_out_exceeded=5), IDLE, EITHER, None),
        (OUT, OUT, flow_limit(False), None),
        (OUT, OUT, UNLIKE.machine[0], None),
    ],
)
def test_an_end_speaks_for_its_own_ceiling(client, server, ceiling, acted):
    assert AllowancePair(client, server).bandwidth_acted(ceiling) is acted


def test_without_counters_nothing_is_said():
    without = run_of(network_run(9.0, counters=None))
    assert without.acted(CLIENT) is None
    assert without.counted == ""
    assert AllowancePair(IDLE, None).exceeded_text == ""


def test_every_allowance_has_its_name():
    both = AllowancePair(AllowanceDelta(1, 1, 2, 3, 4, 5), AllowanceDelta(1, bw_in_exceeded=1_000))
    assert both.exceeded_text == (
        "2 packets above the client's outbound bandwidth allowance, 1 packets above the client's inbound "
        "bandwidth allowance, 3 packets above the client's packet rate allowance, 4 packets above the client's "
        "tracked connections allowance, 5 packets above the client's link-local traffic allowance and 1,000 "
        "packets above the server's inbound bandwidth allowance"
    )
