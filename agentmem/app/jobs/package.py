"""What a job brings to the cluster: the four packages, the recipe's file, and what was asked for besides.

A list of what goes, not of what stays behind: nothing of a working directory travels because it lay there.
Bytecode stays behind, and ignore files, which Ray would obey. A name that secrets have is refused. The
limit is the dashboard's for one request.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import agentmem
from agentmem.failures import ConfigError

LIMIT_BYTES = 100 << 20
ROOMS = ("agentmem", "actors", "learner", "envs")
NAMED = 5
"""Files that a refusal names."""
_LEFT = ("*.pyc", ".gitignore", ".rayignore")
_SECRET = (".env", ".env.*", "*.pem", "*.key", "id_rsa*", "id_ed25519*", "auth_token", ".netrc")


@dataclass(frozen=True, slots=True)
class Package:
    """Path within the package -> file here."""

    files: dict[str, Path]

    @property
    def size(self) -> int:
        """In bytes, before Ray packs it (it doesn't compress)."""
        return sum(path.stat().st_size for path in self.files.values())

    def __str__(self) -> str:
        return f"{self.size / 1e6:.1f} MB in {len(self.files)} files"

    def check(self, limit: int = LIMIT_BYTES) -> None:
        """Raise ConfigError, naming the largest files, if it is too large to be uploaded."""
        if self.size <= limit:
            return
        largest = sorted(((p.stat().st_size, name) for name, p in self.files.items()), reverse=True)[:NAMED]
        names = ", ".join(f"{name} ({size / 1e6:.1f} MB)" for size, name in largest)
        raise ConfigError(
            f"the job's files are {self}: more than {limit / (1 << 20):g} MiB can't be uploaded; the largest "
            f"are {names}; put data on a volume or into the image"
        )

    def copy_to(self, folder: Path) -> None:
        """Lay the files out there."""
        for name, path in self.files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)


def package(recipe: str, include: Sequence[Path] = (), *, code: bool = True) -> Package:
    """The files of a job. `recipe`: its name or file; `include`: files or folders below the working
    directory, which keep their places; `code` False: the nodes have the packages installed.

    Raises ConfigError for what isn't there, lies elsewhere, or has the name of a secret.
    """
    files: dict[str, Path] = {}
    if code:
        root = Path(agentmem.__file__).resolve().parents[1]
        for room in ROOMS:
            files |= {str(path.relative_to(root)): path for path in _files(root / room)}
    for wanted in [*map(Path, _recipe_files(recipe)), *include]:
        path = wanted.resolve()
        if not path.exists():
            raise ConfigError(f"--include {wanted}: no such file or folder")
        if not path.is_relative_to(Path.cwd()):
            raise ConfigError(
                f"{wanted}: lies outside the working directory {Path.cwd()}; only what is in it goes"
            )
        for file in _files(path) if path.is_dir() else [path]:
            _refuse_secret(file)
            files[str(file.relative_to(Path.cwd()))] = file
    return Package(dict(sorted(files.items())))


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and not _like(path, _LEFT):
            yield path


def _like(path: Path, patterns: Sequence[str]) -> bool:
    return any(fnmatch(path.name, pattern) for pattern in patterns)


def _refuse_secret(path: Path) -> None:
    if _like(path, _SECRET):
        raise ConfigError(
            f"{path}: has the name of a secret, and everything uploaded can be read by whoever reads the "
            "cluster; have it on the nodes"
        )


def _recipe_files(recipe: str) -> Iterator[str]:
    """The recipe's own file and those of its bases, as far as they are files."""
    import yaml

    while recipe.endswith((".yaml", ".yml")):
        yield recipe
        try:
            tree = yaml.safe_load(Path(recipe).read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError):
            return  # said where the recipe is loaded
        base = tree.get("base") if isinstance(tree, dict) else None
        if not isinstance(base, str):
            return
        recipe = base
