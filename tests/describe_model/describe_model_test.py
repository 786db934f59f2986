"""./script/describe-model, as far as it needs no PyTorch: the form of a description, how layers become
kinds, and how a reader's tensors are compared with those of transformers.

  describe_model_test.py SCRIPT_FOLDER
"""
import json
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
SCRIPTS = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(SCRIPTS))

from describe_model import check, description  # noqa: E402


def layer(name="block", size=4, saved=10, attention=(), tokens=0):
    return {"name": name, "width": size, "tokens": tokens,
            "tensors": [{"name": "model.layers.{}.q.weight", "shape": [size, 2]}],
            "products": [{"name": "q", "in": 2, "out": size, "count": 1, "share": 1}],
            "attention": list(attention), "chains": [], "saved": {"elements": saved, "bytes": 0}}


def described(kinds, order):
    return {"embedding": layer("embedding"), "kinds": kinds, "order": order, "head": layer("head")}


class Kinds(unittest.TestCase):
    def test_equal_layers_are_one_kind_and_runs_are_counted(self):
        kinds, order = description.kinds_of([layer(), layer(), layer(size=8), layer(size=8), layer()])
        self.assertEqual([kind["width"] for kind in kinds], [4, 8])
        self.assertEqual(order, [[0, 2], [1, 2], [0, 1]])

    def test_what_a_first_layer_keeps_does_not_make_it_a_kind(self):
        kinds, order = description.kinds_of([layer(saved=12), layer(), layer()])
        self.assertEqual(order, [[0, 3]])
        self.assertEqual(kinds[0]["saved"]["elements"], 10)

    def test_of_as_many_the_later_one_counts(self):
        kinds, _ = description.kinds_of([layer(saved=12), layer()])
        self.assertEqual(kinds[0]["saved"]["elements"], 10)

    def test_parameters_are_those_of_all_layers(self):
        kinds, order = description.kinds_of([layer(), layer(), layer(size=8)])
        self.assertEqual(description.parameters(described(kinds, order)), 8 + 8 + 2 * 8 + 16)

    def test_a_layers_number_gives_way_to_braces(self):
        self.assertEqual(description.placeholder("model.layers.3.mlp.experts.3.up", "model.layers.3"),
                         "model.layers.{}.mlp.experts.3.up")


class Products(unittest.TestCase):
    def test_those_of_a_list_become_one(self):
        one = {"in": 4, "out": 8, "count": 1, "share": 0.25}
        merged = description.merged_products(
            [{"name": "q_proj", **one}, *({"name": f"mlp.experts.{i}.up_proj", **one} for i in range(8))])
        self.assertEqual([(p["name"], p["count"]) for p in merged], [("q_proj", 1), ("up_proj", 8)])

    def test_equal_shapes_of_other_names_stay_apart(self):
        one = {"in": 4, "out": 8, "count": 1, "share": 1}
        merged = description.merged_products([{"name": "attn.k", **one}, {"name": "cross.k", **one}])
        self.assertEqual(len(merged), 2)

    def test_what_peft_wraps_keeps_its_name(self):
        self.assertEqual(description.short("self_attn.q_proj.base_layer"), "q_proj")
        self.assertEqual(description.short("self_attn.q_proj.lora_A.default"), "q_proj.lora_A")

    def test_forward_flops_are_of_products_and_attention(self):
        attention = {"heads": 2, "kv_heads": 1, "head_dim": 3, "value_dim": 5, "window": 0,
                     "causal": True, "linear": False, "key_tokens": 0}
        kinds, order = description.kinds_of([layer(attention=[attention])] * 3)
        flops = description.forward_flops(described(kinds, order), 10)
        self.assertEqual(flops, 5 * 2 * 10 * 8 + 3 * 2 * 10 * 10 * 2 * (3 + 5))

    def test_attention_looks_at_other_streams_and_at_windows_of_images(self):
        one = {"heads": 1, "kv_heads": 1, "head_dim": 1, "value_dim": 1, "causal": False, "linear": False}
        kinds, order = description.kinds_of(
            [layer(attention=[{**one, "window": 0, "key_tokens": 7}]),
             layer(attention=[{**one, "window": 8, "key_tokens": 0}], tokens=64),
             layer(attention=[{**one, "window": 0, "key_tokens": 0, "linear": True}])])
        products = 2 * 8 * (10 + 10 + 10 + 64 + 10)
        self.assertEqual(description.forward_flops(described(kinds, order), 10),
                         products + 2 * 10 * 7 * 2 + 2 * 64 * 16 * 2)


class Form(unittest.TestCase):
    def test_the_text_is_the_same_json(self):
        kinds, order = description.kinds_of([layer(), layer(size=8)])
        whole = described(kinds, order)
        self.assertEqual(json.loads(description.text_of(whole)), whole)

    def test_what_fits_on_a_line_stands_on_one(self):
        text = description.text_of(described(*description.kinds_of([layer()])))
        self.assertIn('{"name": "q", "in": 2, "out": 4, "count": 1, "share": 1}', text)
        self.assertTrue(all(len(line) <= description.LINE + 1 for line in text.splitlines()))

    def test_whole_numbers_are_written_without_a_fraction(self):
        self.assertEqual(json.dumps([description.rounded(x) for x in (3.0, 0.5)]), "[3, 0.5]")

    def test_a_config_json_is_named_by_its_folder(self):
        self.assertEqual(description.model_name(pathlib.Path("models/llama/config.json")), "llama")
        self.assertEqual(description.model_name(pathlib.Path("models/llama.json")), "llama")
        self.assertEqual(description.model_name(pathlib.Path("config.json")), "config")

    def test_a_refusal_names_file_and_key(self):
        with self.assertRaisesRegex(description.Refused, "^a.json: model_type: required$"):
            description.fail("a.json", "model_type", "required")


class Check(unittest.TestCase):
    SAID = [{"tensor": "embed.weight", "shape": "5 x 2", "layers": "", "parameters": "10"},
            {"tensor": "h.{}.norm.weight", "shape": "1", "layers": "0-2,5", "parameters": "4"},
            {"tensor": "all", "shape": "", "layers": "", "parameters": "14"}]
    THEIRS = {"embed.weight": (5, 2)} | {f"h.{n}.norm.weight": (1,) for n in (0, 1, 2, 5)}

    def test_a_programs_rows_are_read(self):
        read = check.parse(self.SAID)
        self.assertEqual((read.parameters, read.tensors, read.refused), (14, self.THEIRS, ""))

    def test_the_same_tensors_agree(self):
        self.assertEqual(check.differences(check.parse(self.SAID), 14, self.THEIRS), [])

    def test_every_difference_is_said(self):
        read = check.Read(15, {"embed.weight": (2, 5), "bias": (5,)})
        theirs = {"embed.weight": (5, 2), "norm.weight": (4,)}
        self.assertEqual(check.differences(read, 14, theirs),
                         ["parameters 15 for 14", "missing: norm.weight [4]", "too many: bias [5]",
                          "other shape: embed.weight [2, 5] for [5, 2]"])

    def test_only_a_difference_fails(self):
        results = [check.Result("a.json", state) for state in check.STATES]
        self.assertEqual([one.state for one in results if not one.agrees], ["DIFFERS"])
        self.assertIn("1 agree, 1 differ", check.summary(results))

    def test_a_program_that_is_not_there_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            missing = pathlib.Path(folder) / "program"
            with self.assertRaisesRegex(description.Refused, "program: "):
                check.ask(missing, pathlib.Path("a.json"))


if __name__ == "__main__":
    unittest.main()
