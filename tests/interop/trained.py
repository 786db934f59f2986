"""trained.py ZENFLOW_TRAIN SOURCE: what zenflow-train learns and leaves, against the real transformers.

* A model of each family is trained for some steps on one sequence, with weight decay, and again by PyTorch: by Hugging
  Face's model, in the two parameter groups of its Trainer, with the same losses and weights in the end.
* The folder of --save-model is loaded by from_pretrained, and has the validation loss that zenflow-train says.
* Rows that script/tokenize has made examples of, by a real BPE and a real SentencePiece tokenizer, have the tokens of
  these, and the loss that Hugging Face's model has with their labels.
* TensorBoard reads the scalars of --log-dir, also of a run that was killed and resumed.
Exit code 1 if anything differs.
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

os.environ["TQDM_DISABLE"] = "1"
import sentencepiece  # noqa: E402
import tokenizers  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer  # noqa: E402
from transformers.trainer import Trainer  # noqa: E402

TRAIN, SOURCE = (pathlib.Path(one).absolute() for one in sys.argv[1:3])
sys.path.insert(0, str(SOURCE / "script"))
from tokens.files import token_file  # noqa: E402

LENGTH = 8
STEPS = 4
RATE, DECAY = 1e-2, 0.5
EPSILON = 1e-2  # large: Adam does not divide by gradients that are nothing but rounding
TOLERANCE = 2e-4  # relative, of losses and weights after fp32 steps in another order of sums
ROWS = [{"prompt": f"What is {a} plus {b}?", "completion": f" {a + b}"} for a in range(6) for b in range(7)]


def train(folder, *arguments):
    done = subprocess.run([TRAIN, "--json", "-q", "-f", *map(str, arguments)], cwd=folder, capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"zenflow-train {' '.join(map(str, arguments))}: {done.stderr}")
    return json.loads(done.stdout)["results"][0]


def far(found, expected):
    return abs(found - expected) > TOLERANCE * max(1.0, abs(expected))


def decays(model):
    """The names that the Trainer gives weight decay."""
    return set(Trainer.get_decay_parameter_names(None, model))


def trained_by_torch(model, tokens):
    """Losses of the steps; the model has what they have made of it."""
    named = dict(model.named_parameters())
    with_decay = decays(model)
    groups = [{"params": [one for name, one in named.items() if name in with_decay], "weight_decay": DECAY},
              {"params": [one for name, one in named.items() if name not in with_decay], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.999), eps=EPSILON)
    ids = torch.tensor([tokens])
    losses = []
    model.eval()  # no dropout
    for _ in range(STEPS):
        logits = model(input_ids=ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits[0], ids[0, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def check_steps(folder, config, tokens):
    common = ("--model", config, "--data", "tokens.bin", "--sequence-length", LENGTH, "--schedule", "gpu-only",
              "--validation-fraction", 0, "--weight-decay", DECAY, "--epsilon", EPSILON)
    train(folder, *common, "--steps", 1, "--lr", 0, "--save-model", "first")
    result = train(folder, *common, "--steps", STEPS, "--lr", RATE, "--weights", "first", "--save-model", "last")
    model = AutoModelForCausalLM.from_pretrained(folder / "first")
    losses = trained_by_torch(model, tokens[:LENGTH + 1])
    wrong = [f"loss of step {i}: {ours}, {theirs} by PyTorch"
             for i, (ours, theirs) in enumerate(zip(result["losses"], losses, strict=True)) if far(ours, theirs)]
    found = load_file(folder / "last" / "model.safetensors")
    for name, expected in model.state_dict().items():
        if name in found:
            gap = (found[name] - expected).abs().max().item()
            if gap > TOLERANCE:
                wrong.append(f"{name}: {gap} off")
    return wrong


def check_saved(folder, config):
    """In several files, with a loss that is another one than before training."""
    result = train(folder, "--model", config, "--data", "tokens.bin", "--sequence-length", LENGTH, "--steps", 6, "--lr",
                   RATE, "--validation-fraction", 0.5, "--save-model", "saved", "--shard-size", "4 kB")
    model, report = AutoModelForCausalLM.from_pretrained(folder / "saved", output_loading_info=True)
    wrong = [f"{kind}: {names}" for kind, names in report.items() if names]
    if not (folder / "saved" / "model.safetensors.index.json").is_file():
        wrong.append("expected several files of weights")
    if type(model).__name__ != model.config.architectures[0]:
        wrong.append(f"{model.config.architectures} is loaded as {type(model).__name__}")
    tokens = (folder / "tokens.bin").read_bytes()[32:]
    ids = torch.tensor(list(memoryview(tokens).cast("H")))
    sequences = (len(ids) - 1) // LENGTH
    losses = []
    for i in range(sequences - sequences // 2, sequences):
        part = ids[i * LENGTH:(i + 1) * LENGTH + 1]
        with torch.no_grad():
            logits = model(input_ids=part[None, :-1]).logits[0]
        losses.append(torch.nn.functional.cross_entropy(logits, part[1:]).item())
    said = result["validations"][-1]["loss"]
    if far(said, sum(losses) / len(losses)):
        wrong.append(f"validation loss {said}, {sum(losses) / len(losses)} of the saved model")
    return wrong


def check_classifier(folder):
    (folder / "task").mkdir()
    for name in ("train.tsv", "dev.tsv"):
        (folder / "task" / name).write_text("sentence\tlabel\n" + "good\t1\nbad\t0\n" * 4)
    config = json.loads((SOURCE / "scenarios/training/llama_3m.json").read_text())
    config |= {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2, "num_key_value_heads": 1}
    (folder / "tiny.json").write_text(json.dumps(config))
    result = train(folder, "--model", "tiny.json", "--data", "task", "--task", "sst-2", "--sequence-length", 8,
                   "--steps", 3, "--save-model", "classifier")
    model = AutoModelForSequenceClassification.from_pretrained(folder / "classifier")
    losses = []
    for text, label in (("good", 1), ("bad", 0)):
        losses.append(model(input_ids=torch.tensor([[*text.encode(), 257]]), labels=torch.tensor([label])).loss.item())
    said = result["validations"][-1]["loss"]
    return [f"classifier: loss {said}, {losses} of the saved model"] if far(said, sum(losses) / 2) else []


def make_tokenizers(folder):
    """A BPE of the tokenizers library, and a SentencePiece model, of the rows' texts."""
    texts = [row["prompt"] + row["completion"] for row in ROWS]
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    bpe.train_from_iterator(texts, tokenizers.trainers.BpeTrainer(
        vocab_size=320, special_tokens=["<unk>", "<s>", "</s>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    bpe.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    (folder / "bpe").mkdir()
    # Models keep such lengths in this file; they are for batches, not for data.
    bpe.enable_truncation(3)
    bpe.enable_padding(length=5)
    bpe.save(str(folder / "bpe" / "tokenizer.json"))
    (folder / "bpe" / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}))
    (folder / "texts").write_text("\n".join(texts))
    (folder / "pieces").mkdir()
    sentencepiece.SentencePieceTrainer.train(input=str(folder / "texts"), vocab_size=60, model_type="bpe",
                                             model_prefix=str(folder / "pieces" / "tokenizer"), minloglevel=2)


def expected_rows(folder, name):
    """(prompt, completion) of each row, by the library itself."""
    if name == "bpe":
        tokenizer = AutoTokenizer.from_pretrained(folder / "bpe")
        return [(tokenizer(row["prompt"]).input_ids,
                 tokenizer(row["completion"], add_special_tokens=False).input_ids + [tokenizer.eos_token_id])
                for row in ROWS]
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "pieces" / "tokenizer.model"))
    return [([pieces.bos_id(), *pieces.encode(row["prompt"])], [*pieces.encode(row["completion"]), pieces.eos_id()])
            for row in ROWS]


