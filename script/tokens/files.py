"""The files that zenflow-train reads: docs/training.md, "Text and tokens" and "Instruction data"."""
import array
import json
import os
import struct
import sys
import zlib

IGNORED = -100  # the label of a token that is not to be learnt


def numbers(code, values):
    """Little-endian, of the type that `array` has under this code."""
    stored = array.array(code, values)
    if sys.byteorder == "big":
        stored.byteswap()
    return stored.tobytes()


def token_file(tokens, vocabulary):
    """Format version 1; two bytes a token where they suffice."""
    width, code = (2, "H") if vocabulary <= 1 << 16 else (4, "I")
    payload = numbers(code, tokens)
    head = b"ZFTOKEN\n" + struct.pack("<IIQI", 1, width, len(tokens), zlib.crc32(payload))
    return head + struct.pack("<I", zlib.crc32(head)) + payload


def example_file(examples):
    """Safetensors of (ids, labels) of each example."""
    offsets = [0]
    for ids, _ in examples:
        offsets.append(offsets[-1] + len(ids))
    tensors = {"input_ids": ("I32", numbers("i", [one for ids, _ in examples for one in ids])),
               "labels": ("I32", numbers("i", [one for _, labels in examples for one in labels])),
               "offsets": ("I64", numbers("q", offsets))}
    header, end = {}, 0
    for name, (kind, data) in tensors.items():
        width = 8 if kind == "I64" else 4
        header[name] = {"dtype": kind, "shape": [len(data) // width],
                        "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, data in tensors.values())


def write(path, content):
    """Whole or not at all."""
    temporary = f"{path}.partial-{os.getpid()}"
    try:
        with open(temporary, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)
