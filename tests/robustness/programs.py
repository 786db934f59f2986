"""Runs the programs on bad inputs, within limits that do not depend on how busy the machine is."""
import dataclasses
import os
import re
import resource
import signal
import subprocess
import tempfile
import time

CPU_SECONDS = 15  # of one run: an input that needs more is not bounded
PATIENCE = 120  # seconds by the clock, for a machine with other work
MEMORY_MIB = 1024  # at most, of jobs that need 20
LARGEST_FILE = 64 << 20

# What a terminal obeys: C0 but tab and newline, DEL, C1, and what turns the direction of text.
CONTROL = re.compile(
    b"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]")
# Headers and severities: no other style is the programs' own.
STYLE = re.compile(rb"\x1b\[(0|1|1;3[156])m")


@dataclasses.dataclass
class Outcome:
    """How a run ended; `code` is negative for a signal, as subprocess says it."""
    code: int
    out: bytes
    err: bytes
    mib: int
    seconds_to_stop: float = 0.0


class Programs:
    def __init__(self, tools, source):
        self.tools = tools
        self.source = source

    def run(self, command, folder, *, stack=None, stdin=subprocess.DEVNULL, stdout=None,
            largest_file=LARGEST_FILE, interrupt_after_cpu=None, closed=()):
        """`interrupt_after_cpu`: SIGINT once the program has computed for so many seconds;
        `closed`: file descriptors that it begins without."""
        program, *arguments = command

        def limit():
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
            if stack:
                resource.setrlimit(resource.RLIMIT_STACK, (stack, stack))
            for descriptor in closed:
                os.close(descriptor)

        environment = {"HOME": folder, "PATH": "/usr/bin:/bin", "LC_ALL": "C"}
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen(
                [os.path.join(self.tools, program), *map(os.fspath, arguments)], cwd=folder,
                env=environment, stdin=stdin, stdout=stdout or out, stderr=err, preexec_fn=limit)
            begin = time.monotonic()
            asked = None
            while True:
                found, status, usage = os.wait4(process.pid, os.WNOHANG)
                if found:
                    break
                now = time.monotonic()
                if interrupt_after_cpu is not None and asked is None and \
                        cpu_seconds(process.pid) >= interrupt_after_cpu:
                    asked = now
                    os.kill(process.pid, signal.SIGINT)
                if now - begin > PATIENCE:
                    os.kill(process.pid, signal.SIGKILL)
                    os.wait4(process.pid, 0)
                    process.returncode = -signal.SIGKILL
                    raise AssertionError(f"{command}: still there after {PATIENCE} s")
                time.sleep(0.002)
            process.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            err.seek(0)
            return Outcome(process.returncode, out.read(), err.read(), usage.ru_maxrss >> 10,
                           time.monotonic() - asked if asked else 0.0)


def cpu_seconds(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def complaints(outcome, codes=(0, 1, 2, 3, 4), styled=False):
    """What is wrong with how a run ended; empty: nothing."""
    found = []
    if outcome.code not in codes:
        found.append(f"exit code {outcome.code}")
    if outcome.mib > MEMORY_MIB:
        found.append(f"{outcome.mib} MiB")
    out = STYLE.sub(b"", outcome.out) if styled else outcome.out
    for name, text in (("output", out), ("message", outcome.err)):
        match = CONTROL.search(text)
        if match:
            found.append(f"control character {match.group()!r} in the {name}")
    for text in (b"internal error", b"out of memory", b"terminate called"):
        if text in outcome.err:
            found.append(text.decode())
    if outcome.code not in (0, 3, 4) and not outcome.err and not outcome.out:
        found.append("no reason")
    return found
