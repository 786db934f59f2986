"""What zenflow-sim shows on a terminal: one line that is rewritten and fits, colours unless NO_COLOR says no, nothing
of that with --quiet, and no character of a file's name that a terminal would obey.

  one_line_test.py ZENFLOW_SIM
"""
import fcntl
import os
import pathlib
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

SIM = pathlib.Path(sys.argv.pop(1)).absolute()
JOB = ["--model", "gpt2", "--gpu", "H100 SXM", "--sequence-length", "256"]


def sweep(points):
    return ["sweep", *JOB, "--vary", "training.micro_batch_size_per_gpu=" + ",".join(map(str, range(1, points // 4 + 1))),
            "--vary", "training.gradient_accumulation_steps=1,2,3,4"]


def said(width, *arguments, files=None, **environment):
    """What the program writes to a terminal of so many columns."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (files or {}).items():
            (pathlib.Path(folder) / name).write_text(text)
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        environment = {"TERM": "xterm", "PATH": os.environ["PATH"], "HOME": folder, **environment}
        process = subprocess.Popen([SIM, *arguments], cwd=folder, env=environment, stdout=theirs, stderr=theirs)
        os.close(theirs)
        text = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # as Linux says that nobody has the other end any longer
                break
            if not piece:
                break
            text += piece
        os.close(ours)
        process.wait()
    return text.decode()


def rewritten(text):
    return [line.split("\r")[0] for line in text.split("\r\x1b[K")[1:]]


def rewritten_in_sweep(width):
    """The lines of a sweep that takes long enough to have one, on however fast a machine, and its number of points."""
    points = 192
    while len(lines := rewritten(said(width, *sweep(points)))) < 2:
        points *= 4
        assert points < 100_000, "no line in a sweep of 50,000 points"
    return lines, points


class Terminal(unittest.TestCase):
    def test_the_line_fits_and_says_what_is_left(self):
        lines, points = rewritten_in_sweep(80)
        for line in lines[:-1]:
            self.assertRegex(line, rf"^\d+ of {points}, \d+:\d\d left$")
        self.assertNotIn(" left", lines[-1])  # what is printed in the end stands on a line of its own
        narrow, _ = rewritten_in_sweep(12)
        self.assertLessEqual(max(map(len, narrow[:-1])), 11)

    def test_quiet_has_none(self):
        self.assertEqual(rewritten(said(80, *sweep(3072), "--quiet")), [])

    def test_colours(self):
        self.assertIn("\x1b[1m", said(80, "check", *JOB))
        self.assertNotIn("\x1b", said(80, "check", *JOB, NO_COLOR="1"))

    def test_names_control_nothing(self):
        name = "a\x1b[31m.yml"
        text = said(80, "check", "--ds", name, "--gpu", "H100 SXM", NO_COLOR="1",
                    files={name: "base_model: gpt2\nsequence_len: 256\noptimizer: \"x\\e[2Jy\"\n"})
        self.assertIn("simulated as AdamW", text)
        self.assertNotIn("\x1b", text)


unittest.main()
