"""Run moto's own tests of EC2 in server mode against the region's API, each on an empty region.

The path is that of a checkout of moto's repository; nothing of it is part of this project. The images of its tests are
replaced by one of the region's. Exit code 1 if a test fails that docs/region.md does not list, or if one passes that it
lists. Needs root, and what moto's tests import (freezegun, requests); takes minutes, since every instance boots.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from region_process import ServingRegion, serving_region

PAGE = Path(__file__).parents[1] / "docs" / "region.md"
FILES = (
    "availability_zones_and_regions",
    "elastic_block_store",
    "general",
    "instance_type_offerings",
    "instance_types",
    "instances",
    "key_pairs",
    "launch_templates",
    "security_groups",
    "tags",
)


class OnRegion:
    """A pytest plugin that gives every test an empty region."""

    def __init__(self, region: ServingRegion) -> None:
        self._region = region
        self.outcomes: dict[str, tuple[str, str]] = {}

    def pytest_runtest_setup(self) -> None:
        self._region.renew()

    def pytest_runtest_logreport(self, report: Any) -> None:
        name = report.nodeid.rpartition("/")[2].removeprefix("test_").replace(".py::", "::")
        if report.failed:
            self.outcomes[name] = ("failed", str(report.longrepr).strip().splitlines()[-1])
        elif report.when == "call" or report.skipped:
            self.outcomes.setdefault(name, (report.outcome, ""))


def known_failures() -> dict[str, str]:
    """Return the reasons for failures that docs/region.md lists, by test."""
    table = PAGE.read_text(encoding="utf-8").partition("<!-- moto's tests: begin -->")[2].partition("<!--")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if "::" in line]
    return {row[0].strip("`"): row[1] for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="a checkout of github.com/getmoto/moto")
    parser.add_argument("--only", nargs="*", choices=FILES, default=FILES, help="these test files")
    parser.add_argument("-k", default="", help="as of pytest")
    options = parser.parse_args()
    with serving_region() as region:
        os.environ.update(
            TEST_SERVER_MODE="true",
            TEST_SERVER_MODE_ENDPOINT=region.url,
            MOTO_CALL_RESET_API="false",
            AWS_ACCESS_KEY_ID=region.key_id,
            AWS_SECRET_ACCESS_KEY=region.secret,
            AWS_DEFAULT_REGION="us-east-1",
        )
        for name in ("AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
            os.environ.pop(name, None)
        image = region.image()
        sys.path.insert(0, str(options.checkout))
        import pytest
        from moto.core.config import default_user_config

        import tests  # moto's

        default_user_config["core"]["mock_credentials"] = False  # type: ignore[typeddict-item]
        tests.EXAMPLE_AMI_ID = image
        _send_all_to_this_region()
        on_region = OnRegion(region)
        files = [str(options.checkout / "tests" / "test_ec2" / f"test_{name}.py") for name in options.only]
        pytest.main(
            ["-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:cloudbench", "--tb=short", "-W", "ignore",
             "-k", options.k, f"--rootdir={options.checkout}", *files],
            plugins=[on_region],
        )  # fmt: skip
    sys.exit(judge(on_region.outcomes) if on_region.outcomes else "no test ran")


def _send_all_to_this_region() -> None:
    """Let clients of any region be clients of this one, and name its zones."""
    import boto3

    for name in ("client", "resource"):
        made = getattr(boto3, name)

        def make(
            service: str, region_name: str = "", *more: Any, made: Callable[..., Any] = made, **options: Any
        ) -> Any:
            return made(service, "us-east-1", *more, **options)

        setattr(boto3, name, make)
    boto3.setup_default_session()
    events = boto3._get_default_session().events
    events.register("before-parameter-build.ec2", lambda params, **_: _rename_zones(params))


def _rename_zones(value: Any) -> Any:
    """Replace the names of zones in a request by those of us-east-1."""
    if isinstance(value, str):
        return re.sub("^[a-z]{2}-[a-z]+-[0-9]([a-d])$", r"us-east-1\1", value)
    places = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(places):
        value[key] = _rename_zones(inner)
    return value


def judge(outcomes: dict[str, tuple[str, str]]) -> int:
    """Print what differs from the documented failures; return 1 if anything does, otherwise 0."""
    known = known_failures()
    failed = {name: text for name, (outcome, text) in outcomes.items() if outcome == "failed"}
    skipped = sum(outcome == "skipped" for outcome, _ in outcomes.values())
    passed = len(outcomes) - len(failed) - skipped
    print(
        f"\n{passed} passed, {skipped} skipped, {len(failed)} failed, of which {len(known.keys() & failed)} are listed"
    )
    for name in sorted(failed.keys() - known.keys()):
        print(f"not listed: {name}: {failed[name]}")
    healed = sorted(name for name in known.keys() & outcomes.keys() if outcomes[name][0] == "passed")
    for name in healed:
        print(f"listed, but it passes: {name}")
    return int(bool(failed.keys() - known.keys() or healed))


if __name__ == "__main__":
    main()
