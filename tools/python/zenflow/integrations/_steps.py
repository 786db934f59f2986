"""When the steps of a training end, and how long the engine's calls take."""

import time
from typing import Any, Callable, Dict, List, Optional, Tuple

PHASES = ("forward", "backward", "step")


class StepClock:
    """Around an engine of DeepSpeed: `ended` is called after each step. That is an optimizer step; under ZenFlow, whose
    windows have several, each call of step(). `phases` has the seconds of the engine's calls since the last step, by
    clock of the host; `take_phases` begins anew."""

    def __init__(self, engine: Any, ended: Callable[[], None]):
        self.engine = engine
        self.ended = ended
        self.phases: Dict[str, float] = dict.fromkeys(PHASES, 0.0)
        self._began = 0.0
        self._hooks = [engine.register_forward_pre_hook(self._forward_begins),
                       engine.register_forward_hook(self._forward_ended)]
        self._replaced = [self._timed("backward"), self._timed("step", self._after_step)]

    def take_phases(self) -> Dict[str, float]:
        """Those since the last call of this, which ends here."""
        phases, self.phases = self.phases, dict.fromkeys(PHASES, 0.0)
        return phases

    def close(self) -> None:
        """The engine is as it was."""
        for hook in self._hooks:
            hook.remove()
        for name, own in self._replaced:
            if own is None:
                self.engine.__dict__.pop(name, None)
            else:  # another program's wrapper
                setattr(self.engine, name, own)
        self._hooks, self._replaced = [], []

    def _forward_begins(self, *_: Any) -> None:
        self._began = time.perf_counter()

    def _forward_ended(self, *_: Any) -> None:
        if self.engine.training:
            self.phases["forward"] += time.perf_counter() - self._began

    def _timed(self, name: str, after: Optional[Callable[[int], None]] = None) -> Tuple[str, Any]:
        """Wraps the engine's method, on this object alone. Returns its name and what the object itself had there."""
        own = self.engine.__dict__.get(name)
        method = getattr(self.engine, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            before, start = self.engine.global_steps, time.perf_counter()
            result = method(*args, **kwargs)
            self.phases[name] += time.perf_counter() - start
            if after is not None:
                after(before)
            return result

        setattr(self.engine, name, timed)
        return name, own

    def _after_step(self, before: int) -> None:
        if getattr(self.engine, "zenflow", False) or self.engine.global_steps > before:
            self.ended()


class BatchShapes:
    """Sequences and tokens of the batches that a module is given, as far as they can be seen."""

    def __init__(self, module: Any):
        self.seen: List[Tuple[int, int]] = []
        self._hook = module.register_forward_pre_hook(self._note, with_kwargs=True)

    def close(self) -> None:
        """The module is as it was."""
        self._hook.remove()

    def _note(self, module: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        if not module.training or len(self.seen) >= 1000:
            return
        named = [kwargs.get(name) for name in ("input_ids", "inputs_embeds", "decoder_input_ids")]
        for one in named + list(args):
            shape: Tuple[int, ...] = getattr(one, "shape", ())
            if len(shape) >= 2:
                self.seen.append((int(shape[0]), int(shape[1])))
                return

    def mean(self) -> Optional[Tuple[int, int]]:
        """Sequences of a micro-batch, and tokens of a sequence with padding: the means; None if nothing was seen."""
        if not self.seen:
            return None
        sequences = sum(one for one, _ in self.seen)
        tokens = sum(one * length for one, length in self.seen)
        return max(1, round(sequences / len(self.seen))), max(1, round(tokens / sequences))

    def differ(self) -> bool:
        """Whether not all batches were alike."""
        return len(set(self.seen)) > 1
