"""No text of any picture covers another, is cut, or leaves the sheet; no label hides a line that it does not name."""

import itertools
import re
import xml.etree.ElementTree as ElementTree

import pytest

pytest.importorskip("matplotlib")

from drawn_gallery import GALLERY

from pytest_cloudbench.reports.plots.drawing import WIDTH_IN, length_pt

SVG = "{http://www.w3.org/2000/svg}"


def boxes(picture):
    """Return the texts of a picture and their left, top, right and bottom, in points."""
    found = []
    for each in ElementTree.fromstring(picture.svg).iter(f"{SVG}text"):
        text, style = "".join(each.itertext()).strip(), each.get("style")
        size = float(re.search(r"font-size: ([0-9.]+)px", style).group(1))
        width = length_pt(text, size, "bold" in style)
        left = float(each.get("x")) - width * {"start": 0, "middle": 0.5, "end": 1}[each.get("text-anchor")]
        y = float(each.get("y"))
        found.append((text, (left, y - 0.73 * size, left + width, y + 0.2 * size)))
    return found


@pytest.mark.parametrize("case", GALLERY)
def test_texts_stay_apart_and_on_the_sheet(case):
    for picture in GALLERY[case]():
        height = float(re.search(rb'<svg[^>]* height="([0-9.]+)pt"', picture.svg).group(1))
        found = boxes(picture)
        assert not [text for text, _ in found if "…" in text], picture.name
        outside = [
            text
            for text, (left, top, right, bottom) in found
            if left < 0 or top < 0 or right > WIDTH_IN * 72 or bottom > height
        ]
        assert not outside, picture.name
        covered = [
            (one, other)
            for (one, first), (other, second) in itertools.combinations(found, 2)
            if min(first[2], second[2]) - max(first[0], second[0]) > 1
            and min(first[3], second[3]) - max(first[1], second[1]) > 1
        ]
        assert not covered, picture.name


@pytest.mark.parametrize("case", GALLERY)
def test_names_of_percentiles_hide_no_line(case):
    for picture in GALLERY[case]():
        if picture.name != "latency distribution":
            continue
        names = [box for text, box in boxes(picture) if re.match(r"(median|p\d+(\.9)?) ", text)]
        assert names
        for path in re.findall(r'<path d="([^"]*)"[^>]*clip-path', picture.svg.decode()):
            points = [(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", path)]
            for (x0, y0), (x1, y1) in itertools.pairwise(points):
                for left, top, right, bottom in names:
                    across = min(x0, x1) < right and max(x0, x1) > left
                    assert not (across and min(y0, y1) < bottom and max(y0, y1) > top), picture.name
