"""The pictures: their texts in the SVG, and a valid PNG beside it."""

import builtins
import dataclasses
import json
import math
import re
import struct
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest
from drawn_runs import VOLUME, files, mixed, network, noisy, storage
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench import gp2, io1
from pytest_cloudbench.reports.plots.latency import distributions
from pytest_cloudbench.reports.plots.rate_scale import latency_text
from pytest_cloudbench.reports.plots.sheet import spread

pytest.importorskip("matplotlib")

from pytest_cloudbench.reports.plots.comparison import bars, plot_comparison
from pytest_cloudbench.reports.plots.drawing import FONT_PT, broken, length_pt
from pytest_cloudbench.reports.plots.kinds import creation_plots, line_plot, network_plots, storage_plots
from pytest_cloudbench.reports.plots.kinds import drawn as draw
from pytest_cloudbench.reports.plots.picture import PlotsMissing
from pytest_cloudbench.reports.plots.sheet import Sheet


def texts(picture):
    """Return every text of the SVG, after a check of SVG and PNG."""
    root = ElementTree.fromstring(picture.svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert picture.png.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", picture.png[16:24])
    assert width == 1350
    assert height >= 300
    return ["".join(each.itertext()).strip() for each in root.iter("{http://www.w3.org/2000/svg}text")]


def plot_measurement(run):
    """Draw what a workload with such runs declares."""
    of_network = network_plots if hasattr(run, "streams") else storage_plots
    return draw(creation_plots if hasattr(run, "files_per_second") else of_network, run)


def drawn(measurement):
    return {picture.name: texts(picture) for picture in plot_measurement(measurement)}


def test_storage_at_its_ceiling():
    pictures = drawn(storage(noisy(80_000, 60)))
    assert list(pictures) == ["IOPS over time", "latency over time", "latency distribution"]
    said = pictures["IOPS over time"]
    assert f"io2 {VOLUME} IOPS" in said
    assert "c5.18xlarge EBS IOPS" in said, "two ceilings of one height are both named"
    assert "80,000 IOPS" in said
    assert "IOPS" in said
    assert "time, s" in said
    assert any(line.startswith("Higher than shown: c5.18xlarge EBS throughput") for line in said)


def test_a_throughput_ceiling_makes_it_a_picture_of_throughput():
    said = drawn(storage(noisy(9_060, 10), block="256k", sequential=True))["throughput over time"]
    assert "MiB/s" in said
    assert "c5.18xlarge EBS throughput" in said
    assert "2,265 MiB/s" in said


def test_the_end_of_a_burst_is_marked_with_both_levels():
    rates = [*noisy(3_000, 200, 0.002), *noisy(300, 100, 0.002)]
    run = storage(rates, volumes=((VOLUME, gp2(size_gib=100)),), time_compression=60.0)
    said = drawn(run)["IOPS over time"]
    assert "fell after 200 s (3.3 min)" in said
    assert any(re.fullmatch(r"from (3,00\d|2,99\d) to (300|299|301) IOPS", line) for line in said), said
    assert "300 IOPS (burst spent)" in said
    assert "time of the test (time compressed 60 times), s" in said


def test_reads_and_writes_have_separate_labels():
    pictures = drawn(mixed(noisy(16_000, 20)))
    assert {"reads", "writes", "measured"} <= set(pictures["IOPS over time"])
    assert {"reads", "writes"} <= set(pictures["latency distribution"])


def test_known_percentiles_are_drawn_over_time():
    run = storage(noisy(80_000, 10))
    series = dataclasses.replace(
        run.series, percentiles_s={"p50": (0.01,) * 10, "p999": (0.2,) * 9 + (None,)}
    )
    said = drawn(dataclasses.replace(run, series=series))["latency over time"]
    assert {"mean", "median", "p99.9"} <= set(said)
    assert "latency, ms, by the second" in said


def test_the_distribution_names_its_percentiles():
    run = storage(noisy(80_000, 10))
    found = distributions(run.raw)["read"]
    said = drawn(run)["latency distribution"]
    assert f"p99 {latency_text(found.percentile_s(99))}" in said
    assert "5,000 I/Os; longest " + latency_text(found.seconds[-1]) in said


def test_the_measured_part_is_drawn_if_the_tool_separates_it():
    run = storage(noisy(80_000, 10))
    bins = {"2000000": 900, "9000000": 100}
    measured = {
        "jobs": [{"read": {"lat_ns": {"N": 1_000, "bins": bins}}, "write": {"lat_ns": {"N": 0, "bins": {}}}}]
    }
    run = dataclasses.replace(run, raw={**run.raw, "measured.json": json.dumps(measured).encode()})
    assert distributions(run.raw)["read"].counts == (900, 100)
    assert "1,000 I/Os; longest 9 ms" in drawn(run)["latency distribution"]


def test_a_percentile_near_the_right_edge_leaves_the_label_of_the_line_alone():
    """Of 1,600 I/Os the last mark, p99.9, is near the end of the line, where "longest" is written."""
    run = storage(noisy(80_000, 10))
    whole = {"N": 1_600, "bins": {"2000000": 1_500, "9000000": 100}}
    measured = {"jobs": [{"read": {"lat_ns": whole}, "write": {"lat_ns": {"N": 0, "bins": {}}}}]}
    run = dataclasses.replace(run, raw={**run.raw, "measured.json": json.dumps(measured).encode()})
    picture = next(each for each in plot_measurement(run) if each.name == "latency distribution")
    drawn_texts = ElementTree.fromstring(picture.svg).iter("{http://www.w3.org/2000/svg}text")
    anchors = {"".join(each.itertext()).strip(): each.get("text-anchor") for each in drawn_texts}
    assert anchors["p99.9 9 ms"] == "end"
    assert anchors["p99 9 ms"] == "start"


def test_histograms_of_several_jobs_are_one():
    both = distributions(mixed(noisy(1_000, 3)).raw)
    assert both["read"].total == 10_000
    assert both["read"].shares[-1] == pytest.approx(1)
    assert both["write"].percentile_s(50) > both["read"].percentile_s(50)


@pytest.mark.parametrize(
    "raw", [{}, {"result.json": b""}, {"result.json": b"{]"}, {"result.json": b'{"jobs": 3}'}]
)
def test_without_a_histogram_there_is_no_distribution(raw):
    assert distributions(raw) == {}
    assert "latency distribution" not in drawn(storage(noisy(80_000, 10), raw=raw))


def test_a_network_with_its_burst():
    (picture,) = plot_measurement(network([*noisy(9.93, 100, 0.003), *noisy(2.48, 60, 0.003)]))
    said = texts(picture)
    assert picture.name == "throughput over time"
    assert "Gbit/s" in said
    assert said.count("m5.2xlarge network bandwidth") == 2
    assert "fell after 100 s" in said
    assert any("network credits" in line for line in said)


def test_both_directions_of_a_network():
    forward, backward = network(noisy(4.9, 20)), network(noisy(3.8, 20), reverse=True)
    (picture,) = plot_measurement(network(noisy(8.7, 20), directions=(forward, backward)))
    assert {"client to server", "server to client"} <= set(texts(picture))


def test_files_and_their_device():
    run = files(40, 205, to_device_s=70, mib=125, target="xfs on gp3 500 GiB")
    (picture,) = plot_measurement(run)
    said = texts(picture)
    assert "files/s, page cache included" in said
    assert "last file written" in said
    assert "after 40 s" in said
    assert any("on the device after 70 s" in line for line in said)
    assert f"io2 {VOLUME} throughput" in said or any("Higher than shown" in line for line in said)


def test_files_of_a_moment_have_a_picture_of_their_times():
    run = dataclasses.replace(
        files(40, 205, to_device_s=70, mib=125, target="xfs"), written_s=0.07, on_device_s=1.68
    )
    run = dataclasses.replace(run, series=dataclasses.replace(run.series, seconds=(), files_per_second=()))
    (picture,) = plot_measurement(run)
    said = texts(picture)
    assert picture.name == "time of the files"
    assert {"last file written", "all on the device", "time, s"} <= set(said)
    assert any(line.startswith("70 ms, ") and line.endswith("files/s") for line in said)
    assert any(line.startswith("1.7 s, ") for line in said)


def test_a_ceiling_that_holds_for_a_burst_says_so():
    picture = plot_measurement(network([*noisy(9.93, 100, 0.003), *noisy(2.48, 60, 0.003)]))[0]
    assert {"10 Gbit/s (burst)", "2.5 Gbit/s (network credits spent)"} <= set(texts(picture))


def test_words_of_wide_ticks_stay_within_the_picture():
    sheet = Sheet([2.0])
    sheet.panels[0].upwards(0, 40_000_000)
    root = ElementTree.fromstring(sheet.picture("wide").svg)
    for each in root.iter("{http://www.w3.org/2000/svg}text"):
        if "," in (each.text or ""):
            assert float(each.get("x")) - length_pt(each.text, FONT_PT, False) > 0


@pytest.mark.parametrize("rates", [[80_000.0], []])
def test_a_run_without_a_series_has_no_picture_of_it(rates):
    run = dataclasses.replace(storage([80_000.0]), raw={})
    empty = dataclasses.replace(
        run.series,
        **{
            name: getattr(run.series, name)[: len(rates)]
            for name in ("seconds", "iops", "throughput", "latency_s")
        },
    )
    assert plot_measurement(dataclasses.replace(run, series=empty)) == []


def test_a_run_without_ceilings_or_latencies():
    run = dataclasses.replace(storage(noisy(500, 10)), envelope=None, latency=None, raw={})
    run = dataclasses.replace(run, series=dataclasses.replace(run.series, latency_s=(None,) * 10))
    assert list(drawn(run)) == ["IOPS over time"]


def test_a_target_s_name_is_always_drawn_as_text():
    run = storage(noisy(500, 10), target="$x_1^2$ & <b> on \\frac vol")
    for picture in plot_measurement(run):
        assert any("$x_1^2$ & <b>" in line for line in texts(picture))


def test_the_same_measurement_gives_the_same_bytes():
    run = storage(noisy(80_000, 10))
    assert plot_measurement(run) == plot_measurement(run)


def test_nothing_is_fetched_from_elsewhere():
    for picture in plot_measurement(storage(noisy(80_000, 10))):
        assert not re.search(rb'(href|src)="(?!#)', picture.svg), "references within the picture only"
        assert b"@import" not in picture.svg


def test_stripes_side_by_side():
    runs = [
        storage(
            noisy(1_000 * count, 10),
            volumes=[(f"vol-{each}", io1(size_gib=200, iops=1_000)) for each in range(count)],
        )
        for count in (1, 2, 5)
    ]
    picture = plot_comparison(runs, ["1 volume", "2 volumes", "5 volumes"], "Stripe of io1 volumes")
    said = texts(picture)
    assert {"1 volume", "2 volumes", "5 volumes", "mean latency", "Stripe of io1 volumes"} <= set(said)
    assert said.count("12.8 ms") == 3
    assert any("lowest promised ceiling" in line for line in said)


def test_files_are_compared_over_time():
    runs = [
        files(40, 205, to_device_s=70, mib=125, target="gp3"),
        files(25, 340, to_device_s=26, mib=340, target="nvme"),
    ]
    said = texts(plot_comparison(runs, ["gp3", "instance store"], "EBS against instance store"))
    assert {"gp3", "instance store", "files/s"} <= set(said)
    assert any("25 s to write" in line for line in said)


def test_families_whose_burst_ends_are_lines_and_flat_ones_bars():
    falling = network([*noisy(9.93, 100, 0.003), *noisy(2.48, 60, 0.003)])
    flat = network(noisy(4.96, 160))
    lines = texts(plot_comparison([falling, flat], ["m5", "m4"], "families"))
    assert any(line.startswith("from 9.9") for line in lines)
    bars = texts(plot_comparison([flat, flat], ["m4", "c4"], "families"))
    assert "4.96" in bars
    many = texts(plot_comparison([falling] * 12, [f"m5 {number}" for number in range(12)], "families"))
    assert "m5 11" in many


@pytest.mark.parametrize(
    ("runs", "labels", "message"),
    [
        ([], [], "0 measurements with 0 labels"),
        ([storage([1.0, 1.0])], ["a", "b"], "1 measurements with 2 labels"),
        ([storage([1.0, 1.0]), network([1.0, 1.0])], ["a", "b"], "a network and storage cannot be compared"),
    ],
)
def test_incomparable_runs_are_refused(runs, labels, message):
    with pytest.raises(ValueError, match=message):
        plot_comparison(runs, labels, "title")


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **more):
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(PlotsMissing, match=r"pip install 'pytest-cloudbench\[plots\]'"):
        plot_measurement(storage(noisy(80_000, 10)))


