"""The folder of results: few files, each of them small, complete after every phase.

  summary.json, summary.txt   what ran and how it ended
  logs.tar.gz                 a folder for each phase: log, commands, figures.json, whatever else
  traces.tar                  traces/* that phases publish (each of them compressed)
  others                      what phases publish; .jsonl and .txt of one name are joined
"""
import io
import json
import os
import pathlib
import tarfile

MOST_FILES = 8
LARGEST_FILE = 15 << 20
LARGEST_LOG = 2 << 20
FIXED = ("summary.json", "summary.txt", "logs.tar.gz", "traces.tar")
JOINED = (".jsonl", ".txt")


def write_whole(path, content):
    """Replaces the file at once: whoever is interrupted leaves the old or the new one."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(content)
    os.replace(part, path)


def _ends_of(content):
    if len(content) <= LARGEST_LOG:
        return content
    half = LARGEST_LOG // 2
    cut = len(content) - 2 * half
    return content[:half] + f"\n[... {cut} bytes left out ...]\n".encode() + content[-half:]


def _tar(members, mode):
    """`members`: (name, content)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


class Results:
    """`folder` is what the user gets, `staging` where phases write."""

    def __init__(self, folder, staging):
        self.folder = folder
        self.staging = staging
        self.left_out = []  # {"file", "why"}
        self.phases = []  # names of those that have run

    def phase_folder(self, name):
        return self.staging / name

    def begin_phase(self, name):
        folder = self.phase_folder(name)
        (folder / "publish" / "traces").mkdir(parents=True)
        return folder

    def _published(self):
        """Name -> [(phase, file)], in the phases' order; traces apart."""
        named, traces = {}, []
        for phase in self.phases:
            publish = self.phase_folder(phase) / "publish"
            for file in sorted(publish.rglob("*")):
                if not file.is_file():
                    continue
                if file.parent.name == "traces":
                    traces.append((phase, file))
                else:
                    named.setdefault(file.name, []).append((phase, file))
        return named, traces

    def _leave_out(self, name, why):
        self.left_out.append({"file": name, "why": why})

    def _publish(self, named):
        """Names of the files written; what is not may go into the archive."""
        written, archived = [], []
        for name, sources in named.items():
            contents = [file.read_bytes() for _, file in sources]
            if len(sources) > 1 and not name.endswith(JOINED):
                why = "several phases publish one of this name"
            elif name in FIXED or len(written) >= MOST_FILES - len(FIXED):
                why = f"only {MOST_FILES} files"
            elif sum(map(len, contents)) > LARGEST_FILE:
                why = f"larger than {LARGEST_FILE >> 20} MiB"
            else:
                write_whole(self.folder / name, b"".join(contents))
                written.append(name)
                continue
            self._leave_out(name, f"{why}: is in logs.tar.gz, if it fits")
            archived += sources
        return written, archived

    def _fitting(self, members, room):
        """Smallest first, so that one large file does not keep out many."""
        kept = []
        for name, content in sorted(members, key=lambda member: len(member[1])):
            need = len(content) + 1024  # of the archive itself
            if need > room:
                self._leave_out(name, "the archive is full")
                continue
            room -= need
            kept.append((name, content))
        return sorted(kept)

    def _logs(self, archived):
        members = [(f"{phase}/{file.name}", file.read_bytes()) for phase, file in archived]
        for phase in self.phases:
            folder = self.phase_folder(phase)
            for file in sorted(folder.rglob("*")):
                if file.is_file() and folder / "publish" not in file.parents:
                    content = file.read_bytes()
                    if file.suffix in ("", ".log", ".txt"):
                        content = _ends_of(content)
                    members.append((f"{phase}/{file.relative_to(folder)}", content))
        # Text: it shrinks, by how much is seen afterwards.
        packed = _tar(sorted(members), "w:gz")
        if len(packed) > LARGEST_FILE:
            packed = _tar(self._fitting(members, LARGEST_FILE), "w:gz")
        return packed

    def write(self, summary, table, phases):
        """Called after each phase."""
        self.phases = phases
        self.left_out = []
        named, traces = self._published()
        files, archived = self._publish(named)
        if traces:
            members = [(f"{phase}/{file.name}", file.read_bytes()) for phase, file in traces]
            write_whole(self.folder / "traces.tar", _tar(self._fitting(members, LARGEST_FILE), "w"))
            files.append("traces.tar")
        write_whole(self.folder / "logs.tar.gz", self._logs(archived))
        files = sorted([*files, *FIXED[:3]])
        document = {**summary, "files": files, "left_out": self.left_out}
        write_whole(self.folder / "summary.json", (json.dumps(document, indent=1) + "\n").encode())
        write_whole(self.folder / "summary.txt", table.encode())


def own_files(folder):
    """Results of an earlier run, as its summary lists them; empty if there are none."""
    try:
        document = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        return [folder / pathlib.PurePath(name).name for name in document["files"]]
    except FileNotFoundError:
        return []
