"""Write docs/reference/ from the code: `python .ci/reference_pages.py`, as `tox -e docs` does.

The pages are kept in the repository, so that they can be read where no site is built; a test compares them with the
code.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from pathlib import Path

import griffe

from pytest_cloudbench.limits import durations, quantities
from pytest_cloudbench.limits.volume_types import VOLUME_TYPES
from pytest_cloudbench.options import OPTIONS
from pytest_cloudbench.plugin import MARKERS

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"
PACKAGE = "pytest_cloudbench"
NOTE = "<!-- Written by .ci/reference_pages.py from the code: change the code, then run `tox -e docs`. -->"

FIXTURE_MODULES = ("fixtures.fixtures", "fixtures.hosts", "fixtures.lifetimes")
CALLS = {
    "fio": ("FioCall", "FioOptions", "workloads.fio.job.FioJob"),
    "iperf3": ("Iperf3Call", "Iperf3Options", "workloads.iperf3.job.Iperf3Job"),
    "create_files": ("CreateFilesCall", "FilesOptions", "workloads.create_files.job.FilesJob"),
    "sweep": ("SweepCall", "SweepTimes", ""),
    "search_jobs": ("SearchCall", "", ""),
}
"""The fixtures that run a workload: the class of the value, what types its keywords, and what describes them."""
JUDGED = {
    "Measurement": ("run", "Of a run of fio, and of the `peak` of a sweep"),
    "NetworkMeasurement": ("run", "Of a run of iperf3"),
    "FileCreation": ("run", "Of a run of create_files"),
    "Curve": ("curve", "Of a sweep"),
}
TIMES = {"Measurement": ("latency", "Latency"), "NetworkMeasurement": ("rtt", "RoundTrips")}
"""The fields of measurements that are judged themselves, and their classes."""
RESULTS = (
    "Measurement", "Latency", "Direction", "Series", "DirectionSeries", "NetworkMeasurement", "RoundTrips",
    "StreamResult", "NetworkSeries", "FileCreation", "Curve", "Step", "Knee", "Cost",
)  # fmt: skip


def in_code(text: object) -> str:
    """Return a text as code in a cell of a table. Markdown has no way to write "|" there that all renderers share."""
    if "|" not in str(text):
        return f"`{text}`"
    return f"<code>{html.escape(str(text), quote=False).replace('|', '&#124;')}</code>"


def words(thing: griffe.Object | None, *, all_of_it: bool = False) -> str:
    """Return the first paragraph of a docstring, or all of it, as Markdown."""
    if thing is None or thing.docstring is None:
        raise ValueError(f"{thing and thing.path} has no docstring")
    paragraphs = re.sub(r"``(.+?)``", r"`\1`", thing.docstring.value).split("\n\n")
    text = "\n\n".join(" ".join(each.split()) for each in paragraphs)
    return text if all_of_it else text.partition("\n\n")[0]


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table; its cells are Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(cell or ' ' for cell in line)} |\n" for line in lines)


def is_public(member: griffe.Object | griffe.Alias) -> bool:
    return not member.name.startswith("_")


def is_verdict(member: griffe.Object | griffe.Alias) -> bool:
    """Return True for a method whose result is a verdict."""
    return member.is_function and is_public(member) and str(member.returns) == "Verdict"


def signature(function: griffe.Function, name: str) -> str:
    """Return a call with its parameters, defaults and types, one a line."""
    given = []
    for each in function.parameters:
        if each.name == "self" or each.kind is griffe.ParameterKind.var_positional:
            continue
        if each.kind is griffe.ParameterKind.keyword_only and "    *,\n" not in given:
            given.append("    *,\n")
        star = "**" if each.kind is griffe.ParameterKind.var_keyword else ""
        default = f" = {each.default}" if each.default is not None and not star else ""
        given.append(f"    {star}{each.name}: {each.annotation}{default},\n")
    return f"{name}(\n{''.join(given)}) -> {function.returns}"


def described(job: griffe.Object) -> dict[str, str]:
    """Return what a job's docstring says of each field: "iodepth: I/Os in flight per job."."""
    text = " ".join(words(job, all_of_it=True).split("\n\n")[1].split())
    pieces = re.split(r"(?:^|(?<=\. )|(?<=\) ))((?:\w+, )*\w+): ", text)
    return {
        name: said.strip().removesuffix(".")
        for names, said in zip(pieces[1::2], pieces[2::2], strict=True)
        for name in names.split(", ")
    }


def short_call(function: griffe.Function, owner: str) -> str:
    """Return a call with its parameters and defaults, without types."""
    given = [
        each.name if each.default is None else f"{each.name}={each.default}"
        for each in function.parameters
        if each.name != "self" and not each.kind.value.startswith("variadic")
    ]
    return f"{owner}{function.name}({', '.join(given)})"


