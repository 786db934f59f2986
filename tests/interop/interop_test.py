"""The parts of the comparison that need neither DeepSpeed nor zenflow-sim. Run by ctest."""

import json
import random
import unittest

import configurations
import documents
from advisor import interval_differences
from schedule import differences
from shrink import shrink
from steps import phases_of, summary_of
from steps_predict import phases_in
from verdicts import Says, verdicts_of


class Generator(unittest.TestCase):
    def test_same_seed_same_cases(self):
        first = configurations.generate(7, 300)
        self.assertEqual(first, configurations.generate(7, 300))
        self.assertNotEqual(first, configurations.generate(8, 300))

    def test_cases_are_different_and_start_with_the_bases(self):
        cases = configurations.generate(1, 1000)
        self.assertEqual(len({(case.text(), case.world_size) for case in cases}), 1000)
        for base, case in zip(configurations.BASES, cases):
            self.assertEqual(case.document, base)

    def test_every_key_is_changed_somewhere(self):
        text = " ".join(case.text() for case in configurations.generate(1, 4000))
        missing = [key for names in configurations.KEYS.values() for key in names
                   if f'"{key}"' not in text]
        self.assertEqual(missing, [])

    def test_bases_stay_as_they_are(self):
        before = json.dumps(configurations.BASES)
        configurations.generate(1, 500)
        configurations.every_value({"zero_optimization.zenflow": ["topk_ratio"]})
        self.assertEqual(json.dumps(configurations.BASES), before)

    def test_hjson_is_the_same_for_the_same_seed_and_not_json(self):
        document = configurations.BASES[1]
        texts = [configurations.hjson_text(document, random.Random(seed)) for seed in range(20)]
        again = [configurations.hjson_text(document, random.Random(seed)) for seed in range(20)]
        self.assertEqual(texts, again)
        self.assertEqual(len(set(texts)), 20)
        for text in texts:
            self.assertRaises(json.JSONDecodeError, json.loads, text)
            self.assertIn("topk_ratio", text)

    def test_documents_have_names_of_their_own(self):
        names = [name for name, _ in documents.samples()]
        self.assertEqual(len(set(names)), len(names))


class Shrinking(unittest.TestCase):
    def test_leaves_only_what_is_needed(self):
        def fails(document):
            return document.get("a", {}).get("b") == 1 and "c" in document
        document = {"x": 1, "a": {"b": 1, "d": [1, 2]}, "c": {"y": 2}, "z": {"a": 3}}
        self.assertEqual(shrink(document, fails), {"a": {"b": 1}, "c": {}})
        self.assertEqual(document["x"], 1)


class Verdicts(unittest.TestCase):
    def test_files_are_told_apart_and_only_the_classes_errors_count(self):
        def finding(file, rejected_by):
            return {"file": file, "rejected_by": rejected_by, "code": "ZF007", "path": "stage",
                    "what": "unknown"}
        found = verdicts_of({"files": ["a", "b", "c"],
                             "findings": [finding("b", "config"), finding("c", "engine")]})
        self.assertEqual({file: one.says for file, one in found.items()},
                         {"a": Says.ACCEPTED, "b": Says.REJECTED, "c": Says.ACCEPTED})


class Comparison(unittest.TestCase):
    SIMULATED = {"step": 3, "boundary": True, "selects": True, "buffer": 0, "weights_of": None}
    FOUND = {"step": 3, "boundary": True, "updates": True, "selects": True,
             "resynchronises": True, "buffer": 0, "weights_of": None}

    def test_agreement_has_no_lines(self):
        self.assertEqual(differences([self.SIMULATED], [self.FOUND]), [])

    def test_every_difference_has_a_line(self):
        for key in ("boundary", "updates", "selects", "resynchronises", "buffer", "weights_of"):
            changed = {**self.FOUND, key: 1 if self.FOUND[key] in (0, None) else False}
            self.assertEqual(len(differences([self.SIMULATED], [changed])), 1, key)


class ChangedInterval(unittest.TestCase):
    ALWAYS = {"calls": [{"calls": {"submit": [buffer]}, "boundary": True}
                        for buffer in (0, 1, 0, 1)],
              "gradients": [{"submit": [[2.0]]}] * 4}

    def found(self, step, what, value):
        changed = json.loads(json.dumps(self.ALWAYS))
        changed[what][step] = value
        return interval_differences({**changed, "changed": 2}, self.ALWAYS)

    def test_what_was_before_the_change_does_not_count(self):
        self.assertEqual(self.found(1, "gradients", {}), [])

    def test_other_buffers_and_gradients_do(self):
        other = {"calls": {"submit": [0]}, "boundary": True}
        self.assertEqual(len(self.found(3, "calls", other)), 1)
        self.assertEqual(len(self.found(2, "gradients", {"submit": [[4.0]]})), 1)
        self.assertEqual(self.found(2, "gradients", {"submit": [[2.001]]}), [])

    def test_a_change_that_never_came_is_told(self):
        never = {**self.ALWAYS, "changed": None}
        self.assertEqual(len(interval_differences(never, self.ALWAYS)), 1)
        silent = {"calls": self.ALWAYS["calls"], "gradients": [{}] * 4, "changed": 2}
        self.assertEqual(len(interval_differences(silent, silent)), 1)


class Steps(unittest.TestCase):
    def test_phases_are_those_of_the_quiet_half(self):
        steps = [[1, 2, 3], [1, 2, 5], [9, 9, 9], [1, 4, 4]]
        self.assertEqual(phases_of(steps, zenflow=False), [1, 2, 4])

    def test_zenflows_phases_are_means_of_all_steps(self):
        self.assertEqual(phases_of([[1, 2, 3], [3, 2, 9]], zenflow=True), [2, 2, 6])

    def test_fitted_run_does_not_count_in_errors(self):
        rows = [{"fitted": True, "step_error": 9, "memory_error": 9},
                {"fitted": False, "step_error": 0.1, "memory_error": -0.2},
                {"fitted": False, "step_error": -0.3, "memory_error": -0.2}]
        found = summary_of(rows)
        self.assertAlmostEqual(found["step"]["mean"], 0.2)
        self.assertAlmostEqual(found["step"]["signed_mean"], -0.1)
        self.assertAlmostEqual(found["step"]["worst"], 0.3)
        self.assertAlmostEqual(found["memory"]["worst"], 0.2)

    def test_phases_of_a_simulated_trace(self):
        def span(name, category, start, end, pid=0):
            return {"ph": "X", "name": name, "cat": category, "ts": start, "dur": end - start,
                    "pid": pid}
        # Forward 0 to 2 (its weights arrive until 0.5), backward 2 to 5, step until 9 us. Other
        # ranks do not count.
        trace = {"traceEvents": [
            span("ProfilerStep#0", "user_annotation", 0, 9), span("forward", "kernel", 0.5, 2),
            span("backward head", "kernel", 2, 3), span("backward block 0", "kernel", 3.5, 5),
            span("backward head", "kernel", 1, 8, pid=1)]}
        self.assertEqual([round(one * 1e6, 6) for one in phases_in(trace)], [2, 3, 4])
        # A second step, of 4, 1 and 2 us.
        trace["traceEvents"] += [span("ProfilerStep#1", "user_annotation", 9, 16),
                                 span("backward block 0", "kernel", 13, 14)]
        self.assertEqual([round(one * 1e6, 6) for one in phases_in(trace)], [3, 2, 3])


if __name__ == "__main__":
    unittest.main()
