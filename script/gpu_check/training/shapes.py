"""The sizes of the models. Needs no PyTorch."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Shape:
    family: str  # gpt2 or llama
    vocabulary: int
    hidden: int
    layers: int
    heads: int
    inner: int  # of the feed-forward network
    sequence: int
    micro_batch: int  # sequences


SHAPES = {
    # As scenarios/gpt2_xl_1xh200.yaml.
    "gpt2-xl": Shape("gpt2", 50257, 1600, 48, 25, 6400, 1024, 4),
    # Sheared-LLaMA-1.3B's shape.
    "llama-1.3b": Shape("llama", 32000, 2048, 24, 16, 5504, 2048, 2),
    # For rehearsals on a CPU.
    "gpt2-tiny": Shape("gpt2", 512, 64, 2, 4, 256, 32, 2),
    "llama-tiny": Shape("llama", 512, 64, 2, 4, 192, 32, 2),
}


def parameters(shape):
    """How many, from the shape alone; a tied head counts once."""
    h = shape.hidden
    if shape.family == "gpt2":
        block = 4 * h * h + 4 * h + 2 * h * shape.inner + shape.inner + h + 4 * h
        return (shape.vocabulary + shape.sequence) * h + shape.layers * block + 2 * h
    return 2 * shape.vocabulary * h + shape.layers * (4 * h * h + 3 * h * shape.inner + 2 * h) + h
