"""The folder that scripts are written into: new, or written by this very module before."""

from __future__ import annotations

import os
from pathlib import Path

from theodolite.fixtures.errors import UsageError

MARKER = ".theodolite-scripts"
"""A file that lists what was written into its folder, one name a line."""

_HEAD = "# Theodolite wrote the files of this folder that are named here, and writes them anew.\n"


class ScriptFolder:
    """A folder of scripts. No file in it is changed that was not written by it.

    Args:
        path: The folder; made when the first file is written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def require_own(self) -> None:
        """Refuse a folder that holds what somebody else wrote, or that cannot be written.

        Raises:
            UsageError: Saying what is in the way and what to give instead.
        """
        if not str(self.path) or not self.path.name:
            raise UsageError(f"--reproduce {str(self.path)!r} is no new folder: name one")
        try:
            self.path.resolve()
            if self.path.is_dir():
                self._require_nothing_foreign()
            elif self.path.exists() or self.path.is_symlink():
                raise UsageError(f"--reproduce {self.path} is a file: give a folder")
            else:
                self._require_makeable()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise UsageError(f"--reproduce {str(self.path)!r} cannot be written: {why}") from error

    def clear(self) -> None:
        """Take away what was written here before, and what lists it."""
        for name in self._written():
            (self.path / name).unlink(missing_ok=True)
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / MARKER).write_text(_HEAD, encoding="utf-8")

    def write(self, name: str, text: str) -> Path:
        """Write the file `name`; its place.

        Raises:
            UsageError: If a file of that name is there that was not written by this class.
        """
        file = self.path / name
        if file.exists() and name not in self._written():
            raise UsageError(f"{file} was not written by Theodolite and stays as it is: move it")
        with (self.path / MARKER).open("a", encoding="utf-8") as marker:
            marker.write(f"{name}\n")
        file.write_text(text, encoding="utf-8")
        return file

    def _require_nothing_foreign(self) -> None:
        if (self.path / MARKER).is_file():
            ours = {MARKER, *self._written()}
            foreign = [each.name for each in self._files() if each.name not in ours]
            foreign = [name for name in foreign if _may_be_written(name)]
        else:
            foreign = [each.name for each in self._files()]
        if foreign:
            raise UsageError(
                f"--reproduce {self.path} holds {foreign[0]}, which Theodolite did not write: give "
                "a new folder"
            )
        if not os.access(self.path, os.W_OK):
            raise UsageError(f"--reproduce {self.path} cannot be written: permission denied")

    def _require_makeable(self) -> None:
        above = next(parent for parent in self.path.absolute().parents if parent.exists())
        if not above.is_dir():
            raise UsageError(f"--reproduce {self.path} cannot be made: {above} is a file")
        if not os.access(above, os.W_OK):
            raise UsageError(f"--reproduce {self.path} cannot be made: {above} is not writable")

    def _files(self) -> list[Path]:
        return sorted(self.path.iterdir())

    def _written(self) -> set[str]:
        try:
            lines = (self.path / MARKER).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return set()
        names = {line for line in lines if line and not line.startswith("#")}
        return {name for name in names if Path(name).name == name}


def _may_be_written(name: str) -> bool:
    """Whether a report or the script of a check could be called that."""
    return name == "README.md" or (name.endswith(".py") and "." in Path(name).stem)
