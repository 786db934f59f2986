"""The parts of zenflow.integrations that need neither PyTorch nor libzenflow.so: run by ctest, with the folder of the
package's sources. What is real is tried by script/interop --only advisor."""

import importlib
import logging
import math
import sys
import types
import unittest
from pathlib import Path
from types import SimpleNamespace

SOURCES = Path(sys.argv.pop())


def load():
    """The package without its __init__, which loads the library."""
    package = types.ModuleType("zenflow")
    package.__path__ = [str(SOURCES)]
    calls = types.ModuleType("zenflow._calls")
    calls.run = None
    calls.Error = type("Error", (Exception,), {})
    for name in ("InputError", "Infeasible"):
        setattr(calls, name, type(name, (calls.Error,), {}))
    sys.modules.update({"zenflow": package, "zenflow._calls": calls})
    # As where it is not installed, whatever this Python has.
    sys.modules["torch"] = None
    return importlib.import_module("zenflow.integrations")


integrations = load()
interval = importlib.import_module("zenflow.integrations._interval")
steps = importlib.import_module("zenflow.integrations._steps")


class Engine:
    """As much of DeepSpeed's engine as the advisor looks at."""

    def __init__(self, now=1, warm_up=0, select=0, accumulation=1, zenflow=True):
        self.zenflow, self.auto_update = zenflow, False
        self.update_interval, self.full_warm_up_rounds, self.select_interval = now, warm_up, select
        self.micro_steps = self.global_steps = 0
        self.accumulation = accumulation
        self.training = True
        self.module = self
        self.hooks = []
        self._is_gradient_accumulation_boundary = None
        self.optimizer = SimpleNamespace(update_interval=now, gradient_accumulation_steps=now, micro_step=-1)
        self._config = SimpleNamespace(gradient_accumulation_steps=now)

    def zero_optimization_stage(self):
        return 2

    def bfloat16_enabled(self):
        return True

    def managed_gradient_accumulation(self):
        return True

    def _hook(self, hook, **_):
        self.hooks.append(hook)
        return SimpleNamespace(remove=lambda: self.hooks.remove(hook))

    register_forward_pre_hook = register_forward_hook = _hook

    def backward(self, loss):
        return loss

    def step(self):
        self.micro_steps += 1
        if self.micro_steps % self.accumulation == 0:
            self.global_steps += 1
        return "stepped"


def is_boundary(engine, micro_step):
    """As is_zenflow_update_boundary of DeepSpeed 0.19.8."""
    done, warm_up = micro_step + 1, engine.full_warm_up_rounds
    return (done < warm_up or (done - warm_up) % engine.update_interval == 0 or
            (engine.select_interval != 0 and done % engine.select_interval == 0))