def check_examples(folder, name):
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    subprocess.run([sys.executable, "-B", "-m", "tokens", "--tokenizer", folder / name, folder / "rows.jsonl", "-o",
                    folder / "rows.safetensors", "-f"], cwd=SOURCE / "script", check=True, stderr=subprocess.DEVNULL)
    rows = expected_rows(folder, name)
    found = load_file(folder / "rows.safetensors")
    wrong = []
    if found["input_ids"].tolist() != [one for prompt, completion in rows for one in prompt + completion]:
        wrong.append(f"{name}: the tokens are not those of the library")
    config = json.loads((SOURCE / "scenarios/training/llama_3m.json").read_text())
    config |= {"vocab_size": 400, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2,
               "num_key_value_heads": 1}
    (folder / name / "config.json").write_text(json.dumps(config))
    result = train(folder, "--model", f"{name}/config.json", "--data", "rows.safetensors", "--sequence-length", 40,
                   "--micro-batch-size", 4, "--gradient-accumulation-steps", 2, "--steps", 3, "--validation-fraction", 0.2,
                   "--save-model", "taught")
    model = AutoModelForCausalLM.from_pretrained(folder / "taught")
    loss, targets = 0.0, 0
    for prompt, completion in rows[len(rows) - len(rows) // 5:]:
        labels = torch.tensor([[-100] * len(prompt) + completion])
        with torch.no_grad():
            one = model(input_ids=torch.tensor([prompt + completion]), labels=labels).loss.item()
        loss += one * len(completion)
        targets += len(completion)
    said = result["validations"][-1]["loss"]
    if far(said, loss / targets):
        wrong.append(f"{name}: validation loss {said}, {loss / targets} with Hugging Face's labels")
    if name == "bpe" and AutoTokenizer.from_pretrained(folder / "taught")("What").input_ids != \
            AutoTokenizer.from_pretrained(folder / "bpe")("What").input_ids:
        wrong.append("the saved tokenizer is another one")
    return wrong


def check_log(folder):
    """The real TensorBoard reads what the run says, without what a killed run had written of later steps."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    common = ("--model", "tiny.json", "--data", "task", "--task", "sst-2", "--sequence-length", 8, "--checkpoint", "ck",
              "--evaluate-interval", 2, "--log-dir", "runs")
    train(folder, *common, "--steps", 4, "--lr", RATE)
    longer = folder / "longer"
    train(folder, *common[:-1], longer, "--steps", 7, "--lr", RATE, "--resume")  # leaves the log at step 4
    (folder / "ck" / "checkpoint-7").unlink()
    for file in longer.iterdir():
        file.rename(folder / "runs" / (file.name + ".killed"))
    result = train(folder, *common, "--steps", 6, "--lr", RATE, "--resume")
    log = EventAccumulator(str(folder / "runs"))
    log.Reload()
    wrong = []
    losses = [(event.step, event.value) for event in log.Scalars("train/loss")]
    if [step for step, _ in losses] != list(range(1, 7)):
        wrong.append(f"TensorBoard has the steps {[step for step, _ in losses]}")
    elif any(far(value, said) for (_, value), said in zip(losses, result["losses"], strict=True)):
        wrong.append(f"TensorBoard has the losses {losses}, the result {result['losses']}")
    tags = set(log.Tags()["scalars"])
    missing = {"train/learning_rate", "train/grad_norm", "train/tokens_per_second", "eval/loss", "eval/accuracy"} - tags
    return wrong + [f"TensorBoard has no {tag}" for tag in sorted(missing)]


def main():
    models = [file for file in sorted((SOURCE / "tests/data/model").glob("*.json"))
              if "classes" not in file.stem and "regression" not in file.stem]
    failures = 0

    def report(name, wrong):
        nonlocal failures
        failures += bool(wrong)
        for text in wrong:
            print(f"{name}: {text}", flush=True)

    for model in models:
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            vocabulary = json.loads(model.read_text())["vocab_size"]
            tokens = [random.Random(1).randrange(vocabulary) for _ in range(LENGTH + 1)]
            (folder / "tokens.bin").write_bytes(token_file(tokens, vocabulary))
            wrong = check_steps(folder, model, tokens)
            more = [random.Random(2).randrange(vocabulary) for _ in range(20 * LENGTH)]
            (folder / "tokens.bin").write_bytes(token_file(more, vocabulary))
            report(model.stem, wrong + check_saved(folder, model))
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        make_tokenizers(folder)
        report("classifier", check_classifier(folder))
        report("log", check_log(folder))
        for name in ("bpe", "pieces"):
            report("examples", check_examples(folder, name))
    print(f"{len(models)} models trained, saved and loaded, a classifier, a log, 2 tokenizers: {failures} of them differ")
    return int(failures > 0 or not models)


sys.exit(main())
