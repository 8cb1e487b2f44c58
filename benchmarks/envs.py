"""How fast environments are, a JSON line each: `python -m benchmarks.envs [NAME ...] [--seconds S]`."""

from __future__ import annotations

import argparse
import json

from envs.play import bench
from envs.registry import ENVIRONMENTS

SETTINGS: dict[str, list[dict[str, object]]] = {
    "minesweeper": [
        {"size": 4, "mines": 3, "max_clicks": 6, "max_turns": 6, "format": "compact"},
        {},
        {"size": 6, "mines": 6},
    ],
    "sokoban": [{}, {"boxes": 1}, {"size": 8}],
}
"""What is measured of each environment; one that isn't listed is measured with its defaults."""


def main() -> None:
    """Measure the named environments, or all light ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="environments (default: all light ones)")
    parser.add_argument("--seconds", type=float, default=3.0, help="duration of each measurement")
    asked = parser.parse_args()
    for name in asked.names or [name for name, entry in ENVIRONMENTS.items() if entry.light]:
        for options in SETTINGS.get(name, [{}]):
            measured = bench(name, options, seconds=asked.seconds)
            figures = {key: round(value, 3) for key, value in measured.items()}
            print(json.dumps({"environment": name, "options": options, **figures}))


if __name__ == "__main__":
    main()
