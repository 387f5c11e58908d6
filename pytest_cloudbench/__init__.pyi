"""The public names: one line each, where the name stands once.

Type checkers read this file; at runtime the package reads it too, to load each name at its first use.
"""

from pytest_cloudbench.fixtures.create_files import CreateFilesCall as CreateFilesCall
from pytest_cloudbench.fixtures.fio import FioCall as FioCall
from pytest_cloudbench.fixtures.iperf3 import Iperf3Call as Iperf3Call
from pytest_cloudbench.fixtures.sweep import SweepCall as SweepCall
from pytest_cloudbench.fixtures.workload_call import WorkloadCall as WorkloadCall
from pytest_cloudbench.fixtures.workload_call import workload_fixture as workload_fixture
from pytest_cloudbench.limits.ceilings import Ceiling as Ceiling
from pytest_cloudbench.limits.envelope import Envelope as Envelope
from pytest_cloudbench.limits.instances import InstanceLimits as InstanceLimits
from pytest_cloudbench.limits.network import NetworkEnvelope as NetworkEnvelope
from pytest_cloudbench.limits.quantities import Bandwidth as Bandwidth
from pytest_cloudbench.limits.quantities import Iops as Iops
from pytest_cloudbench.limits.quantities import Size as Size
from pytest_cloudbench.limits.quantities import Throughput as Throughput
from pytest_cloudbench.limits.quantities import parse_rate as parse_rate
from pytest_cloudbench.limits.recorded_limits import RecordedLimits as RecordedLimits
from pytest_cloudbench.limits.recorded_limits import recorded_limits as recorded_limits
from pytest_cloudbench.limits.volumes import InvalidSpec as InvalidSpec
from pytest_cloudbench.limits.volumes import VolumeSpec as VolumeSpec
from pytest_cloudbench.limits.volumes import gp2 as gp2
from pytest_cloudbench.limits.volumes import gp3 as gp3
from pytest_cloudbench.limits.volumes import io1 as io1
from pytest_cloudbench.limits.volumes import io2 as io2
from pytest_cloudbench.limits.volumes import sc1 as sc1
from pytest_cloudbench.limits.volumes import st1 as st1
from pytest_cloudbench.resources.ec2 import Ec2 as Ec2
from pytest_cloudbench.resources.instance import Instance as Instance
from pytest_cloudbench.resources.instance_store import InstanceStore as InstanceStore
from pytest_cloudbench.resources.mounted import Mounted as Mounted
from pytest_cloudbench.resources.pair import Pair as Pair
from pytest_cloudbench.resources.snapshots import Snapshot as Snapshot
from pytest_cloudbench.resources.stripes import Stripe as Stripe
from pytest_cloudbench.resources.volumes import Volume as Volume
from pytest_cloudbench.resources.volumes import VolumeGroup as VolumeGroup
from pytest_cloudbench.verdicts.verdict import Inconclusive as Inconclusive
from pytest_cloudbench.verdicts.verdict import Outcome as Outcome
from pytest_cloudbench.verdicts.verdict import Verdict as Verdict
from pytest_cloudbench.workloads.create_files.creation import FileCreation as FileCreation
from pytest_cloudbench.workloads.errors import TargetError as TargetError
from pytest_cloudbench.workloads.errors import WorkloadFailed as WorkloadFailed
from pytest_cloudbench.workloads.errors import WorkloadRefused as WorkloadRefused
from pytest_cloudbench.workloads.fio.matrices import FOUR_CORNERS as FOUR_CORNERS
from pytest_cloudbench.workloads.fio.matrices import SQLIO as SQLIO
from pytest_cloudbench.workloads.fio.matrices import JobShape as JobShape
from pytest_cloudbench.workloads.fio.matrices import sqlio as sqlio
from pytest_cloudbench.workloads.judged import scales_linearly as scales_linearly
from pytest_cloudbench.workloads.measurement import Direction as Direction
from pytest_cloudbench.workloads.measurement import DirectionSeries as DirectionSeries
from pytest_cloudbench.workloads.measurement import Latency as Latency
from pytest_cloudbench.workloads.measurement import Measurement as Measurement
from pytest_cloudbench.workloads.measurement import Series as Series
from pytest_cloudbench.workloads.network_measurement import NetworkMeasurement as NetworkMeasurement
from pytest_cloudbench.workloads.network_measurement import NetworkSeries as NetworkSeries
from pytest_cloudbench.workloads.network_measurement import StreamResult as StreamResult
from pytest_cloudbench.workloads.pace import Pace as Pace
from pytest_cloudbench.workloads.sweep.curve import Curve as Curve
from pytest_cloudbench.workloads.sweep.curve import Knee as Knee
from pytest_cloudbench.workloads.sweep.curve import Step as Step
from pytest_cloudbench.workloads.sweep.mixes import Mix as Mix
from pytest_cloudbench.workloads.sweep.mixes import Skew as Skew
from pytest_cloudbench.workloads.target import Gained as Gained
from pytest_cloudbench.workloads.target import NetworkPath as NetworkPath
from pytest_cloudbench.workloads.target import Target as Target
from pytest_cloudbench.workloads.target import counters_gained as counters_gained
from pytest_cloudbench.workloads.tool_run import ToolRun as ToolRun
from pytest_cloudbench.workloads.tool_run import run_tool as run_tool
from pytest_cloudbench.workloads.workload import Workload as Workload

__version__: str
