"""The files around the code: the README's links, the project's address, CI."""

import re
from importlib.metadata import metadata
from pathlib import Path

import pytest

import pytest_cloudbench

ROOT = Path(__file__).resolve().parents[1]
HOME = "https://github.com/pytest-cloudbench/pytest-cloudbench"


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def anchors(text):
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(links, folder):
    """Return the links, relative to a folder, that lead to no file or to no heading of it."""
    found = []
    for link in links:
        name, _, anchor = link.partition("#")
        target = ROOT / folder / name
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            found.append(link)
    return found


def test_links_of_the_readme_are_absolute_so_that_they_work_on_a_package_index():
    links = re.findall(r"\]\(([^)]+)\)", read("README.md"))
    ours = [link.removeprefix(f"{HOME}/blob/main/") for link in links if link.startswith(HOME)]
    assert [link for link in links if not link.startswith("https://")] == []
    assert len(ours) > 10
    assert broken(ours, "") == []


@pytest.mark.parametrize(
    "page", ["CONTRIBUTING.md", *(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("docs/**/*.md")))]
)
def test_links_of_the_documentation_lead_somewhere(page):
    links = re.findall(r"\]\(([^)]+)\)", read(page))
    relative = [
        link if not link.startswith("#") else Path(page).name + link for link in links if ":" not in link
    ]
    assert broken(relative, Path(page).parent) == []


def test_the_project_has_one_address_and_one_version():
    urls = re.findall(r'^\w+ = "(https://github\.com/[^"]+)"', read("pyproject.toml"), re.MULTILINE)
    assert len(urls) == 5
    assert [url for url in urls if not url.startswith(HOME)] == []
    assert metadata("pytest-cloudbench")["Version"] == pytest_cloudbench.__version__


@pytest.mark.parametrize("name", [".github/workflows/ci.yml", ".gitlab-ci.yml"])
def test_ci_only_calls_the_script_that_everybody_can_run(name):
    yaml = pytest.importorskip("yaml")
    text = read(name)
    document = yaml.safe_load(text)
    jobs = document.get("jobs", document)
    steps = jobs["ci"].get("steps", [{"run": line} for line in jobs["ci"].get("script", [])])
    assert [step["run"] for step in steps if "run" in step] == [".ci/run"]
    for version in ("3.10", "3.11", "3.12", "3.13"):
        assert f'"{version}"' in text


def test_every_supported_python_has_an_environment_of_its_own():
    classifiers = re.findall(r"Python :: (3\.\d+)", read("pyproject.toml"))
    assert classifiers == ["3.10", "3.11", "3.12", "3.13"]
    assert "py3{10,11,12,13}-tests" in read("tox.ini")


@pytest.mark.parametrize(
    ("shape", "member"),
    [
        ("EbsInfo", "EbsCards"),
        ("AttachVolumeRequest", "EbsCardIndex"),
        ("VolumeAttachment", "EbsCardIndex"),
        ("NetworkInfo", "BandwidthWeightings"),
        ("NetworkInfo", "EnaSrdSupported"),
        ("RunInstancesRequest", "NetworkPerformanceOptions"),
        ("Instance", "NetworkPerformanceOptions"),
        ("InstanceNetworkInterfaceSpecification", "EnaSrdSpecification"),
    ],
)
def test_the_oldest_botocore_that_is_allowed_has_what_the_package_reads_and_asks_for(shape, member):
    """A botocore without a member drops it from answers without a word, and refuses it in requests."""
    import botocore.session

    model = botocore.session.get_session().get_service_model("ec2")
    assert member in model.shape_for(shape).members
    [oldest] = re.findall(r'"boto3>=([\d.]+)"', read("pyproject.toml"))
    # Botocore's releases have these numbers too; 1.42.31 has no EBS cards.
    assert tuple(map(int, oldest.split("."))) >= (1, 42, 32)
