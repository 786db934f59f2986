"""ZenFlow's update_interval in a running DeepSpeed engine: whether, when and how it can be changed.

DeepSpeed keeps it in four places: `update_interval` of the engine and of its optimizer, `gradient_accumulation_steps`
of the engine's configuration, which decides boundaries and scales the loss, and that of the optimizer. An overlapped
update reads one of two gradient buffers, (micro step // update_interval) & 1, while the next window fills the other
one. So the interval may change where a window of the old length has ended, one of the new length begins, and buffers go
on taking turns. The worker process is told buffer and step with each update and knows no interval.
"""

from typing import Any, Optional

#: Releases of DeepSpeed for which script/interop --only advisor has shown it.
VERIFIED = ("0.19.8",)


def refusal(engine: Any, version: str, interval: int) -> Optional[str]:
    """Why the interval of this engine cannot become `interval`; None if it can."""
    if not getattr(engine, "zenflow", False):
        return "the engine does not run ZenFlow"
    release = version.split("+")[0]
    if release not in VERIFIED:
        return "it is not verified for DeepSpeed %s, but for %s" % (release, ", ".join(VERIFIED))
    if engine.zero_optimization_stage() not in (1, 2):
        return "it is verified for stages 1 and 2, not for stage %d" % engine.zero_optimization_stage()
    if engine.auto_update:
        return 'update_interval is "auto": DeepSpeed changes it itself'
    if not engine.bfloat16_enabled():
        return "it is verified with bf16 alone"
    if not engine.managed_gradient_accumulation() or engine._is_gradient_accumulation_boundary is not None:
        return "the script says itself where windows end"
    if engine.optimizer.micro_step + 1 != engine.micro_steps:
        return "engine and optimizer count micro steps differently, as after a resume"
    for what, steps in (("full_warm_up_rounds", engine.full_warm_up_rounds),
                        ("select_interval", engine.select_interval)):
        for length in (engine.update_interval, interval):
            if steps % length:
                return "%s = %d is no multiple of %d: windows and buffers do not begin together" % (
                    what, steps, length)
    return None


def is_due(engine: Any, interval: int) -> bool:
    """Whether it can change now, between step() and the next forward: `micro_steps` are over."""
    steps: int = engine.micro_steps
    now: int = engine.update_interval
    warm_up: int = engine.full_warm_up_rounds
    return (steps > warm_up and steps % now == 0 and steps % interval == 0
            and (steps // now) % 2 == (steps // interval) % 2)


def change(engine: Any, interval: int) -> None:
    """Where is_due says so, on all ranks alike."""
    engine.update_interval = interval
    engine._config.gradient_accumulation_steps = interval
    engine.optimizer.update_interval = interval
    engine.optimizer.gradient_accumulation_steps = interval
