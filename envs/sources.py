"""Where the environments' data come from: one entry a file, with its public home, if it has one.

Sizes and checksums are those of the content as it is published; a file that is stored packed is packed by
us, so its own bytes may differ. An entry without a URL has no public home that can be downloaded from;
`note` says what it is and how to come by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_HUB = "https://raw.githubusercontent.com"
_BOXOBAN = f"{_HUB}/google-deepmind/boxoban-levels/78011d8"
_POA = f"{_HUB}/ivowang/PoA"
_SHOP = f"{_HUB}/princeton-nlp/WebShop/64fa2a5"
_SMALL_SHOP = f"{_HUB}/WillDreamer/webshop-minimal/e6c869d"


@dataclass(frozen=True, slots=True)
class Source:
    """A file of the data directory. `size` in bytes and `sha256` are its content's, unpacked."""

    env: str
    path: str
    size: int
    sha256: str
    url: str | None = None
    packing: Literal["", "gzip", "xz"] = ""
    note: str = ""


SOURCES: tuple[Source, ...] = (
    Source(
        "alfworld",
        "alfworld/alfworld_full_3827games.tar.xz",
        7497656,
        "e8d18717b6fbd9cbeee91d9b5388156deac79a6c191e54d72e1abf888cc760fa",
        note="all games of the official split, from ALFWorld's json_2.1.1: see docs/environments/alfworld.md",
    ),
    Source(
        "webshop",
        "webshop/items_shuffle_1000.json.gz",
        2747586,
        "472d2b756304ec53317dc4ed78e039b77db9a56f0384dda0002056cb498b1395",
        packing="gzip",
        note="the official 1,000 products; recovered from the index of WillDreamer/webshop-minimal @ e6c869d",
    ),
    Source(
        "webshop",
        "webshop/items_ins_v2_1000.json",
        147099,
        "f88a36314a397b53b3d9c3fa5878e5f7b26d35019a51ec83fbedeca61a948f6f",
        url=f"{_SMALL_SHOP}/webshop_minimal/data/small/items_ins_v2_1000.json",
    ),
    Source(
        "webshop",
        "webshop/items_human_ins_subset13.json",
        4731,
        "68091da509e72e251d8afc33c665ae3ae79f7385db57df546d73a0eb53de2818",
        note="the 13 human instructions for the 1,000 products, from the same index",
    ),
    Source(
        "webshop",
        "webshop/human_goals.json.gz",
        999419,
        "b68746ed66cd31fdc5f70eb3f5831a46b38163563b57a66ddcab8fd60ee0cbdc",
        url=f"{_SHOP}/baseline_models/data/human_goals.json",
        packing="gzip",
    ),
    Source(
        "sokoban",
        "boxoban/unfiltered_train_000.txt.gz",
        116890,
        "674dda499261deface252c90077ae67181b5c7704c235baf0dd0bd2d16bf072e",
        url=f"{_BOXOBAN}/unfiltered/train/000.txt",
        packing="gzip",
    ),
    Source(
        "sokoban",
        "boxoban/unfiltered_test_000.txt.gz",
        116890,
        "272928a4e7c185fdf84daa523b298750b6ff08703cb0c20d3be7eff93acc5256",
        url=f"{_BOXOBAN}/unfiltered/test/000.txt",
        packing="gzip",
    ),
    Source(
        "sokoban",
        "boxoban/medium_valid_000.txt.gz",
        116890,
        "b30ccde2aeb8192a0b49e53a016fe744ae4a67eb01560b1d0bec251695e03e5b",
        url=f"{_BOXOBAN}/medium/valid/000.txt",
        packing="gzip",
    ),
    Source(
        "sokoban",
        "boxoban/hard_000.txt.gz",
        116890,
        "c320e8b1f5a26be7a85dff18147a7decae3c5e765c38ff56e30ebf8551d331f4",
        url=f"{_BOXOBAN}/hard/000.txt",
        packing="gzip",
    ),
    Source(
        "lab-db",
        "lab/db_entry_dict.json.xz",
        2558507,
        "4fb6441aa454ff6edab54a5971046054fda57ea78d362138a82be7b7eeb5f656",
        url=f"{_POA}/81e8f99/data/v0303/db_bench/processed/v0317_first500/entry_dict.json",
        packing="xz",
    ),
    Source(
        "lab-db",
        "lab/db_ids_engine_independent.json",
        2754,
        "bdb325c5dcff5b2c30c93dac033c234448cc0bc2ef4d517b9efecaf0cc8bf677",
        note="the ids of the 406 tasks that SQLite and MariaDB agree on; without it, set tasks=all",
    ),
    Source(
        "lab-os",
        "lab/os_entry_dict.json.xz",
        734297,
        "a794184ee9d9de5e5a1b9c2039ce8d25531daed0d6a98b69bc74825b7c2915aa",
        url=f"{_POA}/6b0d313/data/v0303/os_interaction/processed/v0409_tcc_9_to_12_first500/entry_dict.json",
        packing="xz",
    ),
    Source(
        "lab-os",
        "lab/os_ids_validated_unshare.json",
        3344,
        "aad78f5fbf214f02201dd55e5a0accab1431f39c1d63c48fdd8d27b8ef8cb11b",
        note="the ids of the 493 tasks whose gold script passes in a box; without it, set tasks=all",
    ),
)


def sources(env: str) -> list[Source]:
    """The files of an environment, or of all of them (`all`). Empty: it needs none, or isn't known."""
    return [source for source in SOURCES if env in ("all", source.env)]
