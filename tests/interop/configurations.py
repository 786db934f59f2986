"""Generates DeepSpeed configurations, most of them broken: the same for the same seed.

A configuration starts as one that DeepSpeed accepts (BASES). Up to four changes follow: a key set
to a value of any type, a key misspelt, removed or moved, a block replaced, batch sizes drawn at
random. Nothing here knows what the linter or DeepSpeed makes of the result.
"""

import copy
import json
import random
from dataclasses import dataclass

ZERO = "zero_optimization"
ZENFLOW = f"{ZERO}.zenflow"
OFFLOAD = f"{ZERO}.offload_optimizer"
OFFLOAD_PARAM = f"{ZERO}.offload_param"

_ADAM = {"type": "AdamW",
         "params": {"lr": 1e-5, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}}


def _base(zero, **more):
    return {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1,
            "bf16": {"enabled": True}, "gradient_clipping": 1.0, "optimizer": copy.deepcopy(_ADAM),
            ZERO: zero, **more}


def _zenflow(**more):
    return {"topk_ratio": 0.1, "select_strategy": "step", "select_interval": 64,
            "update_interval": 4, "full_warm_up_rounds": 4, "overlap_step": True, **more}


# ZeRO-Offload, ZenFlow overlapped and not, stages 1 to 3, SuperOffload, NVMe, fp16, no ZeRO.
BASES = (
    _base({"stage": 2, "overlap_comm": True, "reduce_bucket_size": 200000000,
           "round_robin_gradients": True,
           "offload_optimizer": {"device": "cpu", "pin_memory": True}},
          wall_clock_breakdown=True),
    _base({"stage": 2, "overlap_comm": True, "reduce_bucket_size": 200000000,
           "offload_optimizer": {"device": "cpu", "pin_memory": True},
           "zenflow": _zenflow(pt_reserved_cores_perc=0.25)}),
    _base({"stage": 2, "overlap_comm": True, "offload_optimizer": {"device": "cpu"},
           "zenflow": _zenflow(full_warm_up_rounds=0, overlap_step=False)},
          train_batch_size=4),
    _base({"stage": 1, "offload_optimizer": {"device": "cpu"}, "zenflow": _zenflow()}),
    _base({"stage": 3, "offload_optimizer": {"device": "cpu"}, "zenflow": _zenflow()}),
    _base({"stage": 3, "sub_group_size": 400000000, "reduce_bucket_size": 400000000,
           "offload_optimizer": {"device": "cpu", "ratio": 0.9}}),
    _base({"stage": 3,
           "offload_optimizer": {"device": "nvme", "nvme_path": "/nvme", "buffer_count": 4,
                                 "pipeline_read": True},
           "offload_param": {"device": "cpu", "pin_memory": True}}),
    {"train_batch_size": 16, "fp16": {"enabled": True, "loss_scale": 0, "loss_scale_window": 500},
     "optimizer": {"type": "Adam", "params": {"lr": 1e-4}},
     "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 100}},
     ZERO: {"stage": 2}},
    {"train_batch_size": 8},
)


def bases_for(blocks):
    """BASES, without the zenflow block unless it is among the `blocks` that a release knows."""
    bases = copy.deepcopy(BASES)
    for base in bases:
        if ZENFLOW not in blocks:
            base.get(ZERO, {}).pop("zenflow", None)
    return bases


