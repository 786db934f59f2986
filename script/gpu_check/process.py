"""Runs one phase with a limit, and leaves nothing of it running."""
import ctypes
import os
import pathlib
import signal
import subprocess
import time

POLL_SECONDS = 0.05
KILL_SECONDS = 10
PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans():
    """Processes whose parents have ended become this one's children (Linux), so that one which has
    left its phase's process group is found too."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def parents():
    """Process number -> its parent's, of all processes."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            # "number (name) state parent ...": the name may hold anything, so from the last ")".
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            found[int(entry.name)] = int(fields[1])
        except (OSError, IndexError):
            pass  # it has ended since
    return found


def descendants():
    """Process numbers of everything that this process has started, however indirectly."""
    parent_of = parents()
    ours = set()
    grown = {os.getpid()}
    while grown:
        grown = {child for child, parent in parent_of.items() if parent in grown} - ours
        ours |= grown
    return ours


def kill_descendants():
    """A process that a driver does not let go cannot be killed; it is left after a while."""
    ends = time.monotonic() + KILL_SECONDS
    while (left := descendants()) and time.monotonic() < ends:
        for number in left:
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0] != 0:
                pass
        except ChildProcessError:
            pass
        time.sleep(0.01)


class Ended(Exception):
    """This program was told to end; `number` is the signal's."""

    def __init__(self, number):
        super().__init__(signal.Signals(number).name)
        self.number = number


class Signals:
    """SIGINT, SIGTERM and SIGHUP: remembered, for run_limited to act on."""

    def __init__(self):
        self.number = None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._remember)

    def _remember(self, number, _frame):
        self.number = number

    def check(self):
        if self.number is not None:
            raise Ended(self.number)


def _signal_group(child, number):
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        pass


def _has_ended(child):
    # WNOWAIT: as long as the child is not waited for, its group's number is nobody else's.
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def run_limited(command, *, limit, grace, signals, log, environment, folder):
    """(exit code or minus a signal's number, whether the limit ended it).

    At the limit, or when this program is told to end, the whole process group gets SIGTERM and,
    after `grace` seconds, SIGKILL; Ended is raised in the latter case. `log` takes both outputs.
    """
    with open(log, "ab") as out:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=subprocess.STDOUT, cwd=folder, env=environment,
                                 start_new_session=True)
    deadline = time.monotonic() + limit
    stopped_at = None
    by_limit = False
    while not _has_ended(child):
        now = time.monotonic()
        by_limit = by_limit or now >= deadline
        if stopped_at is None and (by_limit or signals.number is not None):
            stopped_at = now
            _signal_group(child, signal.SIGTERM)
        elif stopped_at is not None and now >= stopped_at + grace:
            break
        time.sleep(POLL_SECONDS)
    _signal_group(child, signal.SIGKILL)
    killed_at = time.monotonic()
    while not _has_ended(child) and time.monotonic() < killed_at + KILL_SECONDS:
        time.sleep(POLL_SECONDS)
    code = child.wait() if _has_ended(child) else -signal.SIGKILL
    kill_descendants()
    signals.check()
    return code, by_limit
