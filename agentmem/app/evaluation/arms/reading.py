"""Directories of `agentmem arms`, a seed each, as one report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentmem.app.evaluation.arms.plan import ARMS, FILE, Manifest, read_manifest
from agentmem.app.evaluation.arms.playing import TRIALS, lines_in
from agentmem.evaluation.arms import NONE, ArmsReport, arms_report
from agentmem.evaluation.lines import TrialLine
from agentmem.failures import ConfigError


def are_arms(targets: Sequence[str]) -> bool:
    """Whether all of these are directories of arms."""
    return all((Path(target) / FILE).is_file() for target in targets)


def report_of(folders: Sequence[Path]) -> ArmsReport:
    """Raises ConfigError: a seed twice, another agent or other tasks, nothing played."""
    manifests = {folder: read_manifest(folder / FILE) for folder in folders}
    _check(manifests)
    arms: dict[str, dict[int, list[TrialLine]]] = {}
    for folder, manifest in manifests.items():
        for line in lines_in(folder / TRIALS):
            arms.setdefault(line.condition, {}).setdefault(manifest.seed, []).append(line)
    if NONE not in arms:
        raise ConfigError(f"{', '.join(map(str, folders))}: the arm 'none' wasn't played yet")
    ordered = {arm: arms[arm] for arm in ARMS if arm in arms}
    return _noted(arms_report(ordered), manifests)


def _check(manifests: dict[Path, Manifest]) -> None:
    (first, one), *others = manifests.items()
    seeds = {one.seed: first}
    for folder, manifest in others:
        if manifest.seed in seeds:
            raise ConfigError(
                f"{seeds[manifest.seed]} and {folder} both hold seed {manifest.seed}: each seed counts once"
            )
        seeds[manifest.seed] = folder
        for key in {**one.plays, **manifest.plays}:
            here, there = one.plays.get(key), manifest.plays.get(key)
            if here != there:
                raise ConfigError(
                    f"{first} and {folder} were played with differing settings: {key} {here!r} and {there!r}"
                )


def _noted(report: ArmsReport, manifests: dict[Path, Manifest]) -> ArmsReport:
    """With what differs between the seeds and may."""
    (_, one), *others = manifests.items()
    for folder, manifest in others:
        if manifest.bank.digest != one.bank.digest:
            report.notes.append(
                f"seed {manifest.seed} ({folder}) has another bank than seed {one.seed}: "
                f"{manifest.bank.path} and {one.bank.path}"
            )
        if manifest.asks != one.asks:
            keys = [key for key in manifest.asks if manifest.asks[key] != one.asks.get(key)]
            report.notes.append(f"seeds {one.seed} and {manifest.seed} differ in {', '.join(keys)}")
    return report
