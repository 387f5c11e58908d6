"""Mixes: valid and invalid ones, the bundled ones, and a project's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench import Size
from pytest_cloudbench.workloads.sweep.errors import BadMix, UnknownMix
from pytest_cloudbench.workloads.sweep.mixes import Mix, Skew
from pytest_cloudbench.workloads.sweep.named_mixes import (
    FILE_NAME,
    FOUR_CORNERS,
    MIXES,
    OUR_OWN,
    find_mix,
    read_mixes,
)

SHOP = {"blocks": {"8k": 90, "64k": 10}, "read_percent": 75, "random_percent": 100, "source": OUR_OWN}


def shop(**changes):
    return Mix.of("shop", **{**SHOP, **changes})


@pytest.mark.parametrize("mix", MIXES.values(), ids=lambda mix: mix.name)
def test_every_bundled_mix_has_a_published_source_or_is_our_own(mix):
    assert MIXES[mix.name] is mix
    assert mix.source == OUR_OWN or any(digits in mix.source for digits in ("2018", "2009", "Orion"))
    assert Size.parse("4k") <= mix.block_size <= Size.parse("1m")


def test_all_kinds_of_mixes_are_bundled():
    assert set(FOUR_CORNERS) <= set(MIXES)
    for family in ("sql-like", "oracle-like"):
        assert [MIXES[f"{family}{share}"].read_percent for share in ("", "-90-10", "-80-20")] == [100, 90, 80]
        assert MIXES[family].skew == Skew(80, 20)
        assert MIXES[family].source == OUR_OWN
    assert {"oltp", "olap", "vdi-boot", "vdi-initial-login", "vdi-monday-login"} <= set(MIXES)
    for name in ("vdi-boot", "vdi-initial-login", "vdi-monday-login"):
        assert MIXES[name].source == OUR_OWN


def test_no_mix_has_the_name_of_a_workload_with_unpublished_parameters():
    theirs = {
        "sql",
        "sql-90-10",
        "sql-80-20",
        "oracle",
        "oracle-90-10",
        "oracle-80-20",
        "vdi-linked-clone-boot",
    }
    assert not theirs & set(MIXES)


def test_a_mix_as_text_and_plain_values():
    mix = shop(skew=Skew(80, 20))
    assert mix.block_size == Size(int((8192 * 90 + 65536 * 10) / 100))
    assert mix.largest_block == Size.parse("64k")
    assert (mix.pattern, mix.sequential, mix.writes) == ("randrw", False, True)
    assert str(mix) == "8k 90 %, 64k 10 %; 75 % reads; 100 % random; 80 % of the I/O to 20 % of the space"
    assert mix.to_dict()["blocks_percent"] == {"8192": 90, "65536": 10}
    assert mix.skew.fio_text == "zoned:80/20:20/80"
    assert Skew(zipf=1.2).fio_text == "zipf:1.2"


@pytest.mark.parametrize(
    ("reads", "random", "pattern"),
    [
        (100, 100, "randread"),
        (0, 100, "randwrite"),
        (100, 0, "read"),
        (0, 0, "write"),
        (50, 0, "rw"),
        (50, 1, "randrw"),
    ],
)
def test_fio_pattern(reads, random, pattern):
    assert shop(read_percent=reads, random_percent=random).pattern == pattern


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"blocks": {"8k": 90}}, "add up to 90 %, not 100"),
        ({"blocks": {}}, "no block size"),
        ({"blocks": {"8k": 50, "8192": 50}}, "given twice"),
        ({"blocks": {"1000": 100}}, "multiple of 512 bytes"),
        ({"blocks": {"32m": 100}}, "up to 16 MiB"),
        ({"blocks": {"large": 100}}, "large"),
        ({"blocks": {"8k": 99.5, "4k": 0.5}}, "0.5: use a whole number of per cent"),
        ({"read_percent": 101}, "read_percent is 101"),
        ({"read_percent": True}, "read_percent is True"),
        ({"random_percent": -1}, "random_percent is -1"),
        ({"source": " "}, "no source"),
        ({"random_percent": 0, "skew": Skew(80, 20)}, "is sequential"),
    ],
)
def test_an_invalid_mix_is_refused(changes, words):
    with pytest.raises(BadMix, match=words):
        shop(**changes)


@pytest.mark.parametrize(
    "skew", [(20, 80), (80, 80), (100, 20), (80, 0), (0, 0, 1.0), (80, 20, 1.2), (0, 0, -1.0), (0, 0, 12.0)]
)
def test_an_invalid_skew_is_refused(skew):
    with pytest.raises(BadMix, match="skew"):
        Skew(*skew)


@given(
    st.dictionaries(st.sampled_from(["512", "4k", "8k", "16k", "64k", "1m"]), st.integers(1, 99), min_size=1)
)
def test_shares_must_add_up_to_a_hundred(blocks):
    if sum(blocks.values()) == 100:
        mix = shop(blocks=blocks)
        assert mix.block_size <= mix.largest_block
    else:
        with pytest.raises(BadMix):
            shop(blocks=blocks)


def test_an_unknown_mix_is_refused_with_the_nearest_names():
    with pytest.raises(UnknownMix, match="unknown mix '4k-randon-read': did you mean 4k-random-read"):
        find_mix("4k-randon-read", {})
    with pytest.raises(UnknownMix, match=r"use 4k-random-read, .*vdi-monday-login"):
        find_mix("???", {})
    with pytest.raises(UnknownMix):
        find_mix(7, {})
    assert find_mix("shop", {"shop": shop()}) == shop()
    assert find_mix(shop(), {}) == shop()


def written(tmp_path, text):
    path = tmp_path / FILE_NAME
    path.write_text(text)
    return path


GOOD = """
[mixes.shop]
blocks = { 8k = 90, 64k = 10 }
read_percent = 75
random_percent = 100
source = "our own"

