"""The tables of docs/region.md: `python tests/twin_api/offered_tables.py docs/region.md` writes them into the page."""

from __future__ import annotations

import sys
from pathlib import Path

from pytest_cloudbench.twin.api.listing import listing_of
from pytest_cloudbench.twin.api.moto_loading import load_moto
from pytest_cloudbench.twin.api.offered import ACTIONS, OFFERED

BEGIN, END = "<!-- offered actions: begin -->\n", "<!-- offered actions: end -->\n"


def documented_table() -> str:
    """Return the tables between their markers: the actions, and the filters of describe actions."""
    lines = ["| about | actions |", "|---|---|"]
    lines += [f"| {about} | {', '.join(actions)} |" for about, actions in OFFERED.items()]
    lines += ["", "| action | filters | filters of EC2 that are refused |", "|---|---|---|"]
    for action in sorted(ACTIONS):
        listing = listing_of(action)
        if listing is not None and listing.filters is not None:
            offered, refused = listing.filters.offered, listing.filters.not_offered
            lines.append(f"| {action} | {code(offered)} | {code(refused)} |")
    return "".join([BEGIN, *(f"{line}\n" for line in lines), END])


def code(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    load_moto()
    page = Path(sys.argv[1])
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    page.write_text(before + documented_table() + rest.partition(END)[2], encoding="utf-8")