def fixtures(package: griffe.Object) -> str:
    found = {}
    for module in FIXTURE_MODULES:
        for name, member in package[module].members.items():
            if member.is_alias or not is_public(member) or not member.is_function:
                continue
            marks = [str(each.value) for each in member.decorators]
            if any(mark.startswith("pytest.fixture") for mark in marks):
                found[name] = member
    rows = []
    for name, function in found.items():
        gives = re.sub(r"^Iterator\[(.+)\]$", r"\1", str(function.returns))
        rows.append((in_code(name), in_code(gives), words(function)))
    parts = [table(("fixture", "value", "what it is"), rows)]
    for name, (call, options, job) in CALLS.items():
        cls = package[call].final_target
        run = cls["__call__"]
        text = f"## {name}\n\n```text\n{signature(run, name)}\n```\n\n{words(run, all_of_it=True)}\n"
        if options:
            said = described(package[job]) if job else {}
            keywords = cls.module[options].members.values()
            rows = [
                (in_code(each.name), in_code(each.annotation), said.get(each.name, "")) for each in keywords
            ]
            text += "\n" + table(("keyword", "type", "meaning"), rows)
        parts.append(text)
    return "\n".join(parts)


def markers(package: griffe.Object) -> str:
    parts = []
    for marker in MARKERS:
        call, _, text = marker.partition("): ") if "): " in marker else marker.partition(": ")
        call += ")" if "(" in call else ""
        name = call.partition("(")[0]
        parts.append(f"## {name}\n\n```text\n@pytest.mark.{call}\n```\n\n{text[0].upper()}{text[1:]}.\n")
    return "\n".join((*parts, volume_specs(package)))


def volume_specs(package: griffe.Object) -> str:
    """Return the arguments of the functions that describe a volume, with the limits of each type."""
    module = package["limits.volumes"]
    described = [module[name] for name in VOLUME_TYPES if name in module.members]
    rows = []
    for function in described:
        kind = VOLUME_TYPES[function.name]
        others = [
            each.name
            for each in function.parameters
            if each.name not in ("size_gib", "iops", "throughput_mib")
        ]
        iops = allowed(kind.iops_range, kind.iops_default)
        if kind.iops_per_gib:
            free = kind.iops_free_of_ratio
            iops += f", at most {kind.iops_per_gib:,} per GiB{f' above {free:,}' if free else ''}"
        rows.append(
            (
                in_code(function.name),
                allowed(kind.size_range, None),
                iops,
                allowed(kind.throughput_range, kind.throughput_default),
                ", ".join(map(in_code, others)),
                words(function).removeprefix("Describe "),
            )
        )
    more = words(module["io1"], all_of_it=True).partition("\n\n")[2]
    head = (
        "function",
        "`size_gib`, GiB",
        "`iops`, a second",
        "`throughput_mib`, MiB/s",
        "also",
        "what it is",
    )
    return (
        "## Volume specs\n\nThe spec of `ebs_volume` and `ebs_volumes`, such as `gp3(size_gib=100, iops=6_000)`. "
        "Arguments are given by name, as plain numbers in the unit of their column.\n\n"
        f"{table(head, rows)}\n{more}\n"
    )


def allowed(bounds: tuple[int, int] | None, default: int | None) -> str:
    """Return the values of an argument and its default, if it has one; "" if a type does not take it."""
    if bounds is None:
        return ""
    return f"{bounds[0]:,} to {bounds[1]:,}, " + ("required" if default is None else f"default {default:,}")


def options(package: griffe.Object) -> str:
    def row(option) -> tuple[str, str]:
        flag = option.flag if option.switch else f"{option.flag}={option.shown_value.removeprefix('|')}"
        return f"{in_code(flag)}<br>{in_code(option.ini)}", escaped(option.help)

    return table(("option, ini name", "meaning"), map(row, OPTIONS))


def escaped(help_text: str) -> str:
    """Return the help of an option as the cell of a table."""
    return re.sub(r"(\{\w+\}|<\w+>)", r"`\1`", help_text.replace("%%", "%").replace("|", "&#124;"))


def expectations(package: griffe.Object) -> str:
    common = [each for each in package["workloads.judged.Judged"].members.values() if is_verdict(each)]
    several = package["scales_linearly"].final_target
    rows = [(in_code(short_call(each, "run.")), words(each)) for each in common]
    rows.append((in_code(short_call(several, "")), words(several)))
    parts = ["## Of every run\n\n" + table(HEAD, rows)]
    for name, (owner, title) in JUDGED.items():
        cls = package[name].final_target
        rows = [
            (in_code(short_call(each, f"{owner}.")), words(each))
            for each in cls.members.values()
            if is_verdict(each)
        ]
        if name in TIMES:
            field, kind = TIMES[name]
            rows += [
                (in_code(short_call(each, f"{owner}.{field}.")), words(each))
                for each in package[kind].final_target.members.values()
                if is_verdict(each)
            ]
        if rows:
            parts.append(f"## {title}\n\n" + table(HEAD, rows))
    return "\n".join(parts)


