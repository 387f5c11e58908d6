"""docs/verdicts.md quotes real verdicts, and its code is valid."""

import ast
import inspect
import random
import re
from pathlib import Path

from synthetic_networks import C5_18XL, M5_2XL, T2_MEDIUM, burst, network_run, noise
from synthetic_runs import CALM, LATE, run_of
from test_burst_ends_at import falling, gp2_iops
from test_latency_limits import at_the_ceiling, latency, one_after_another
from test_scales_linearly import on
from test_sentences import round_trips

from pytest_cloudbench.limits.network import flow_limit
from pytest_cloudbench.verdicts import change_point
from pytest_cloudbench.verdicts.burst_ends_at import burst_ends_at
from pytest_cloudbench.verdicts.capped_by import capped_by
from pytest_cloudbench.verdicts.comparison import outperforms, resembles
from pytest_cloudbench.verdicts.drops_to import drops_to
from pytest_cloudbench.verdicts.latency_limits import MEASURES, latency_at_most
from pytest_cloudbench.verdicts.machine_delay import QUEUE, TOO_MUCH
from pytest_cloudbench.verdicts.observation import GeneratorLoad
from pytest_cloudbench.verdicts.reaches import reaches
from pytest_cloudbench.verdicts.scales_linearly import scales_linearly
from pytest_cloudbench.verdicts.steady import steady
from pytest_cloudbench.verdicts.sustains import sustains

DOCS = (Path(__file__).resolve().parents[2] / "docs" / "verdicts.md").read_text()
OF_ONE_RUN = (reaches, capped_by, drops_to, steady, outperforms, resembles, burst_ends_at, sustains)
VERDICTS = {one.__name__: one for one in (*OF_ONE_RUN, scales_linearly)}


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCS, re.MULTILINE | re.DOTALL)


def noisy(gbit, seed):
    factors = noise(60, 0.01, random.Random(seed), 0.3)
    mean = sum(factors) / len(factors)
    return network_run(values=[gbit * factor / mean for factor in factors])


def sentences():
    bursting = network_run(values=burst(1_260, 1_800), streams=5)
    flow = network_run(4.9635, client=C5_18XL)
    mismatched = network_run(1.0165, client=T2_MEDIUM, server=M5_2XL, streams=5)
    busy = network_run(18.9, client=C5_18XL, streams=5, generator=GeneratorLoad(99.6))
    spent = network_run(2.4825, samples=1_800, streams=5)
    fast, slow, nearly = noisy(9.93, 1), noisy(4.96, 2), noisy(9.7, 3)
    spent_in_the_middle = falling(2_000, length=3_000)
    spent_early = falling(1_988)
    in_linear_steps = [on(1, 1_000), on(2, 2_000), on(5, 4_960)]
    at_the_instance = [on(1, 1_000, "64k"), on(2, 1_907, "64k"), on(5, 1_907, "64k")]
    scatter = [5 * factor for factor in noise(60, 0.01, random.Random(3))]
    return {
        str(verdict)
        for verdict in (
            reaches(bursting, M5_2XL.network_peak),
            drops_to(bursting, M5_2XL.network_baseline),
            reaches(flow, C5_18XL.network_peak),
            reaches(mismatched, M5_2XL.network_peak),
            reaches(busy, C5_18XL.network_peak),
            capped_by(flow, flow_limit(cluster=False)),
            drops_to(spent, M5_2XL.network_baseline),
            steady(network_run(values=scatter)),
            steady(network_run(values=scatter), method="snia"),
            outperforms(fast, slow, by=0.5),
            resembles(fast, nearly),
            burst_ends_at(spent_early, gp2_iops(spent_early)),
            reaches(spent_in_the_middle, gp2_iops(spent_in_the_middle)),
            reaches(spent_in_the_middle, "3,000 IOPS"),
            sustains(run_of(79_900, samples=600), "80,000 IOPS", for_="10 min"),
            sustains(run_of(80_000, samples=60), "80,000 IOPS", for_="10 min"),
            latency_at_most(at_the_ceiling(), latency(64), {"mean": "5 ms"}),
            reaches(run_of(45_000, outstanding=64, delay=LATE), "80,000 IOPS"),
            reaches(run_of(20_000, outstanding=6, delay=CALM), "80,000 IOPS"),
            latency_at_most(one_after_another(5, 0.1), latency(5, 9), {"p99": "8 ms"}),
            latency_at_most(network_run(2.0), round_trips(0.4, 0.9), {"mean": "1 ms"}),
            latency_at_most(flow, round_trips(8, 9), {"mean": "1 ms"}),
            scales_linearly(in_linear_steps, with_=[1, 2, 5]),
            scales_linearly(at_the_instance, with_=[1, 2, 5]),
        )
    }


def test_every_quoted_sentence_is_one_that_a_verdict_says():
    quoted = [line for block in blocks("text") for line in block.splitlines()]
    assert len(quoted) == 24
    assert set(quoted) == sentences()


def test_the_threshold_of_the_machines_share_is_the_described_one():
    assert f"a share above {TOO_MUCH:.0%}".replace("%", " %") in DOCS
    assert f"more than {QUEUE} I/Os per volume" in DOCS


def test_the_shown_code_calls_verdicts_that_exist():
    called = {
        node.func.attr
        for block in blocks("python")
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    assert called - {"ec2_pair", "at_most"} <= set(VERDICTS)
    assert f"latency.at_most({', '.join(f'{name}=' for name in MEASURES)})" in DOCS


def test_every_verdict_is_described_with_its_own_parameters():
    for name, verdict in VERDICTS.items():
        parameters = list(inspect.signature(verdict).parameters.values())[verdict in OF_ONE_RUN :]
        shown = [
            each.name if each.default is each.empty else f"{each.name}={each.default!r}"
            for each in parameters
        ]
        match = re.search(rf"^## (?:.* and )?{name}\((.*?)\)", DOCS, re.MULTILINE)
        assert match, name
        assert _values(match[1]) == _values(", ".join(shown)), name


def _values(text):
    """Parameters with their defaults as values: 0.10 and 0.1 are one."""
    call = ast.parse(f"f({text})", mode="eval").body
    return [each.id for each in call.args], {each.arg: ast.literal_eval(each.value) for each in call.keywords}


def test_the_parameters_of_the_search_are_those_described():
    assert f"at least {change_point.SMALLEST_FALL:.0%}".replace("%", " %") in DOCS
    errors, short = change_point.STANDARD_ERRORS, change_point.STANDARD_ERRORS_SHORT
    assert f"{errors:.0f} + {short:.0f} / samples standard errors" in DOCS
    assert f"seen for {change_point.FEWEST_AFTER} samples" in DOCS
