from __future__ import annotations

import pytest
from host_targets import HostTarget

from pytest_cloudbench.hosts.ssh import SshHost
from pytest_cloudbench.workloads.fio.errors import BadFioJob, FioRefused, UnknownFioOption
from pytest_cloudbench.workloads.fio.job import FioJob
from pytest_cloudbench.workloads.fio.options import fio_of, fio_words, parse_option_names, parse_other_name


def _check(directory: HostTarget, **options: object) -> None:
    job = FioJob.of(**({"rw": "randread", "size": "1m"} | options))  # type: ignore[arg-type]
    fio_of(directory.host).check(job, job.to_argv("directory", directory.paths))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"thread": True, "norandommap": 1, "random_distribution": "zipf:1.2"},
        {"userspace_reap": 1},
        {"ioengine": "io_uring", "hipri": 0},
        {"iodepth_batch_complete_min": 1},
        {"iodepth_batch_complete": 1},
        {"rate_iops": 100, "rate_process": "poisson"},
        {"hugepage-size": "2m"},
    ],
)
def test_options_that_fio_has_are_accepted(directory: HostTarget, options: dict[str, object]) -> None:
    _check(directory, **options)


@pytest.mark.parametrize(
    ("option", "near"),
    [("norandomap", "norandommap"), ("iodepht_batch", "iodepth_batch"), ("thinktme", "thinktime")],
)
def test_an_unknown_option_is_refused_with_similar_names(
    directory: HostTarget, option: str, near: str
) -> None:
    with pytest.raises(UnknownFioOption) as caught:
        _check(directory, **{option: 1})
    assert f"option {option!r}; nearest: " in str(caught.value)
    assert near in caught.value.nearest
    assert str(caught.value).startswith("fio-")


def test_an_alias_of_a_field_is_refused_in_favour_of_the_field(directory: HostTarget) -> None:
    with pytest.raises(BadFioJob, match="blocksize= is another name of bs=: use that one"):
        _check(directory, blocksize="4k")


def test_an_alias_of_a_refused_option_is_refused(directory: HostTarget) -> None:
    with pytest.raises(BadFioJob, match="another name of bsrange="):
        _check(directory, blocksize_range="4k-8k")


@pytest.mark.parametrize("wrong", [{"ioengine": "nosuch"}, {"thinktime": "soon"}, {"random_generator": "x"}])
def test_a_value_that_fio_refuses_is_reported_in_its_words(
    directory: HostTarget, wrong: dict[str, object]
) -> None:
    with pytest.raises(FioRefused, match=r"fio-\S+ refuses the job: \w+"):
        _check(directory, **wrong)


def test_the_options_of_a_host_s_fio_are_listed_once(
    directory: HostTarget, host: SshHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    _check(directory, thread=1)
    asked: list[tuple[str, ...]] = []
    run = host.run
    monkeypatch.setattr(
        host, "run", lambda argv, **options: asked.append(tuple(argv)) or run(argv, **options)
    )
    _check(directory)
    assert asked == []
    _check(directory, norandommap=1)
    assert len(asked) == 1
    assert "--parse-only" in asked[0]


def test_names_are_read_from_fios_listing() -> None:
    listing = "filename      : File(s)\n  lockfile    : Lock\nvery_long_name: Words: and more\n\nno listing\n"
    assert parse_option_names(listing) == {"filename", "lockfile", "very_long_name"}


def test_a_closest_match_is_not_an_alias() -> None:
    described = "                flow: Weight\n                type: integer\n"
    assert parse_other_name(f" - showing closest match\n{described}", "No such command: foo", "foo") is None
    assert parse_other_name("  bs: Block\n alias: blocksize\n", "", "blocksize") == "bs"
    assert parse_other_name("  bs: Block\n alias: blocksize\n", "", "other") is None


def test_fios_words_are_one_line_without_repetition() -> None:
    assert fio_words("fio: bad\nfio: bad\n\nfio: worse\n") == "bad; worse"
    assert fio_words("") == "it gave no reason"
