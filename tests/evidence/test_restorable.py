"""Values written as plain JSON and restored are equal, and only classes with an id are restored."""

import dataclasses
import importlib
import json
import math
import pkgutil
from datetime import datetime, timezone
from pathlib import PurePosixPath

import msgspec
import pytest
import recorded_runs
from hypothesis import given
from hypothesis import strategies as st

import pytest_cloudbench
from pytest_cloudbench import Cost, gp3
from pytest_cloudbench.evidence.restorable import (
    NotRestorable,
    NotRestored,
    measurement_from,
    plain,
    restored,
)
from pytest_cloudbench.evidence.restorable_types import (
    _places,
    class_of,
    is_restorable,
    register,
    type_id_of,
)
from pytest_cloudbench.limits.quantities import Iops, Size
from pytest_cloudbench.verdicts.verdict import Outcome
from pytest_cloudbench.workloads.errors import TargetError
from pytest_cloudbench.workloads.iperf3.errors import Iperf3Interrupted


def through_json(value):
    """Write a value, read it and restore it; large bytes go into files beside it."""
    files = {}

    def store(name, data):
        path = f"{len(files)}-{name}"
        files[path] = data
        return path

    return restored(
        msgspec.json.decode(msgspec.json.encode(plain(value, store=store))), load=files.__getitem__
    )


@pytest.mark.parametrize(
    "measurement",
    [
        recorded_runs.measured(),
        recorded_runs.measured(
            parts=(recorded_runs.measured(raw={}), recorded_runs.measured(2_000, raw={})), start_skew_s=0.1
        ),
        recorded_runs.both_ways(),
        recorded_runs.files_created(),
    ],
    ids=lambda measurement: type(measurement).__name__,
)
def test_restored_measurements_are_equal_and_can_be_judged(measurement):
    again = through_json(measurement)
    assert again == measurement
    assert type(again) is type(measurement)
    assert again.to_dict() == measurement.to_dict()
    judged = again.forward if recorded_runs.both_ways() == measurement else again
    of = measurement.forward if recorded_runs.both_ways() == measurement else measurement
    assert str(judged.reaches("10 MiB/s")) == str(of.reaches("10 MiB/s"))


def test_a_measurement_s_file_is_enough_with_its_raw_files():
    measurement = recorded_runs.measured()
    files = {}
    kept = plain(measurement, store=lambda name, data: files.setdefault(name, data) and name)
    assert sorted(files) == ["raw-result.json", "raw-series_iops.log"]
    assert measurement_from({"value": kept}, files) == measurement
    assert measurement_from(kept, files.__getitem__) == measurement
    with pytest.raises(NotRestored, match=r"raw-result\.json was not given"):
        measurement_from(kept, {})
    with pytest.raises(NotRestored, match="no value"):
        measurement_from({"figures": {}}, {})


SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.floats(allow_nan=False)
)
VALUES = st.recursive(
    SCALARS | st.binary(max_size=100) | st.builds(Iops, st.floats(0, 1e9)) | st.sampled_from(Outcome),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=5) | st.integers(0, 9) | st.just("is"), inner, max_size=4)
        | st.frozensets(SCALARS, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_any_value_of_ours_survives(value):
    again = through_json(value)
    assert again == value
    assert type(again) is type(value)


def test_values_without_a_json_form_survive():
    values = (
        math.inf,
        datetime(2026, 11, 20, 12, tzinfo=timezone.utc),
        PurePosixPath("/data"),
        range(10, 130, 10),
        {Size(4096): (Iops(1.0), Iops(2.0))},
        [gp3(size_gib=10), None],
    )
    assert through_json(values) == values
    assert math.isnan(through_json(math.nan))
    assert through_json(lambda: None) is None, "a listener is not written"


def test_columns_of_quantities_are_written_as_plain_numbers():
    kept = plain(recorded_runs.measured(seconds=3).series)
    assert kept["iops"] == {
        "is": "each",
        "of": "Iops",
        "per_second": [3000.0, 3000.25, 3000.5],
    }


def test_errors_are_restored_with_their_attributes():
    error = Iperf3Interrupted("the server ended after 12 s", recorded_runs.both_ways())
    again = through_json(error)
    assert type(again) is Iperf3Interrupted
    assert str(again) == str(error)
    assert again.measurement == error.measurement
    assert str(through_json(TimeoutError("late"))) == "late"


def test_foreign_classes_are_refused_with_a_clear_error():
    class Other:
        pass

    with pytest.raises(NotRestorable, match=r"asked-thing is of .*Other"):
        plain(recorded_runs.measured(asked={"thing": Other()}))


def test_a_measurement_keeps_its_cost():
    run = recorded_runs.measured(3_000.0, cost=Cost(0.25, "USD", seconds=30.0))
    kept = through_json(run)
    assert (kept.cost.amount, kept.cost.currency, kept.cost.seconds) == (0.25, "USD", 30.0)
    assert kept.iops_per_dollar == pytest.approx(3_000 / 30), "30 USD an hour"
    assert kept.to_dict()["cost"] == "0.25 USD"
    assert dataclasses.replace(run, cost=Cost(0.25, "EUR", 30.0)).iops_per_dollar is None
    without = recorded_runs.measured()
    assert (without.cost, without.iops_per_dollar, without.to_dict()["cost"]) == (None, None, None)


@pytest.mark.parametrize(
    "data",
    [
        {"is": "subprocess:Popen", "args": ["true"]},
        {"is": "builtins:eval", "args": ["1"]},
        {"is": "twin.plane:Plane"},
        {"is": "promises.quantities:parse_rate"},
        {"is": "promises.quantities:NoSuchThing"},
        {"is": "NoSuchThing"},
        {"is": "os.system"},
        {"is": "verdicts.verdict:dataclass"},
        {"is": "promises.quantities:Iops", "per_second": "many"},
        {"is": "nothing known"},
        {"is": 5},
        {"is": "float", "value": "wide"},
        {"is": "each", "of": "promises.quantities:Iops"},
    ],
)
def test_a_record_cannot_name_anything_else(data):
    with pytest.raises(NotRestored):
        restored(data)


ROOMS = ("limits", "verdicts", "workloads", "hosts", "aws", "resources")


def public_classes():
    """Return every public dataclass, enum and exception of the rooms whose values are recorded."""
    for found in pkgutil.walk_packages(pytest_cloudbench.__path__, "pytest_cloudbench."):
        if found.name.split(".")[1] in ROOMS:
            for name, kind in vars(importlib.import_module(found.name)).items():
                if is_restorable(kind) and kind.__module__ == found.name and not name.startswith("_"):
                    yield kind


def test_every_public_class_has_an_id_of_its_own_and_every_id_a_class():
    ids = {kind: type_id_of(kind) for kind in public_classes()}
    assert [kind for kind, found in ids.items() if found is None] == []
    assert len(set(ids.values())) == len(ids) > 200
    assert {found: class_of(found) for found in ids.values()} == {found: kind for kind, found in ids.items()}
    assert set(_places()) == set(ids.values())


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("promises.quantities:Iops", Iops),
        ("workloads.fio.errors:TargetError", TargetError),
        ("workloads.create_files.errors:TargetError", TargetError),
    ],
)
def test_ids_of_version_0_1_are_read(written, kind):
    assert class_of(written) is kind


def test_a_class_from_outside_is_restored_once_it_has_an_id():
    @dataclasses.dataclass(frozen=True)
    class Elsewhere:
        rate: Iops

    value = {"thing": Elsewhere(Iops(5.0))}
    with pytest.raises(NotRestorable, match="Elsewhere"):
        plain(value)
    register("tests.Elsewhere", Elsewhere)
    register("tests.Elsewhere", Elsewhere)
    assert plain(value)["thing"]["is"] == "tests.Elsewhere"
    assert through_json(value) == value
    with pytest.raises(ValueError, match=r"tests\.Elsewhere.*taken"):
        register("tests.Elsewhere", Iops)
    with pytest.raises(ValueError, match="dot"):
        register("Elsewhere", Elsewhere)
    with pytest.raises(ValueError, match="taken"):
        register("fio.Progress", Elsewhere)
    with pytest.raises(TypeError, match="dataclass"):
        register("tests.Int", int)


def test_fields_may_come_and_go_with_versions():
    kept = json.loads(json.dumps(plain(recorded_runs.measured(raw={}))))
    kept["gone"] = 5
    del kept["generator"]
    assert restored(kept) == dataclasses.replace(recorded_runs.measured(raw={}), generator=None)
    del kept["iops"]
    with pytest.raises(NotRestored, match=r"Measurement.*iops"):
        restored(kept)


@pytest.mark.parametrize("mode", ["ebs", "none", None])
def test_the_latency_mode_is_restored(mode):
    again = through_json(recorded_runs.measured(modelled_latency=mode))
    assert again.modelled_latency == again.to_dict()["modelled_latency"] == mode


def test_a_measurement_from_before_latency_was_modelled_has_none():
    record = plain(recorded_runs.measured())
    del record["modelled_latency"]
    assert restored(record).modelled_latency is None
