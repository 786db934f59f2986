#!/usr/bin/env python3
"""Makes the reference files of this folder: tiny models, their loss and gradients, by PyTorch on the CPU.

  pip install torch transformers safetensors      (in an environment of your own)
  python make_reference.py [FOLDER [CASE...]]     (default: this folder, all cases)
  python make_reference.py --read FILE...         prints FILEs as the safetensors library reads them

Each NAME.safetensors holds, in fp32, the weights under their Hugging Face names, their gradients under
"grad." + name, "loss" [1], "logits" [sequences, outputs] of each sequence's last token, "inputs",
"lengths" and "targets" (as F32 numbers, exact), and each NAME.json the configuration. Made with torch
2.15.0, transformers 5.23.0, safetensors 0.8.0.
"""

import json
import pathlib
import sys

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

SEQUENCES, LENGTH = 3, 10

LLAMA = {
    "model_type": "llama", "vocab_size": 24, "hidden_size": 12, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "intermediate_size": 20,
    "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "hidden_act": "silu", "initializer_range": 0.3, "attention_bias": False, "mlp_bias": False,
    "tie_word_embeddings": False, "pad_token_id": None, "bos_token_id": 1, "eos_token_id": 2,
}
GPT2 = {
    "model_type": "gpt2", "vocab_size": 24, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_inner": 20,
    "n_positions": 14, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new",
    "initializer_range": 0.3, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None,
}
GEMMA = {
    **LLAMA, "num_hidden_layers": 1, "head_dim": 8, "num_attention_heads": 2, "num_key_value_heads": 1,
    "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True,
}
del GEMMA["hidden_act"], GEMMA["mlp_bias"]
OPT = {
    "model_type": "opt", "vocab_size": 24, "hidden_size": 12, "num_hidden_layers": 2, "ffn_dim": 20,
    "max_position_embeddings": 14, "num_attention_heads": 3, "activation_function": "relu", "init_std": 0.3,
    "dropout": 0.0, "do_layer_norm_before": True, "word_embed_proj_dim": 12, "pad_token_id": None,
    "bos_token_id": 1, "eos_token_id": 2,
}
CASES = {
    # rope_scaling at a scale where, with head_dim 8, frequencies fall into all three of its ranges
    "llama_tied": ({**LLAMA, "tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True,
                    "head_dim": 8, "num_attention_heads": 2, "num_key_value_heads": 1,
                    "rope_theta": 100.0, "max_position_embeddings": 128,
                    "rope_scaling": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
                                     "high_freq_factor": 4.0,
                                     "original_max_position_embeddings": 64}}, "tokens", 0),
    "llama": (LLAMA, "tokens", 0),
    "qwen2": ({**LLAMA, "model_type": "qwen2", "use_sliding_window": False,
               "rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "tokens", 0),
    "gpt2": (GPT2, "tokens", 0),
    "gpt2_classes": ({**GPT2, "activation_function": "gelu", "n_layer": 1, "pad_token_id": 0}, "classes", 3),
    "mistral_regression": ({**LLAMA, "model_type": "mistral", "num_hidden_layers": 1,
                            "sliding_window": 16, "pad_token_id": 0}, "regression", 1),
    # windows, caps and scales at which they change what a sequence of 10 tokens gives
    "mistral_window": ({**LLAMA, "model_type": "mistral", "num_hidden_layers": 1, "sliding_window": 4},
                       "tokens", 0),
    "qwen3": ({**LLAMA, "model_type": "qwen3", "head_dim": 6}, "tokens", 0),
    "gemma": ({**GEMMA, "model_type": "gemma", "hidden_act": "gelu"}, "tokens", 0),
    "gemma2": ({**GEMMA, "model_type": "gemma2", "num_hidden_layers": 2, "attn_logit_softcapping": 2.0,
                "final_logit_softcapping": 3.0, "query_pre_attn_scalar": 12, "sliding_window": 4},
               "tokens", 0),
    "gemma3": ({**GEMMA, "model_type": "gemma3_text", "num_hidden_layers": 2, "query_pre_attn_scalar": 12,
                "sliding_window": 4, "sliding_window_pattern": 2, "rope_theta": 1000.0,
                "rope_local_base_freq": 100.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
               "tokens", 0),
    "phi3": ({**LLAMA, "model_type": "phi3", "hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1,
              "head_dim": 8, "partial_rotary_factor": 0.5, "original_max_position_embeddings": 8,
              "sliding_window": 5, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
              "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.5], "long_factor": [1.25, 3.0]}},
             "tokens", 0),
    "olmo2": ({**LLAMA, "model_type": "olmo2", "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 6},
              "tokens", 0),
    # frequencies with which YaRN's range lies between the first pair of columns and the last
    "olmo3": ({**LLAMA, "model_type": "olmo3", "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8,
               "hidden_size": 16, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"],
               "rope_parameters": {
                   "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
                   "full_attention": {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0,
                                      "original_max_position_embeddings": 64, "beta_fast": 8.0,
                                      "beta_slow": 1.0}}}, "tokens", 0),
    "opt": (OPT, "tokens", 0),
}


def make_model(config, kind, labels):
    settings = {key: value for key, value in config.items() if key != "model_type"}
    if kind != "tokens":
        settings["num_labels"] = labels
    hf = AutoConfig.for_model(config["model_type"], **settings, attn_implementation="eager")
    torch.manual_seed(1)
    family = AutoModelForCausalLM if kind == "tokens" else AutoModelForSequenceClassification
    model = family.from_config(hf).float().train()
    with torch.no_grad():  # biases and norms that are 0 and 1 would hide mistakes
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def make_case(config, kind, labels):
    model = make_model(config, kind, labels)
    generator = torch.Generator().manual_seed(2)
    inputs = torch.randint(1, config["vocab_size"], (SEQUENCES, LENGTH), generator=generator)
    lengths = torch.tensor([LENGTH, LENGTH - 3, 4])
    if kind == "tokens":
        labelled = inputs.clone()
        for row, length in enumerate(lengths):  # what lies beyond a sequence is not predicted
            labelled[row, length:] = -100
        output = model(input_ids=inputs, labels=labelled)
        targets = torch.full_like(labelled, -100)  # Hugging Face shifts; the runtime is given it shifted
        targets[:, :-1] = labelled[:, 1:]
        logits = output.logits[torch.arange(SEQUENCES), lengths - 1]
    else:
        for row, length in enumerate(lengths):
            inputs[row, length:] = config["pad_token_id"]
        mask = (torch.arange(LENGTH)[None, :] < lengths[:, None]).long()
        targets = torch.tensor([2, 0, 1]) if kind == "classes" else torch.tensor([0.5, 3.25, -1.0])
        output = model(input_ids=inputs, attention_mask=mask, labels=targets)
        logits = output.logits
    output.loss.backward()
    return model, output.loss, logits, {"inputs": inputs, "lengths": lengths, "targets": targets}


def write_case(folder, name):
    config, kind, labels = CASES[name]
    model, loss, logits, batch = make_case(config, kind, labels)
    tensors = {"loss": loss.detach().reshape(1), "logits": logits.detach().contiguous()}
    tensors |= {key: value.float() for key, value in batch.items()}
    for parameter_name, parameter in model.named_parameters():
        tensors[parameter_name] = parameter.detach().clone()
        tensors["grad." + parameter_name] = parameter.grad.clone()
    save_file(tensors, folder / f"{name}.safetensors")
    (folder / f"{name}.json").write_text(json.dumps(config, indent=2) + "\n")
    print(name, loss.item(), sum(p.numel() for p in model.parameters()))


def hexadecimal(value):
    """As C's %a writes it: no trailing zeros in the fraction."""
    mantissa, exponent = value.hex().split("p")
    return mantissa.rstrip("0").rstrip(".") + "p" + exponent if "." in mantissa else value.hex()


def read(path):
    with safe_open(path, framework="pt") as file:
        for name in sorted(file.keys()):
            tensor = file.get_tensor(name)
            elements = " ".join(hexadecimal(x) for x in tensor.double().flatten().tolist())
            print(name, tensor.dtype, list(tensor.shape), elements)


def main(arguments):
    if arguments[:1] == ["--read"]:
        for path in arguments[1:]:
            read(path)
        return
    folder = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parent)
    torch.set_num_threads(1)
    for name in arguments[1:] or CASES:
        write_case(folder, name)


if __name__ == "__main__":
    main(sys.argv[1:])
