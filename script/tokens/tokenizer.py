"""One face for what turns text into tokens: `encode(text, begins)`, `vocabulary`, `end`."""
import json
import pathlib


class Unusable(Exception):
    """An input that cannot be used: one line that says where and why."""


class Bytes:
    """Each byte a token; 256 separates texts, and 257 ends one, as in zenflow-train's GLUE tasks."""

    vocabulary = 258
    end = 257

    def encode(self, text, begins):
        return list(text.encode())

    def token(self, text):
        raise Unusable(f"--eos {text}: bytes have no tokens with names")


class HuggingFace:
    """A tokenizer.json."""

    def __init__(self, file):
        import tokenizers
        try:
            self.tokenizer = tokenizers.Tokenizer.from_file(str(file))
        except Exception as error:  # the library has no class of its own for it
            raise Unusable(f"{file}: {error}") from error
        # Kept in many files, for batches of a model that only asks.
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        # Not what it puts behind a text, which would stand between a prompt and its completion.
        sample = self.tokenizer.encode("a")
        begins = next((i for i, special in enumerate(sample.special_tokens_mask) if not special), 0)
        self.front = sample.ids[:begins]
        self.vocabulary = self.tokenizer.get_vocab_size()
        self.end = None
        beside = file.parent / "tokenizer_config.json"
        if beside.is_file():
            try:
                said = json.loads(beside.read_text(encoding="utf-8")).get("eos_token")
            except (ValueError, AttributeError) as error:
                raise Unusable(f"{beside}: {error}") from error
            name = said.get("content") if isinstance(said, dict) else said
            if name is not None:
                self.end = self.token(name)

    def encode(self, text, begins):
        own = self.tokenizer.encode(text, add_special_tokens=False).ids
        return self.front + own if begins else own

    def token(self, text):
        number = self.tokenizer.token_to_id(text)
        if number is None:
            raise Unusable(f"{text}: the tokenizer has no such token")
        return number


class SentencePiece:
    """A SentencePiece model. A text begins with its begin token if it has one, as in Llama."""

    def __init__(self, file):
        import sentencepiece
        try:
            self.pieces = sentencepiece.SentencePieceProcessor(model_file=str(file))
        except (OSError, RuntimeError) as error:
            raise Unusable(f"{file}: {error}") from error
        self.vocabulary = self.pieces.vocab_size()
        self.end = self.pieces.eos_id() if self.pieces.eos_id() >= 0 else None

    def encode(self, text, begins):
        return self.pieces.encode(text, add_bos=begins and self.pieces.bos_id() >= 0)

    def token(self, text):
        number = self.pieces.piece_to_id(text)
        if self.pieces.id_to_piece(number) != text:
            raise Unusable(f"{text}: the tokenizer has no such token")
        return number


def open_tokenizer(name):
    if name == "bytes":
        return Bytes()
    path = pathlib.Path(name)
    candidates = [path / "tokenizer.json", path / "tokenizer.model"] if path.is_dir() else [path]
    file = next((one for one in candidates if one.is_file()), None)
    if file is None:
        raise Unusable(f"{name}: expected a tokenizer.json, a SentencePiece *.model, a folder with one of them, or bytes")
    return SentencePiece(file) if file.suffix == ".model" else HuggingFace(file)
