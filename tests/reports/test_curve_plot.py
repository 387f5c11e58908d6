"""The picture of curves: its texts in the SVG, and a valid PNG beside it."""

import builtins
import dataclasses
import io
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "verdicts"))

from synthetic_curves import curve_of
from synthetic_runs import STRONG_MACHINE, instance

from pytest_cloudbench import gp2
from pytest_cloudbench.reports.plots.curve import MARKERS, MOST_CURVES, curves_picture, plot_curves
from pytest_cloudbench.reports.plots.drawing import WIDTH_IN, Drawing, length_pt
from pytest_cloudbench.reports.plots.picture import PlotsMissing

ID = "vol-0123456789abcdef0"
ON_30 = {
    "on": instance("i3.metal", 64_000, 1_137.7),
    "volumes": tuple((f"vol-{number}", gp2(size_gib=1_000)) for number in range(30)),
    "machine": STRONG_MACHINE,
}


@pytest.fixture(autouse=True)
def _needs_matplotlib(request):
    if "without_matplotlib" not in request.fixturenames:
        pytest.importorskip("matplotlib")


def texts(svg):
    root = ElementTree.fromstring(svg)
    return ["".join(each.itertext()).strip() for each in root.iter("{http://www.w3.org/2000/svg}text")]


def placed(svg):
    """Return each text with its left and right end, in points from the left."""
    for each in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        text = "".join(each.itertext()).strip()
        size = float(re.search(r"font-size: ([0-9.]+)px", each.get("style")).group(1))
        width = length_pt(text, size, "bold" in each.get("style"))
        left = float(each.get("x")) - width * {"start": 0, "middle": 0.5, "end": 1}[each.get("text-anchor")]
        yield text, left, left + width


def test_one_curve_with_its_ceilings_its_knee_and_its_tail():
    picture = curves_picture([curve_of(**ON_30)])
    said = texts(picture.svg)
    assert picture.png.startswith(b"\x89PNG")
    for text in (
        "latency over load: 4k-random-read",
        "mean latency, ms (logarithmic)",
        "IOPS",
        "i3.metal EBS IOPS, 64,000 IOPS",
        "30 gp2 volumes IOPS, 90,000 IOPS",
        "maximum 64,000 IOPS, 60 ms",
        "knee 57,600 IOPS, 1.8 ms",
        "p99 of the steps",
    ):
        assert text in said
    assert any("the ring the knee (Kneedle)" in text for text in said)
    assert any(text.startswith("Higher than shown: i3.metal EBS throughput") for text in said)


def test_a_curve_limited_by_throughput_is_drawn_in_throughput():
    said = texts(curves_picture([curve_of(17_360, mix="64k-sequential-read", outstanding=480, **ON_30)]).svg)
    assert "MiB/s" in said
    assert "i3.metal EBS throughput, 1,085 MiB/s" in said
    assert "maximum 1,085 MiB/s, 28 ms" in said


def test_ceilings_of_several_curves_name_their_curves():
    reads = curve_of(**ON_30)
    boot = curve_of(41_000, mix="vdi-boot", outstanding=480, **ON_30)
    said = texts(curves_picture([reads, boot]).svg)
    assert {"4k-random-read", "vdi-boot"} <= set(said)
    assert "i3.metal EBS throughput, 41,457 IOPS (vdi-boot)" in " ".join(said), "wrapped if it does not fit"
    assert "i3.metal EBS IOPS, 64,000 IOPS" in said, "the same for both"
    assert "p99 of the steps" not in said, "the tails of several curves cannot be distinguished"


def test_labels_distinguish_curves_of_one_mix():
    said = texts(curves_picture([curve_of(), curve_of(32_000, outstanding=960)], labels=["gp3", "gp2"]).svg)
    assert {"gp3", "gp2"} <= set(said)


def test_curves_of_one_mix_without_labels_are_named_by_what_differs():
    one, other = curve_of(volumes=((ID, gp2(size_gib=2_000)),)), curve_of(32_000)
    one = dataclasses.replace(one, maximum=dataclasses.replace(one.maximum, target=f"gp3 {ID}"))
    other = dataclasses.replace(other, maximum=dataclasses.replace(other.maximum, target=f"io2 {ID[:-1]}1"))
    said = texts(curves_picture([one, other]).svg)
    assert {"gp3", "io2", "latency over load: gp3 against io2"} <= set(said)
    assert not any("vol-" in text for text in said)


def test_a_long_title_and_its_subtitle_are_wrapped_and_never_cut():
    words = [f"word{number}" for number in range(60)]
    said = " ".join(texts(curves_picture([curve_of()], title=" ".join(words)).svg))
    assert all(word in said for word in words)
    assert "…" not in said