def test_the_users_own_plots_are_not_touched():
    import matplotlib

    before = dict(matplotlib.rcParams)
    plot_measurement(storage(noisy(80_000, 10)))
    assert dict(matplotlib.rcParams) == before


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 0.3)), min_size=1, max_size=12))
def test_labels_never_overlap_and_stay_inside_where_they_fit(labels):
    wanted, heights = [each for each, _ in labels], [height for _, height in labels]
    places = spread(wanted, heights)
    edges = sorted(
        (place - height / 2, place + height / 2) for place, height in zip(places, heights, strict=True)
    )
    assert all(after[0] >= before[1] - 1e-9 for before, after in pairwise(edges))
    assert edges[0][0] >= -1e-9
    if sum(heights) <= 1:
        assert edges[-1][1] <= 1 + 1e-9


@given(st.lists(st.floats(0.2, 0.8), min_size=1, max_size=1))
def test_a_single_label_stays_in_place(wanted):
    assert spread(wanted, [0.1]) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(59e-6, "59 µs"), (348e-6, "348 µs"), (0.0128, "12.8 ms"), (0.25644, "256 ms"), (2.4, "2.4 s")],
)
def test_latencies_are_readable(seconds, text):
    assert latency_text(seconds) == text


def test_long_labels_are_wrapped_between_words():
    assert broken("one two three", 10.0) == ["one two three"]
    assert broken("one two three", 0.01) == ["one", "two", "three"]
    assert broken("", 1.0) == []


