"""Cloud performance promises as pytest cases.

    from pytest_cloudbench import io2

    @pytest.mark.ebs_volume(io2(size_gib=80, iops=80_000))
    def test_io2_reaches_its_provisioned_iops(ec2_instance, ebs_volume, fio): ...

The public names are loaded when they are first asked for, so that a project which merely has the
plugin installed does not pay for them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_cloudbench.limits.ceilings import Ceiling
    from pytest_cloudbench.limits.envelope import Envelope
    from pytest_cloudbench.limits.quantities import Bandwidth, Iops, Size, Throughput, parse_rate
    from pytest_cloudbench.limits.recorded_limits import RecordedLimits, recorded_limits
    from pytest_cloudbench.limits.volumes import InvalidSpec, VolumeSpec, gp2, gp3, io1, io2, sc1, st1
    from pytest_cloudbench.verdicts.verdict import Inconclusive, Outcome, Verdict
    from pytest_cloudbench.workloads.fio.matrices import FOUR_CORNERS, SQLIO, JobShape, sqlio
    from pytest_cloudbench.workloads.judged import scales_linearly
    from pytest_cloudbench.workloads.sweep.mixes import Mix, Skew

__version__ = "0.1.0"

__all__ = [
    "FOUR_CORNERS",
    "SQLIO",
    "Bandwidth",
    "Ceiling",
    "Envelope",
    "Inconclusive",
    "InvalidSpec",
    "Iops",
    "JobShape",
    "Mix",
    "Outcome",
    "RecordedLimits",
    "Size",
    "Skew",
    "Throughput",
    "Verdict",
    "VolumeSpec",
    "__version__",
    "gp2",
    "gp3",
    "io1",
    "io2",
    "parse_rate",
    "recorded_limits",
    "sc1",
    "scales_linearly",
    "sqlio",
    "st1",
]

_HOMES = {
    "FOUR_CORNERS": "workloads.fio.matrices",
    "SQLIO": "workloads.fio.matrices",
    "Bandwidth": "limits.quantities",
    "Ceiling": "limits.ceilings",
    "Envelope": "limits.envelope",
    "Inconclusive": "verdicts.verdict",
    "InvalidSpec": "limits.volumes",
    "Iops": "limits.quantities",
    "JobShape": "workloads.fio.matrices",
    "Mix": "workloads.sweep.mixes",
    "Outcome": "verdicts.verdict",
    "RecordedLimits": "limits.recorded_limits",
    "Size": "limits.quantities",
    "Skew": "workloads.sweep.mixes",
    "Throughput": "limits.quantities",
    "Verdict": "verdicts.verdict",
    "VolumeSpec": "limits.volumes",
    "gp2": "limits.volumes",
    "gp3": "limits.volumes",
    "io1": "limits.volumes",
    "io2": "limits.volumes",
    "parse_rate": "limits.quantities",
    "recorded_limits": "limits.recorded_limits",
    "sc1": "limits.volumes",
    "scales_linearly": "workloads.judged",
    "sqlio": "workloads.fio.matrices",
    "st1": "limits.volumes",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