def buffer_of(engine, micro_step):
    """As get_overlap_step_state."""
    if micro_step < engine.full_warm_up_rounds:
        return micro_step & 1
    return (micro_step // engine.update_interval) & 1


def windows(engine, to, changed_when):
    """(micro steps, buffers written, buffer handed to the update) of each window after the warm-up."""
    found, inside = [], []
    for micro_step in range(engine.full_warm_up_rounds + 8 * engine.update_interval * to):
        engine.micro_steps = micro_step
        if engine.update_interval != to and changed_when(engine, to):
            interval.change(engine, to)
        if micro_step >= engine.full_warm_up_rounds:
            inside.append(buffer_of(engine, micro_step))
        if is_boundary(engine, micro_step) and inside:
            found.append((len(inside), set(inside), inside[-1]))
            inside = []
    return found


def is_sound(engine, found):
    """Each window fills one buffer, and updates take turns."""
    turns = [last for _, _, last in found]
    return (all(len(buffers) == 1 for _, buffers, _ in found) and
            all(one != other for one, other in zip(turns, turns[1:])) and
            found[-1][0] == engine.update_interval)


class Interval(unittest.TestCase):
    CASES = [(now, to, warm_up, select) for now in (1, 2, 3, 4) for to in (1, 2, 4, 6, 8) if now != to
             for warm_up in (0, 24) for select in (0, 48)]

    def test_windows_and_buffers_stay_sound(self):
        for now, to, warm_up, select in self.CASES:
            engine = Engine(now, warm_up, select)
            self.assertIsNone(interval.refusal(engine, "0.19.8+cpu", to))
            found = windows(engine, to, interval.is_due)
            self.assertEqual(engine.update_interval, to, "never due")
            self.assertTrue(is_sound(engine, found), (now, to, warm_up, select, found))

    def test_any_boundary_would_not_do(self):
        unsound = 0
        for now, to, warm_up, select in self.CASES:
            engine = Engine(now, warm_up, select)
            unsound += not is_sound(engine, windows(
                engine, to, lambda one, _: one.micro_steps == warm_up + 3 * math.lcm(now, to) + now))
        self.assertGreater(unsound, 0)

    def test_all_four_places_change(self):
        engine = Engine(1)
        interval.change(engine, 4)
        self.assertEqual([engine.update_interval, engine._config.gradient_accumulation_steps,
                          engine.optimizer.update_interval, engine.optimizer.gradient_accumulation_steps], [4] * 4)

    def test_what_is_not_verified_is_refused_by_name(self):
        def refused(version="0.19.8", to=4, **facts):
            engine = Engine(2)
            for name, value in facts.items():
                setattr(engine, name, value)
            return interval.refusal(engine, version, to)
        self.assertIsNone(refused())
        self.assertIn("does not run ZenFlow", refused(zenflow=False))
        self.assertIn("0.20.0", refused("0.20.0"))
        self.assertIn("stage 3", refused(zero_optimization_stage=lambda: 3))
        self.assertIn("auto", refused(auto_update=True))
        self.assertIn("bf16", refused(bfloat16_enabled=lambda: False))
        self.assertIn("the script", refused(_is_gradient_accumulation_boundary=True))
        self.assertIn("resume", refused(micro_steps=7))
        self.assertIn("full_warm_up_rounds = 6", refused(full_warm_up_rounds=6))
        self.assertIn("select_interval = 10", refused(select_interval=10))


class Clock(unittest.TestCase):
    def test_steps_are_optimizer_steps_or_zenflows(self):
        for zenflow, ended in ((True, 6), (False, 2)):
            engine, seen = Engine(accumulation=3, zenflow=zenflow), []
            clock = steps.StepClock(engine, lambda: seen.append(engine.micro_steps))
            for _ in range(6):
                engine.backward(None)
                self.assertEqual(engine.step(), "stepped")
            self.assertEqual(len(seen), ended)
            self.assertGreater(clock.take_phases()["step"], 0)
            self.assertEqual(set(clock.take_phases().values()), {0.0})
            clock.close()
            self.assertEqual(engine.hooks, [])
            self.assertNotIn("step", vars(engine))
            self.assertNotIn("backward", vars(engine))

    def test_shapes_are_those_of_the_tokens(self):
        engine = Engine()
        shapes = steps.BatchShapes(engine)
        note = engine.hooks[0]
        self.assertIsNone(shapes.mean())
        note(engine, (), {"labels": 1, "input_ids": SimpleNamespace(shape=(2, 60))})
        note(engine, (SimpleNamespace(shape=(2, 100)),), {})
        engine.training = False
        note(engine, (), {"input_ids": SimpleNamespace(shape=(9, 9))})
        self.assertEqual(shapes.mean(), (2, 80))
        self.assertTrue(shapes.differ())


class Advisor(unittest.TestCase):
    def test_what_fails_is_said_once_and_the_training_goes_on(self):
        engine = Engine()
        advisor = integrations.OffloadAdvisor("nowhere", warmup=2, measure=2, record=1)
        with self.assertLogs("zenflow", logging.WARNING) as said:
            with advisor.watch(engine):
                for _ in range(20):  # without PyTorch the advisor fails after the second
                    self.assertEqual(engine.step(), "stepped")
        self.assertEqual(len(said.output), 1, said.output)
        self.assertIn("the training goes on", said.output[0])
        self.assertEqual(engine.micro_steps, 20)
        self.assertEqual(engine.hooks, [])
        self.assertNotIn("step", vars(engine))

    def test_strict_raises(self):
        engine = Engine()
        with self.assertRaises(ImportError):
            with integrations.OffloadAdvisor("nowhere", warmup=1, strict=True).watch(engine):
                engine.step()

    def test_too_short_a_training_is_said(self):
        engine = Engine(now=4)
        with self.assertLogs("zenflow", logging.WARNING) as said:
            with integrations.OffloadAdvisor("nowhere", warmup=5, measure=3, record=1).watch(engine):
                engine.step()
        # Whole windows of 4: 8, 4, and 1 and 4 with the profiler.
        self.assertIn("ended after 1 steps, 17 are needed", said.output[0])

    def test_errors_of_the_training_are_its_own(self):
        engine = Engine()
        with self.assertRaises(KeyError):
            with integrations.OffloadAdvisor("nowhere", warmup=9).watch(engine):
                raise KeyError("the script's")
        self.assertEqual(engine.hooks, [])

    def test_events_of_a_trainer_that_are_not_needed(self):
        self.assertIsNone(integrations.OffloadAdvisor("nowhere").on_epoch_begin(None, None, None))
        with self.assertRaises(AttributeError):
            integrations.OffloadAdvisor("nowhere").epochs

    def test_wrong_arguments(self):
        with self.assertRaises(ValueError):
            integrations.OffloadAdvisor(measure=0)


if __name__ == "__main__":
    unittest.main()
