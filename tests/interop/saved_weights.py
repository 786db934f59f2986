"""saved_weights.py PROGRAM CONFIG...: holds zenflow-sim against the names that transformers saves weights under.

Each configuration's model is built on the meta device, and its tensors are renamed and taken apart as save_pretrained
does it. PROGRAM list has to take the file beside its config.json, and to refuse it by name with a tensor left out, one
that is longer, and a layer more. Files are headers over holes. Exit code 1 if one is not.
"""
import contextlib
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import torch
from describe_model.description import Refused
from describe_model.network import Source
from transformers.core_model_loading import revert_weight_conversion

Shapes = dict[str, tuple[str, list[int]]]  # type and shape of each tensor
TYPES = {torch.bfloat16: ("BF16", 2), torch.float32: ("F32", 4), torch.float16: ("F16", 2),
         torch.int64: ("I64", 8), torch.bool: ("BOOL", 1)}
BYTES = dict(TYPES.values())


def saved_tensors(config: pathlib.Path) -> Shapes:
    """What save_pretrained would write, in one file."""
    model = Source(str(config)).build()
    seen: set[int] = set()
    state = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:  # tied tensors are written once
            state[name] = tensor.detach()
        seen.add(id(tensor))
    return {name: (TYPES[tensor.dtype][0], list(tensor.shape))
            for name, tensor in revert_weight_conversion(model, state).items()}


def write(file: pathlib.Path, tensors: Shapes) -> None:
    header, end = {}, 0
    for name, (kind, shape) in tensors.items():
        begin, count = end, BYTES[kind]
        for size in shape:
            count *= size
        end += count
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with file.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        stream.truncate(8 + len(text) + end)


def first_stack(name: str) -> str:
    """"model.layers" of a tensor in layer 0 of that; "" of one in none."""
    parts = name.split(".")
    first = next((i for i, part in enumerate(parts) if part.isdigit()), 0)
    return ".".join(parts[:first]) if parts[first] == "0" else ""


def changes(tensors: Shapes) -> list[tuple[str, Shapes]]:
    """A tensor of the first layer left out, or longer, and the layers of its number twice; with what is to be named."""
    in_layers = [name for name, (kind, shape) in tensors.items()
                 if first_stack(name) and shape and kind not in ("I64", "BOOL") and "correction" not in name]
    chosen = in_layers[len(tensors) % len(in_layers)]
    kind, shape = tensors[chosen]
    last = chosen.rsplit(".", 1)[-1]
    prefix = first_stack(chosen)
    more = {name.replace(f"{prefix}.0.", f"{prefix}.777.", 1): found
            for name, found in tensors.items() if name.startswith(f"{prefix}.0.")}
    return [(last, {name: found for name, found in tensors.items() if name != chosen}),
            (last, tensors | {chosen: (kind, [*shape[:-1], shape[-1] + 1])}),
            (f"{prefix}.777.", tensors | more)]


def failures(program: str, config: pathlib.Path, folder: pathlib.Path) -> list[str]:
    tensors = saved_tensors(config)
    folder.mkdir()
    (folder / "config.json").write_text(config.read_text())

    def run(weights: Shapes) -> tuple[int, str]:
        write(folder / "model.safetensors", weights)
        done = subprocess.run([program, "list", str(folder)], capture_output=True, text=True, check=False)
        return done.returncode, done.stderr.strip()

    code, said = run(tensors)
    if code != 0:
        return [f"refused as it is saved: {said}"]
    found = []
    for named, changed in changes(tensors):
        code, said = run(changed)
        if code != 2 or named not in said:
            found.append(f"expected to be refused by the name of \"{named}\", found exit code {code}: {said}")
    return found


def main() -> int:
    program, *configs = sys.argv[1:]
    checked, failed = 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        for config in map(pathlib.Path, configs):
            with contextlib.suppress(Refused):  # not a class that transformers builds
                found = failures(program, config, pathlib.Path(scratch) / config.stem)
                checked += 1
                failed += bool(found)
                for text in found:
                    print(f"{config.stem}: {text}", flush=True)
    print(f"{checked} models as transformers saves them, {failed} of them taken for others")
    return int(failed > 0 or checked == 0)


sys.exit(main())