def test_a_gap_in_a_series_is_a_gap_in_its_line():
    sheet = Sheet([2.0])
    sheet.panels[0].across(0, 5)
    sheet.panels[0].line([0, 1, 2, 3, 4, 5], [0.1, 0.2, math.nan, 0.4, 0.5, 0.6], "#123456")
    svg = sheet.picture("gap").svg.decode()
    (path,) = re.findall(r'<path d="([^"]*)"[^>]*stroke: #123456', svg)
    assert path.count("M") == 2, "it begins again behind the gap"
    assert "nan" not in path


def test_a_line_is_as_wide_in_the_png_as_in_the_svg():
    import io

    from PIL import Image

    sheet = Sheet([2.0])
    sheet.panels[0].across(0, 1)
    sheet.panels[0].line([0, 1], [0.55, 0.55], "#ff0000", width=4.0)
    picture = sheet.picture("wide")
    image = Image.open(io.BytesIO(picture.png)).convert("RGB")
    column = [image.getpixel((image.width // 2, y)) for y in range(image.height)]
    red = sum(pixel[0] > 200 and pixel[1] < 60 for pixel in column)
    assert b"stroke-width: 4" in picture.svg
    assert red in (7, 8, 9), "4 points of 72 to the inch are 8 pixels of 144"
    assert image.getpixel((image.width - 5, 5)) == (255, 255, 255), "the sheet is white"


def test_files_without_a_series_are_compared_by_the_time_until_on_the_device():
    """A slower volume may be faster into the page cache."""
    runs = [
        files(20, 400, to_device_s=80, mib=125, target="gp3"),
        files(25, 320, to_device_s=26, mib=340, target="nvme"),
    ]
    said = texts(bars(runs, ["gp3", "nvme"], "EBS against instance store"))
    assert "files per second until all were on the device" in said
    assert [line for line in said if line in ("100", "98", "99", "101", "307", "308", "306", "309")], said


def test_lines_of_any_kind():
    picture = line_plot(
        "slowest 1 %", {"p99": [1.5, 2.5], "mean": [0.5, 0.5]}, seconds=[1, 2], unit="latency, ms"
    )
    assert picture.name == "slowest 1 %"
    assert {"slowest 1 %", "p99", "mean", "latency, ms", "time, s"} <= set(texts(picture))
    assert line_plot("one value", {"p99": [1.5]}, seconds=[1], unit="ms") is None
    assert line_plot("no line", {}, seconds=[1, 2], unit="ms") is None
    with pytest.raises(ValueError, match=r"'p99' of 'short' has 1 values for 2 seconds"):
        line_plot("short", {"p99": [1.5]}, seconds=[1, 2], unit="ms")


def test_a_run_without_a_series_has_no_pictures():
    assert plot_measurement(dataclasses.replace(storage(noisy(80_000, 10)), series=None)) == []
