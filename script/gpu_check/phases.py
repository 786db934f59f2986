"""The phases: executable files NN-name of a folder, described by comments at their heads.

  # what: one line
  # limit: seconds that it may take; LIMIT_SECONDS if there is none
  # python: needed                 (only with --python)

What a phase is given and may do is in docs/gpu-check.md, "Adding a phase".
"""
import dataclasses
import os
import pathlib
import re

LIMIT_SECONDS = 525  # with the time to end in, under nine minutes
FILE_NAME = re.compile(r"\d+-([a-z0-9][a-z0-9-]*)")
FIELD = re.compile(r"# (what|limit|python): (.+)")


class WrongPhase(Exception):
    """A file of the phases' folder is not a phase."""


@dataclasses.dataclass(frozen=True)
class Phase:
    name: str
    file: pathlib.Path
    what: str
    limit: int
    needs_python: bool


def read_phase(file):
    name = FILE_NAME.fullmatch(file.name)
    if not name:
        raise WrongPhase(f"{file}: expected a name such as 30-probe")
    if not os.access(file, os.X_OK):
        raise WrongPhase(f"{file}: is not executable")
    fields = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        if field := FIELD.fullmatch(line):
            fields[field[1]] = field[2]
    if "what" not in fields:
        raise WrongPhase(f"{file}: has no line \"# what: ...\" at its head")
    limit = fields.get("limit", str(LIMIT_SECONDS))
    if not limit.isdecimal() or not 1 <= int(limit) <= LIMIT_SECONDS:
        raise WrongPhase(f"{file}: limit: expected 1 to {LIMIT_SECONDS} seconds, found {limit}")
    return Phase(name[1], file, fields["what"], int(limit), "python" in fields)


def read_phases(folder):
    """All phases in order. Raises WrongPhase."""
    files = sorted(file for file in folder.iterdir() if not file.name.startswith("."))
    found = [read_phase(file) for file in files]
    names = [phase.name for phase in found]
    for name in names:
        if names.count(name) > 1:
            raise WrongPhase(f"{folder}: two phases are called {name}")
    return found
