"""Trainings that share a machine by turns: zenflow-train is suspended (SIGTSTP) in all but its own, in
which alone its time passes. So what the machine is like for some seconds, it is like for all of them.
"""
import ctypes
import os
import re
import select
import signal
import subprocess
import time

STEP = re.compile(r"step (\d+)/\d+ .*  step ([0-9.]+) ms")
PR_SET_PDEATHSIG = 1
POLL = 0.005  # seconds; how often a training is asked whether it is suspended


def prepare():
    """Of a new process: one that is suspended would outlive a script that is killed; where a script runs
    in the background SIGTSTP may be ignored; and what continues the script's process group, or ends it,
    is not meant for each training."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.setpgid(0, 0)


def delays_suspension(process):
    """Whether it has come so far: before, SIGTSTP stops it in the middle of something."""
    with open(f"/proc/{process}/status") as status:
        blocked = next((line.split()[1] for line in status if line.startswith("SigBlk:")), "0")
    return int(blocked, 16) >> (signal.SIGTSTP - 1) & 1


class Training:
    """Of a command with --verbose; its result goes to NAME.json, if that is wanted, what it says to
    NAME.log. Is trained by `turn` alone; `kill` ends it."""

    def __init__(self, folder, name, command, has_result=True):
        self.name, self.folder = name, folder
        self.steps = []  # milliseconds, one a step
        self.ended = False
        self.rest = b""  # of a line
        self.log = open(folder / f"{name}.log", "wb", buffering=0)
        with open(folder / f"{name}.json" if has_result else os.devnull, "wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE,
                                            preexec_fn=prepare)
        os.set_blocking(self.process.stderr.fileno(), False)
        while not self.ended and not delays_suspension(self.process.pid):
            self.read(POLL)
        self.suspend()

    def turn(self, seconds=float("inf"), until=float("inf")):
        """Trains for so long, or until it has done so many steps, or to its end, and whatever step it is
        in; (its first step, milliseconds of each)."""
        first = len(self.steps)
        self.read(0)
        if len(self.steps) > first:
            raise SystemExit(f"closed-loop: {self.name} went on while it was suspended")
        if not self.ended:
            self.process.send_signal(signal.SIGCONT)
        ends = time.monotonic() + seconds
        while not self.ended and len(self.steps) < until and time.monotonic() < ends:
            self.read(min(ends - time.monotonic(), 1))
        self.suspend()
        return first, self.steps[first:]

    def suspend(self):
        """Returns when it is, or has ended."""
        if not self.ended:
            self.process.send_signal(signal.SIGTSTP)
        while not self.ended:
            try:
                if os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOHANG):
                    break
            except ChildProcessError:
                pass  # it has ended, and what it said last is still to be read
            self.read(POLL)
        self.read(0)

    def read(self, seconds):
        """What it has said, waiting for so long."""
        if self.ended or not select.select([self.process.stderr], [], [], max(0, seconds))[0]:
            return
        said = os.read(self.process.stderr.fileno(), 1 << 20)
        self.log.write(said)
        if not said:
            self.ended = True
            self.log.close()
            if self.process.wait() != 0:
                raise SystemExit(f"closed-loop: {self.name} failed: see {self.folder / self.name}.log")
            return
        *lines, self.rest = (self.rest + said).split(b"\n")
        for line in lines:
            step = STEP.match(line.decode())
            if step:
                self.steps.append(float(step[2]))

    def kill(self):
        if not self.ended:
            self.process.kill()
            self.process.wait()
            self.log.close()
        self.process.stderr.close()
