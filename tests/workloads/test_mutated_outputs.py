"""Outputs of tools that were damaged: figures or the documented error, and no figures that contradict each other."""

import json

import mutated_outputs
import pytest

from pytest_cloudbench.hosts.device_facts import inspect_devices
from pytest_cloudbench.hosts.errors import DeviceNotFound
from pytest_cloudbench.workloads.fio.errors import FioOutputError
from pytest_cloudbench.workloads.fio.output import parse_output

SEEDS = 200
PARSERS = mutated_outputs.parsers()


@pytest.mark.fault("parsers", "a tool's output is damaged")
@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_damaged_output_is_refused_or_read(parser, record_property):
    record_property("tried", SEEDS)
    found = mutated_outputs.try_parser(parser, SEEDS, 0)
    assert found.crashes == 0, found.first
    assert found.refused + found.other > 0


CONTRADICTIONS = {
    "iops": lambda part: part.update(iops=part["iops"] * 2),
    "total_ios": lambda part: part.update(total_ios=part["total_ios"] // 2),
    "bw_bytes": lambda part: part.update(bw_bytes=part["bw_bytes"] * 10),
    "io_bytes": lambda part: part.update(io_bytes=part["io_bytes"] * 1000),
    "mean": lambda part: part["lat_ns"].update(mean=part["lat_ns"]["max"] * 2),
    "ascend": lambda part: part["clat_ns"]["percentile"].update({"1.000000": 10**12}),
}


@pytest.mark.fault("parsers", "figures of fio that contradict each other")
@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_figures_that_contradict_each_other_are_refused(name):
    text = mutated_outputs.kept("result.json.gz")[0]
    document = json.loads(text[text.index(b"{") :])
    parse_output(json.dumps(document).encode())
    part = max((document["jobs"][0][way] for way in ("read", "write")), key=lambda each: each["total_ios"])
    CONTRADICTIONS[name](part)
    with pytest.raises(FioOutputError, match=f"{name}|latency"):
        parse_output(json.dumps(document).encode())


@pytest.mark.parametrize(
    "output",
    [b"", b"Welcome!\n" + mutated_outputs.DEVICE, mutated_outputs.DEVICE.partition(b"device=\nmount")[0]],
    ids=["nothing", "a greeting", "cut off before the mounts"],
)
def test_an_inspection_that_is_not_whole_proves_nothing(output):
    with pytest.raises(DeviceNotFound):
        inspect_devices(mutated_outputs.answering(output), ["/dev/nvme1n1"])
