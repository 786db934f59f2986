"""One call of a program within this process."""

import ctypes
import importlib.metadata
import os
import re
import threading
from typing import List, Optional, Tuple


class Error(Exception):
    """What went wrong. `file`, `line` and `column`, from 1, say where in the input, if it is known."""

    def __init__(self, message: str, code: int = 1):
        super().__init__(message)
        self.code = code  #: exit code of the program
        self.file: Optional[str] = None
        self.line: Optional[int] = None
        self.column: Optional[int] = None
        place = re.match(r"([^:\n]+):(\d+):(?:(\d+):)? ", message)
        if place:
            self.file = place[1]
            self.line = int(place[2])
            self.column = int(place[3]) if place[3] else None


class InputError(Error):
    """Wrong arguments, or a wrong file."""


class Infeasible(Error):
    """Nothing that was searched holds within the limits."""


_INPUT = 2
_INFEASIBLE = 3


def _library_file() -> str:
    """Where pip has put it; $ZENFLOW_LIBRARY names another one."""
    named = os.environ.get("ZENFLOW_LIBRARY")
    if named:
        return named
    for file in importlib.metadata.files("zenflow-sim") or ():
        if file.name == "libzenflow.so":
            return str(file.locate())
    raise ImportError("zenflow: no libzenflow.so is installed with this package: install the wheel again")


_library = ctypes.CDLL(_library_file())
_library.zenflow_call.argtypes = [
    ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_void_p)]
_library.zenflow_free.argtypes = [ctypes.c_void_p]
_library.zenflow_free.restype = None
_library.zenflow_stop.argtypes = [ctypes.c_int]
_library.zenflow_stop.restype = None


def _text(pointer: ctypes.c_void_p) -> str:
    text = ctypes.string_at(pointer).decode("utf-8", "replace")
    _library.zenflow_free(pointer)
    return text


def _call(program: str, arguments: List[str]) -> Tuple[int, str, str]:
    """Exit code, standard output, standard error. ctypes lets other threads run meanwhile."""
    encoded = [os.fsencode(argument) for argument in arguments]
    array = (ctypes.c_char_p * len(encoded))(*encoded)
    out, err = ctypes.c_void_p(), ctypes.c_void_p()
    code = _library.zenflow_call(program.encode(), len(encoded), array, ctypes.byref(out), ctypes.byref(err))
    return code, _text(out), _text(err)


def _call_interruptibly(program: str, arguments: List[str]) -> Tuple[int, str, str]:
    """On a thread of its own, so that Ctrl-C reaches the interpreter, which then stops the call."""
    answers: List[Tuple[int, str, str]] = []
    thread = threading.Thread(target=lambda: answers.append(_call(program, arguments)))
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        _library.zenflow_stop(1)
        thread.join()
        _library.zenflow_stop(0)
        raise
    return answers[0]


def run(program: str, arguments: List[str], accepted: Tuple[int, ...] = (0,)) -> Tuple[str, List[str]]:
    """What it prints, and the lines of its warnings. Raises Error for exit codes that are not accepted."""
    on_main_thread = threading.current_thread() is threading.main_thread()
    code, out, err = (_call_interruptibly if on_main_thread else _call)(program, arguments)
    said = [line[len(program) + 2:] if line.startswith(program + ": ") else line for line in err.splitlines()]
    if code in accepted:
        return out, [line[len("warning: "):] if line.startswith("warning: ") else line for line in said]
    message = said[-1] if said else "%s ended with exit code %d" % (program, code)
    kind = {_INPUT: InputError, _INFEASIBLE: Infeasible}.get(code, Error)
    raise kind(message, code)