# Keys by block; "" is the top of the file. agreement.py adds what the installed release has.
KEYS = {
    "": ["train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps",
         ZERO, "bf16", "bfloat16", "fp16", "optimizer", "scheduler", "gradient_clipping",
         "prescale_gradients", "gradient_predivide_factor", "communication_data_type",
         "seq_parallel_communication_data_type", "gradient_allreduce_op", "steps_per_print",
         "wall_clock_breakdown", "memory_breakdown", "dump_state", "disable_allgather",
         "managed_gradient_accumulation", "zero_allow_untested_optimizer",
         "zero_force_ds_cpu_optimizer", "dataloader_drop_last", "data_types", "nebula", "amp",
         "sparse_attention", "sparse_gradients", "compression_training", "quantize_training",
         "eigenvalue", "elasticity", "graph_harvesting", "curriculum_learning",
         "progressive_layer_drop", "zenflow", "offload_optimizer", "overlap_comm", "my_own_tool"],
    "optimizer": ["type", "params", "legacy_fusion"],
    "optimizer.params": ["lr", "betas", "eps", "weight_decay", "max_grad_norm", "torch_adam",
                         "adam_w_mode", "fp32_optimizer_states"],
    "scheduler": ["type", "params"],
    "scheduler.params": ["warmup_num_steps", "total_num_steps"],
    "bf16": ["enabled", "immediate_grad_update", "check_grad_overflow",
             "bf16_master_weights_and_grads", "bf16_optimizer_states"],
    "bfloat16": ["enabled", "check_grad_overflow", "bf16_master_weights_and_grads"],
    "fp16": ["enabled", "auto_cast", "loss_scale", "initial_scale_power", "loss_scale_window",
             "hysteresis", "consecutive_hysteresis", "min_loss_scale",
             "fp16_master_weights_and_grads"],
    "data_types": ["grad_accum_dtype"],
    ZERO: ["stage", "contiguous_gradients", "reduce_scatter", "reduce_bucket_size",
           "use_multi_rank_bucket_allreduce", "allgather_partitions", "allgather_bucket_size",
           "overlap_comm", "load_from_fp32_weights", "elastic_checkpoint", "offload_param",
           "offload_optimizer", "sub_group_size", "cpu_offload_param",
           "cpu_offload_use_pin_memory", "cpu_offload", "stage3_max_live_parameters",
           "stage3_max_reuse_distance", "stage3_prefetch_bucket_size",
           "stage3_param_persistence_threshold", "stage3_gather_16bit_weights_on_model_save",
           "stage3_gather_fp16_weights_on_model_save", "stage3_module_granularity_threshold",
           "ignore_unused_parameters", "legacy_stage1", "round_robin_gradients",
           "zero_hpz_partition_size", "zero_quantized_weights", "mics_shard_size",
           "mics_hierarchical_params_gather", "zeropp_loco_param", "leaf_module", "zenflow",
           "compute_grad_norm", "parameter_alignment", "save_muon_momentum_buffer_in_memory",
           "enable_sanity_checks", "allgather_sequential", "stagee", "cpu_offload_params"],
    ZENFLOW: ["topk_ratio", "select_strategy", "select_interval", "update_interval",
              "overlap_step", "offload", "auto_ratio", "full_warm_up_rounds",
              "pt_reserved_cores_perc", "steps_per_epoch", "topk_rati"],
    OFFLOAD: ["device", "nvme_path", "buffer_count", "pin_memory", "pipeline_read",
              "pipeline_write", "fast_init", "ratio", "super_offload", "cpuadam_cores_perc",
              "max_in_cpu"],
    OFFLOAD_PARAM: ["device", "nvme_path", "buffer_count", "buffer_size", "max_in_cpu",
                    "pin_memory", "ratio"],
    f"{ZERO}.leaf_module": ["classes", "names", "name_suffixes"],
}

VALUES = (
    None, True, False, 0, 1, 2, 3, 4, 5, 8, 16, 64, -1, -4, 0.0, 1.0, 2.0, 0.5, 1.5, -0.5, 0.1,
    1e-5, 1e3, 5e8, 1e300, 10**18, 10**19, 10**30, -10**20, "", "auto", "AUTO", "none", "None",
    "cpu", "nvme", "CPU", "step", "epoch", "sum", "mean", "fp32", "bf16", "fp16", "x", "true",
    "True", "ON", "off", "yes", "n", "0", "1", "4", "-1", "+4", " 4 ", "4.0", "4.5", "1e3", "1_000",
    "0x10", ".5", "5.", "inf", "nan", "null", [], [1], ["a"], ["a", 1], [[]], {}, {"enabled": True},
    {"device": "cpu"}, {"stage": 2}, "AdamW", "Adam", "Lion", "WarmupLR",
)


@dataclass(frozen=True)
class Case:
    """A configuration and the number of data-parallel ranks that it is read for."""

    document: dict
    world_size: int

    def text(self):
        return json.dumps(self.document)


def keys_with(more):
    """KEYS and, by block, the keys of `more` that are missing there."""
    keys = {block: list(names) for block, names in KEYS.items()}
    for block, names in more.items():
        known = keys.setdefault(block, [])
        known.extend(name for name in sorted(names) if name not in known)
    return keys


def find(document, block):
    """The dict at a dotted path, or None."""
    node = document
    for key in block.split(".") if block else []:
        node = node.get(key) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else None


def put(document, block, key, value):
    """Sets a key; blocks on the way are created, and replace what is no block."""
    node = document
    for part in block.split(".") if block else []:
        if not isinstance(node.get(part), dict):
            node[part] = {}
        node = node[part]
    node[key] = copy.deepcopy(value)


def _misspelt(word, random_source):
    at = random_source.randrange(max(len(word) - 1, 1))
    return random_source.choice((word[:at] + word[at + 1:],
                                 word[:at] + word[at + 1:at + 2] + word[at:at + 1] + word[at + 2:],
                                 word + "s", word.upper()))


def _set_any(document, keys, source):
    block = source.choice(sorted(keys))
    put(document, block, source.choice(keys[block]), source.choice(VALUES))


def _set_present(document, keys, source):
    """Another value for a key that is there already: most likely to be read."""
    blocks = [block for block in sorted(keys) if find(document, block)]
    block = source.choice(blocks)
    put(document, block, source.choice(sorted(find(document, block))), source.choice(VALUES))


