"""The command line of describe-model."""
import argparse
import os
import pathlib
import sys

from describe_model import check
from describe_model.description import Refused, forward_flops, text_of

WRONG, DIFFERS = 2, 1


def say(text: str) -> None:
    print(f"describe-model: {text}", file=sys.stderr)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="describe-model", add_help=False, allow_abbrev=False)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("-o", "--output", type=pathlib.Path)
    parser.add_argument("-f", "--force", action="store_true")
    parser.add_argument("--trust-remote-code", action="store_true")
    parser.add_argument("--class", dest="class_name")
    parser.add_argument("--sequence-length", type=int)
    parser.add_argument("--adapter", type=pathlib.Path)
    parser.add_argument("--flops", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--program", type=pathlib.Path)
    options = parser.parse_args(arguments)
    if options.check != (options.program is not None):
        parser.error("--check and --program go together")
    if not options.check and len(options.sources) > 1:
        parser.error("one model, unless --check")
    if options.sequence_length is not None and not 2 <= options.sequence_length <= 1 << 20:
        parser.error("--sequence-length: expected 2 to 1048576")
    return options


def main(arguments: list[str]) -> int:
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    options = parse(arguments)
    try:
        return compare(options) if options.check else describe(options)
    except Refused as error:
        say(str(error))
        return WRONG


def describe(options: argparse.Namespace) -> int:
    from describe_model import describe as describer
    from describe_model import measure, network
    source = network.Source(options.sources[0], options.class_name, options.trust_remote_code)
    model = source.build(options.adapter)
    length = options.sequence_length or default_length(model)
    whole = describer.Describer(source, model, length)
    description = whole.describe()
    for note in whole.notes:
        say(note)
    wrong = describer.check(description)
    if wrong:
        raise Refused(f"{source.file}: {wrong}")
    if options.flops:
        counted = measure.counted_flops(model, whole.stacks, whole.measured, length)
        print_flops(counted, forward_flops(description, length), length)
    write(options, text_of(description) + "\n")
    return 0


def default_length(model: object) -> int:
    """2048 tokens, or as many as the positions allow."""
    from describe_model.modules import first
    config = getattr(model, "config")
    config = getattr(config, "text_config", None) or config
    most = first(config, ("max_target_positions", "max_position_embeddings", "n_positions"), 2048)
    return min(2048, most - most % 64 if most >= 64 else most)


def print_flops(counted: float | None, described: float, length: int) -> None:
    if not counted:
        say(f"forward of {length} tokens: {described:.6g} FLOPs by the description; PyTorch's counter cannot "
            "follow it")
        return
    say(f"forward of {length} tokens: {counted:.6g} FLOPs by PyTorch's counter, {described:.6g} by the "
        f"description: {100 * (described / counted - 1):+.3f} %")


def write(options: argparse.Namespace, text: str) -> None:
    if options.output is None:
        sys.stdout.write(text)
        return
    if options.output.exists() and not options.force:
        raise Refused(f"{options.output}: exists already; -f replaces it")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(text, encoding="utf-8")


def compare(options: argparse.Namespace) -> int:
    results = [check.compare(source, options.program, options.class_name, options.trust_remote_code)
               for source in options.sources]
    print(check.table(results))
    print(check.summary(results))
    return 0 if all(one.agrees for one in results) else DIFFERS