def names_crossed(svg):
    """Return the names of ceilings through which the upright line of a ceiling goes."""
    root = ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    lines = []
    for path in root.iter(f"{space}path"):
        points = re.findall(r"[ML] ([\d.]+) ([\d.]+)", path.get("d", ""))
        if len(points) == 2 and points[0][0] == points[1][0] and "stroke-dasharray" in path.get("style", ""):
            lines.append((float(points[0][0]), *sorted(float(y) for _, y in points)))
    rows = {"".join(each.itertext()).strip(): float(each.get("y")) for each in root.iter(f"{space}text")}
    return [
        text
        for text, left, right in placed(svg)
        if text.endswith((" IOPS", ")")) and "EBS" in text
        for x, top, bottom in lines
        if left + 1 < x < right - 1 and top < rows[text] - 4 < bottom
    ]


def test_no_ceiling_s_line_goes_through_the_name_of_another():
    corners = [
        curve_of(mix="4k-random-read", **ON_30),
        curve_of(17_360, mix="64k-sequential-read", outstanding=480, **ON_30),
    ]
    svg = curves_picture(corners).svg
    assert b"stroke-dasharray" in svg
    assert names_crossed(svg) == []


def test_curves_differ_by_more_than_colour():
    assert len(set(MARKERS)) == MOST_CURVES


def test_curves_without_knee_ceiling_or_tail_are_drawn_too():
    bare = curve_of(percents=(10, 50))
    said = texts(curves_picture([bare]).svg)
    assert bare.knee is None
    assert not any("knee" in text for text in said)


def test_a_line_without_points_is_not_drawn():
    empty, drawing = Drawing(1.0).rendered("empty"), Drawing(1.0)
    drawing.line([], "black")
    assert drawing.rendered("empty") == empty


@pytest.mark.parametrize("name", ["curve", "curve.svg", "curve.png", "by.mix"])
def test_both_files_are_in_the_same_folder(tmp_path, name):
    svg, png = plot_curves(curve_of(), to=tmp_path / name)
    assert svg.suffix == ".svg"
    assert png == svg.with_suffix(".png")
    assert svg.read_bytes().startswith(b"<?xml")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert name.removesuffix(".svg").removesuffix(".png") == svg.stem


def test_invalid_curves_are_refused():
    with pytest.raises(ValueError, match="0 curves were given for one picture"):
        curves_picture([])
    with pytest.raises(ValueError, match="7 curves"):
        curves_picture([curve_of()] * 7)
    with pytest.raises(ValueError, match="2 curves and 1 labels"):
        curves_picture([curve_of()] * 2, labels=["one"])


@pytest.fixture
def without_matplotlib(monkeypatch):
    imported = builtins.__import__

    def refuse(name, *rest):
        if name.partition(".")[0] == "matplotlib":
            raise ImportError("No module named 'matplotlib'", name="matplotlib")
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)


def test_without_matplotlib_the_extra_is_named(without_matplotlib, tmp_path):
    with pytest.raises(PlotsMissing, match=r"pip install 'pytest-cloudbench\[plots\]'"):
        plot_curves(curve_of(), to=tmp_path / "curve")
    assert list(tmp_path.iterdir()) == []


def test_the_names_of_ceilings_stay_within_the_picture_and_beside_their_lines():
    corners = [
        curve_of(mix="4k-random-read", **ON_30),
        curve_of(mix="4k-random-write", outstanding=1_920, **ON_30),
        curve_of(17_360, mix="64k-sequential-read", outstanding=480, **ON_30),
        curve_of(17_360, mix="64k-sequential-write", outstanding=240, **ON_30),
    ]
    svg = curves_picture(corners).svg
    said = list(placed(svg))
    note = next(number for number, (text, *_) in enumerate(said) if text.startswith("Higher"))
    names = [
        text for text in said[:note] if "EBS" in text[0] or "random-write)" in text[0] or "gp2 v" in text[0]
    ]
    assert any(text.startswith("i3.metal EBS throughput, 17,360 IOPS") for text, *_ in names)
    for text, left, right in names:
        assert left > 0, text
        assert right < (WIDTH_IN - 2.75) * 72 + 1, text


def test_a_long_figure_and_its_latency_stand_below_each_other():
    said = texts(curves_picture([curve_of(12_802_904, outstanding=4_470, **ON_30)]).svg)
    assert "maximum 12,802,904 IOPS" in said
    assert "at 0.35 ms" in said


def test_lines_of_the_png_are_as_thick_as_those_of_the_svg():
    """A ceiling is 1.1 points wide, which is two or three pixels."""
    from PIL import Image

    image = Image.open(io.BytesIO(curves_picture([curve_of(**ON_30)]).png)).convert("L")
    row = image.height - 150
    dark = [x for x in range(image.width) if min(image.getpixel((x, y)) for y in range(row - 30, row)) < 170]
    wall = [x for x in dark if 895 < x < 915]
    assert 2 <= len(wall) <= 3
