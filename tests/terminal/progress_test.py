"""What zenflow-train rewrites on a terminal fits its width, and the line for a validation goes on with it.

  progress_test.py ZENFLOW_TRAIN
"""
import fcntl
import json
import os
import pathlib
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

TRAIN = pathlib.Path(sys.argv.pop(1)).absolute()
MODEL = {"model_type": "llama", "vocab_size": 258, "hidden_size": 64, "num_hidden_layers": 2,
         "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 96,
         "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": False}


def said(width, *arguments):
    """Lines of a terminal of so many columns, rewritten ones among them."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "model.json").write_text(json.dumps(MODEL))
        (folder / "text.txt").write_text("some words " * 4000)
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        process = subprocess.Popen([TRAIN, "--model", "model.json", "--data", "text.txt", "--sequence-length", "32",
                                    "--threads", "1", "--steps", "40", *arguments], cwd=folder,
                                   stdout=subprocess.DEVNULL, stderr=theirs)
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
        assert process.wait() == 0, text
    return [line.removeprefix("\x1b[K") for line in text.decode().replace("\n", "\r").split("\r")]


class Terminal(unittest.TestCase):
    def test_the_line_fits(self):
        for width in (30, 60, 200):
            lines = [line for line in said(width) if line.startswith("step ") and "loss" in line and
                     "validation" not in line]
            self.assertTrue(lines)
            self.assertLess(max(map(len, lines)), width)
            self.assertEqual("gradient" in lines[-1], width == 200, lines[-1])

    def test_a_validation_shows_how_far_it_is(self):
        lines = said(80, "--validation-fraction", "0.9")
        self.assertTrue([line for line in lines if line.startswith("validation ")], lines)


unittest.main()