def _near(document, keys, source):
    """A number a little beside the one that is there."""
    blocks = [block for block in sorted(keys) if find(document, block)]
    node = find(document, source.choice(blocks))
    numbers = [key for key in sorted(node)
               if isinstance(node[key], (int, float)) and not isinstance(node[key], bool)]
    if numbers:
        key = source.choice(numbers)
        node[key] = source.choice((node[key] * 2, node[key] / 2, node[key] + 1, node[key] - 1,
                                   -node[key], float(node[key]), str(node[key])))


def _misspell(document, keys, source):
    blocks = [block for block in sorted(keys) if find(document, block)]
    node = find(document, source.choice(blocks))
    key = source.choice(sorted(node))
    node[_misspelt(key, source)] = node.pop(key)


def _remove(document, keys, source):
    blocks = [block for block in sorted(keys) if find(document, block)]
    node = find(document, source.choice(blocks))
    del node[source.choice(sorted(node))]


def _move(document, keys, source):
    """A key into a block that may not know it."""
    blocks = [block for block in sorted(keys) if find(document, block)]
    node = find(document, source.choice(blocks))
    key = source.choice(sorted(node))
    value = node.pop(key)
    put(document, source.choice(sorted(keys)), key, value)


def _batch(document, _, source):
    for key in ("train_batch_size", "train_micro_batch_size_per_gpu",
                "gradient_accumulation_steps"):
        document.pop(key, None)
        value = source.choice((None, 1, 2, 4, 6, 8, 12, 16, 32, 0, -4, 2.5, 8.0, "8", "auto",
                               True, 3, 24))
        if source.random() < 0.7:
            document[key] = value


_CHANGES = ((_set_any, 6), (_set_present, 6), (_near, 3), (_misspell, 1), (_remove, 1), (_move, 1),
            (_batch, 3))


def generate(seed, count, keys=None, bases=BASES):
    """`count` different cases. The bases themselves come first."""
    keys = keys or KEYS
    source = random.Random(seed)
    cases = [Case(copy.deepcopy(base), 1) for base in bases[:count]]
    seen = {(case.text(), case.world_size) for case in cases}
    changes, weights = zip(*_CHANGES)
    while len(cases) < count:
        document = copy.deepcopy(source.choice(bases))
        for _ in range(source.choice((1, 1, 1, 2, 2, 3, 4))):
            source.choices(changes, weights)[0](document, keys, source)
            if not document:
                break
        case = Case(document, source.choice((1, 1, 1, 2, 3, 4, 8)))
        if (case.text(), case.world_size) not in seen:
            seen.add((case.text(), case.world_size))
            cases.append(case)
    return cases


def hjson_text(document, source):
    """`document` as people write Hjson, every choice drawn at random; the same values to hjson."""
    return _hjson_object(document, source, "", source.random() < 0.2) + source.choice(("", "\n"))


def _hjson_object(node, source, indent, bare=False):
    inner = indent if bare else indent + "  "
    lines = []
    for i, (key, value) in enumerate(node.items()):
        text, closed = _hjson_value(value, source, inner)
        plain = key.replace("_", "").isalnum() and source.random() < 0.6
        name = key if plain else _hjson_quoted(key, source)
        comma = closed and source.random() < 0.4
        line = f"{inner}{name}:{source.choice((' ', '', chr(9)))}{text}{',' if comma else ''}"
        if closed and source.random() < 0.15:
            line += source.choice((" # why", " // why", " /* why */"))
        if source.random() < 0.1:
            line = f"{inner}# {i}: why, {{so}}\n{line}"
        lines.append(line)
    text = "\n".join(lines)
    if bare and text:
        return text
    return "{\n" + text + "\n" + indent + "}" if text else "{}"


def _hjson_quoted(text, source):
    if "'" not in text and "\\" not in text and source.random() < 0.3:
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=source.random() < 0.5)


def _hjson_value(value, source, indent):
    """The text, and whether something may follow it on its line."""
    if isinstance(value, dict):
        return _hjson_object(value, source, indent), True
    if isinstance(value, list):
        parts = []
        for item in value:
            text, closed = _hjson_value(item, source, indent + "  ")
            parts.append(text + (source.choice((",", "\n")) if closed else "\n"))
        return "[" + " ".join(parts) + "]", True
    if not isinstance(value, str):
        return json.dumps(value), True
    if value and value.isalpha() and value not in ("true", "false", "null"):
        if source.random() < 0.5:
            return value, False
    return _hjson_quoted(value, source), True


def every_value(keys=None, bases=BASES):
    """Every value at every key, in the base with ZenFlow: no combination is left to chance."""
    keys = keys or KEYS
    cases = []
    for block in sorted(keys):
        for key in keys[block]:
            for value in VALUES:
                document = copy.deepcopy(bases[1])
                put(document, block, key, value)
                cases.append(Case(document, 1))
    return cases
