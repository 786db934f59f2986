"""From texts and rows to token files."""
import argparse
import json
import pathlib
import sys

from tokens.files import IGNORED, example_file, token_file, write
from tokens.tokenizer import Unusable, open_tokenizer


def text_tokens(tokenizer, end, files):
    """Of each file, and the end token behind it."""
    tokens = []
    for file in files:
        try:
            tokens += tokenizer.encode(file.read_text(encoding="utf-8"), True)
        except UnicodeDecodeError as error:
            raise Unusable(f"{file}: byte {error.start} is not UTF-8") from error
        tokens += end
    return tokens


def example_of(tokenizer, end, row, place):
    """(ids, labels) of a row."""
    texts = {key: value for key, value in row.items() if isinstance(value, str)} if isinstance(row, dict) else {}
    if "prompt" in texts and "completion" in texts:
        prompt = tokenizer.encode(texts["prompt"], True)
        completion = tokenizer.encode(texts["completion"], False) + end
        return prompt + completion, [IGNORED] * len(prompt) + completion
    if "text" in texts:
        ids = tokenizer.encode(texts["text"], True) + end
        return ids, ids
    raise Unusable(f'{place}: expected an object with the texts "prompt" and "completion", or "text"')


def examples_of(tokenizer, end, files):
    examples = []
    for file in files:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                place = f"{file}:{number}"
                try:
                    row = json.loads(line)
                except ValueError as error:
                    raise Unusable(f"{place}: expected a line of JSON: {error}") from error
                examples.append(example_of(tokenizer, end, row, place))
    if not examples:
        raise Unusable(f"{files[0]}: no rows")
    return examples


def made(options):
    """Content and what there is of it."""
    tokenizer = open_tokenizer(options.tokenizer)
    if options.eos is not None:
        tokenizer.end = tokenizer.token(options.eos)
    if tokenizer.end is None and not options.no_eos:
        raise Unusable(f"{options.tokenizer}: says no end token; expected --eos TOKEN or --no-eos")
    end = [] if options.no_eos else [tokenizer.end]
    if options.output.suffix == ".safetensors":
        examples = examples_of(tokenizer, end, options.inputs)
        tokens = sum(len(ids) for ids, _ in examples)
        learnt = sum(label != IGNORED for _, labels in examples for label in labels)
        return example_file(examples), f"{len(examples)} examples, {tokens} tokens, {learnt} of them to learn"
    tokens = text_tokens(tokenizer, end, options.inputs)
    return token_file(tokens, max(tokenizer.vocabulary, max(tokens, default=0) + 1)), f"{len(tokens)} tokens"


def check(options):
    """Before anything is read."""
    rows = [file for file in options.inputs if file.suffix == ".jsonl"]
    if options.output.suffix not in (".bin", ".safetensors"):
        raise Unusable(f"{options.output}: expected a name that ends in .bin, for texts, or .safetensors, for rows")
    if options.output.suffix == ".bin" and rows:
        raise Unusable(f"{rows[0]}: rows become a .safetensors file, found -o {options.output}")
    if options.output.exists() and not options.force:
        raise Unusable(f"{options.output}: exists already; give -f to overwrite it")


def main(arguments):
    parser = argparse.ArgumentParser(prog="tokenize", add_help=False)
    parser.add_argument("inputs", nargs="+", type=pathlib.Path)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("-o", dest="output", type=pathlib.Path, required=True)
    parser.add_argument("-f", dest="force", action="store_true")
    parser.add_argument("--eos")
    parser.add_argument("--no-eos", action="store_true")
    options = parser.parse_args(arguments)
    try:
        check(options)
        content, what = made(options)
        write(options.output, content)
    except (Unusable, OSError, UnicodeEncodeError) as error:
        print(f"tokenize: {error}", file=sys.stderr)
        return 2
    print(f"{options.output}: {what}", file=sys.stderr)
    return 0
