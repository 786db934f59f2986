"""Holds what a reader of configurations says of a model against transformers' own class."""
import dataclasses
import json
import pathlib
import subprocess

from describe_model.description import Refused

Shapes = dict[str, tuple[int, ...]]
SHOWN = 3  # tensors of a difference
STATES = {"agrees": "agree", "DIFFERS": "differ", "refused": "refused by the program alone",
          "unknown": "by transformers alone", "neither": "by both"}


@dataclasses.dataclass
class Read:
    """What the program said of a file: tensors of one model, or why it refused it."""
    parameters: int = 0
    tensors: Shapes = dataclasses.field(default_factory=dict)
    refused: str = ""


@dataclasses.dataclass
class Result:
    file: str
    state: str  # one of STATES
    parameters: int = 0
    tensors: int = 0
    text: str = ""

    @property
    def agrees(self) -> bool:
        return self.state != "DIFFERS"


def numbers(ranges: str) -> list[int]:
    """Of "0-2,5" 0, 1, 2 and 5."""
    found: list[int] = []
    for part in ranges.split(",") if ranges else []:
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return found


def parse(rows: list[dict[str, str]]) -> Read:
    """Rows of `zenflow-sim list --json FILE`: a tensor's name, with "{}" for the numbers of its layers."""
    read = Read()
    for row in rows:
        if row["tensor"] == "all":
            read.parameters = int(row["parameters"])
            continue
        shape = tuple(int(size) for size in row["shape"].split(" x "))
        for name in [row["tensor"].replace("{}", str(n)) for n in numbers(row["layers"])] or [row["tensor"]]:
            read.tensors[name] = shape
    return read


def ask(program: pathlib.Path, file: pathlib.Path) -> Read:
    try:
        done = subprocess.run([str(program), "list", "--json", str(file)], capture_output=True, text=True,
                              check=False)
    except OSError as error:
        raise Refused(f"{program}: {error.strerror}") from error
    if done.returncode != 0:
        return Read(refused=done.stderr.strip() or f"exit code {done.returncode}")
    return parse(json.loads(done.stdout)[str(file)])


def differences(ours: Read, parameters: int, theirs: Shapes) -> list[str]:
    """`theirs`: of transformers' class."""
    said = []
    if ours.parameters != parameters:
        said.append(f"parameters {ours.parameters} for {parameters}")
    missing = [f"{n} {list(s)}" for n, s in theirs.items() if n not in ours.tensors]
    extra = [f"{n} {list(s)}" for n, s in ours.tensors.items() if n not in theirs]
    shaped = [f"{n} {list(s)} for {list(theirs[n])}" for n, s in ours.tensors.items()
              if n in theirs and s != theirs[n]]
    for what, names in (("missing", missing), ("too many", extra), ("other shape", shaped)):
        if names:
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            said.append(f"{what}: {', '.join(names[:SHOWN])}{more}")
    return said


def compare(source: str, program: pathlib.Path, class_name: str | None, trusts_code: bool) -> Result:
    from describe_model import network
    file = network.config_file(source)
    ours = ask(program, file)
    try:
        model = network.Source(source, class_name, trusts_code).build()
    except Refused as error:
        return Result(str(file), "neither" if ours.refused else "unknown", text=str(error))
    total = sum(p.numel() for p in model.parameters())
    theirs = {name: tuple(p.shape) for name, p in model.named_parameters()}
    result = Result(str(file), "agrees", total, len(theirs))
    if ours.refused:
        result.state, result.text = "refused", ours.refused
        return result
    said = differences(ours, total, theirs)
    if said:
        result.state, result.text = "DIFFERS", "; ".join(said)
    return result


def table(results: list[Result]) -> str:
    width = max((len(one.file) for one in results), default=0)
    return "\n".join(f"{one.file:{width}}  {one.state:8}  {one.parameters:>15}  {one.tensors:>5}  {one.text}"
                     .rstrip() for one in results)


def summary(results: list[Result]) -> str:
    states = [one.state for one in results]
    return f"{len(results)} files: " + ", ".join(f"{states.count(state)} {words}" for state, words in STATES.items())
