"""What a save leaves in its folder."""

from pathlib import Path


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