[mixes.skewed]
blocks = { 4k = 100 }
read_percent = 100
random_percent = 100
skew = { zipf = 1.2 }
source = "a paper of 2020"
"""


def test_a_project_s_own_mixes(tmp_path):
    found = read_mixes(written(tmp_path, GOOD))
    assert found["shop"] == shop()
    assert found["skewed"].skew == Skew(zipf=1.2)
    assert read_mixes(tmp_path / "none.toml") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[mixes.shop", "is not valid TOML"),
        ("[mixes.shop]\nread_percent = 1", "lacks blocks, random_percent, source"),
        ("mixes = 3", r"tables named \[mixes.NAME\]"),
        ("[mixes]\n[other]", r"tables named \[mixes.NAME\]"),
        (GOOD.replace("shop", "oltp"), "mix 'oltp' is bundled with the plugin"),
        (GOOD.replace("read_percent", "reads"), "unknown keys reads: use"),
        (GOOD.replace("= 90", "= 80"), "add up to 90 %, not 100"),
        (GOOD.replace("{ 8k = 90, 64k = 10 }", "90"), "blocks must be a table"),
        (
            GOOD.replace("zipf = 1.2", "percent_of_io = 80.5, percent_of_space = 20"),
            "percent_of_io must be a whole number",
        ),
        (GOOD.replace("zipf = 1.2", "percent_of_io = 10, percent_of_space = 20"), "larger one"),
        (GOOD.replace("{ zipf = 1.2 }", "'hot'"), "skew of mix 'skewed' must be a table"),
        (GOOD.replace('"our own"', "7"), "source must be text"),
    ],
)
def test_an_invalid_file_is_refused_with_the_reason(tmp_path, text, words):
    path = written(tmp_path, text)
    with pytest.raises(BadMix, match=words) as raised:
        read_mixes(path)
    assert str(path) in str(raised.value)