HEAD = ("expectation", "the question it answers")


def measurements(package: griffe.Object) -> str:
    parts = []
    for name in RESULTS:
        cls = package[name]
        rows = [
            (
                in_code(each.name),
                in_code(str(each.annotation).replace("MaybeNone", "None")),
                words(each) if each.docstring else "",
            )
            for each in cls.all_members.values()
            if each.is_attribute and is_public(each)
        ]
        parts.append(
            f"## {name}\n\n{words(cls, all_of_it=True)}\n\n" + table(("field", "type", "meaning"), rows)
        )
    return "\n".join(parts)


def units(package: griffe.Object) -> str:
    spelt: dict[str, list[str]] = {}
    for text, unit in quantities._SPELLINGS.items():
        spelt.setdefault(unit, []).append(in_code(usual(text)))
    rates = [
        (in_code(usual(unit)), f"{value:,.10g}", ", ".join(spelt[unit]))
        for unit, value in quantities._BYTES_PER_SECOND.items()
    ]
    sizes: dict[int, list[str]] = {}
    for text, value in quantities._SIZE_UNITS.items():
        sizes.setdefault(value, []).append(in_code(usual(text)) if text else "no unit")
    seconds = [(in_code(unit), f"{value:g}") for unit, value in durations._SECONDS.items()]
    by_size = ((f"{value:,}", ", ".join(dict.fromkeys(names))) for value, names in sorted(sizes.items()))
    iops = ", ".join(in_code(each) for each in sorted(quantities._IOPS_WORDS))
    return "\n".join(
        (
            f"## Rates\n\n{table(('unit', 'bytes a second', 'also written'), rates)}\nI/Os a second: {iops}.\n",
            f"## Sizes\n\n{table(('bytes', 'written'), by_size)}",
            f"## Durations\n\n{table(('unit', 'seconds'), seconds)}",
        )
    )


def usual(unit: str) -> str:
    """Return a unit with its prefix in the usual case: "miB/s", which is accepted too, is "MiB/s"."""
    known = re.match(r"[mgt](iB|B|bit|bps)|kiB", unit)
    return unit[0].upper() + unit[1:] if known else unit


PAGES = {
    "fixtures": (
        "Fixtures",
        "What a test asks for by the name of its parameter. Hardware is described by a [marker](markers.md) of the "
        "same name. Types are imported from `pytest_cloudbench`.",
        fixtures,
    ),
    "markers": ("Markers", "`pytest --markers` prints them too.", markers),
    "options": (
        "Options",
        "Each option is an ini setting too: `--cloudbench-pace=full` is `cloudbench_pace = full` in `pytest.ini`, or "
        '`cloudbench_pace = "full"` under `[tool.pytest.ini_options]` of `pyproject.toml`. The command line wins. The '
        "ini value of an option without a value is `on`. `pytest --help` prints them too.",
        options,
    ),
    "expectations": (
        "Expectations and verdicts",
        "An expectation returns a verdict: `held`, `violated` or `inconclusive`, with one sentence. `assert` passes if "
        "it is held. [How it is judged](../verdicts.md) has the rules.",
        expectations,
    ),
    "measurements": (
        "Measurements",
        "What a workload returns. A name ends in its unit: `_s` seconds, `_mib` MiB/s, `_gbit` Gbit/s, `_percent`. "
        "Fields of the types `Iops`, `Throughput`, `Bandwidth` and `Size` carry their unit: [units](units.md).",
        measurements,
    ),
    "units": (
        "Units",
        'Rates, sizes and durations in a test are texts with a unit, such as `"500 MiB/s"`, `"4k"` or `"5 ms"`. A rate '
        "or a duration without a unit is refused. The exceptions are plain numbers, whose unit is fixed: the times of "
        "workloads are seconds, so `fio(..., runtime=30)` runs for 30 s ([fixtures](fixtures.md)), and "
        "`gp3(size_gib=100, throughput_mib=250)` has 100 GiB and 250 MiB/s ([volume specs](markers.md#volume-specs)). "
        "A name with a unit compares with plain numbers: `run.iops > 2_900`, `run.throughput_mib > 120`. "
        "`Throughput` and `Bandwidth` have no unit of their own: compare their `.mib` or `.gbit`.",
        units,
    ),
}


def pages() -> dict[str, str]:
    """Return the text of each page by its name."""
    package = griffe.load(PACKAGE, search_paths=[str(ROOT)])
    return {
        name: f"# {title}\n\n{NOTE}\n\n{about}\n\n{make(package)}".rstrip() + "\n"
        for name, (title, about, make) in PAGES.items()
    }


if __name__ == "__main__":
    for name, text in pages().items():
        (FOLDER / f"{name}.md").write_text(text, encoding="utf-8")
