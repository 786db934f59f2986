"""./script/tokenize with bytes for tokens, which needs no package: its files are what zenflow-train reads.

  tokens_test.py SOURCE ZENFLOW_TRAIN
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

SOURCE, TRAIN = (pathlib.Path(one).absolute() for one in sys.argv[1:3])
del sys.argv[1:3]
MODEL = {"model_type": "llama", "vocab_size": 258, "hidden_size": 16, "num_hidden_layers": 1,
         "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 24,
         "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
ROWS = [{"prompt": "1 + 1 =", "completion": " 2"}, {"prompt": "é?", "completion": " e"}] * 3


class Tokens(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "model.json").write_text(json.dumps(MODEL))

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")

    def tokenize(self, *arguments):
        return subprocess.run([SOURCE / "script/tokenize", "--tokenizer", "bytes", *arguments],
                              cwd=self.folder, capture_output=True, text=True, check=False)

    def train(self, data):
        done = subprocess.run([TRAIN, "--model", "model.json", "--data", data, "--steps", "2",
                               "--sequence-length", "8", "--threads", "1", "--json", "-q"],
                              cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["results"][0]["losses"]

    def examples(self, name):
        content = (self.folder / name).read_bytes()
        size = struct.unpack("<Q", content[:8])[0]
        data = content[8 + size:]
        found = {}
        for key, tensor in json.loads(content[8:8 + size]).items():
            begin, end = tensor["data_offsets"]
            code = "q" if tensor["dtype"] == "I64" else "i"
            found[key] = list(memoryview(data[begin:end]).cast(code))
        return found

    def test_texts_are_trained_on_as_they_are_by_themselves(self):
        self.write("a.txt", "some words " * 20)
        done = self.tokenize("a.txt", "-o", "a.bin", "--no-eos")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.train("a.bin"), self.train("a.txt"))

    def test_only_completions_are_learnt(self):
        self.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS))
        done = self.tokenize("rows.jsonl", "-o", "rows.safetensors")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("6 examples, 48 tokens, 18 of them to learn", done.stderr)
        found = self.examples("rows.safetensors")
        self.assertEqual(found["offsets"], [0, 10, 16, 26, 32, 42, 48])
        self.assertEqual(found["input_ids"][:10], [*b"1 + 1 = 2", 257])
        self.assertEqual(found["labels"][:10], [-100] * 7 + [*b" 2", 257])
        masked = self.train("rows.safetensors")
        texts = ({"text": row["prompt"] + row["completion"]} for row in ROWS)
        self.write("all.jsonl", "".join(json.dumps(row) + "\n" for row in texts))
        self.assertEqual(self.tokenize("all.jsonl", "-o", "all.safetensors").returncode, 0)
        self.assertEqual(self.examples("all.safetensors")["input_ids"], found["input_ids"])
        self.assertNotEqual(self.train("all.safetensors"), masked)

    def test_what_cannot_be_used_is_said_with_its_place(self):
        self.write("rows.jsonl", '{"prompt": "a", "completion": "b"}\n{"prompt": "a"}\n')
        self.write("text.txt", "a")
        for arguments, said in (
                (("rows.jsonl", "-o", "x.safetensors"), 'rows.jsonl:2: expected an object with the texts "prompt"'),
                (("rows.jsonl", "-o", "x.bin"), "rows.jsonl: rows become a .safetensors file"),
                (("text.txt", "-o", "text.txt"), "expected a name that ends in .bin"),
                (("none.txt", "-o", "x.bin"), "No such file"),
                (("text.txt", "-o", "x.bin", "--eos", "<s>"), "bytes have no tokens with names")):
            done = self.tokenize(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertTrue(done.stderr.startswith("tokenize: "), done.stderr)
            self.assertIn(said, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
        self.assertFalse((self.folder / "x.bin").exists())


unittest.main()
