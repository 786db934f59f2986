"""Puts a description together."""
from typing import Any

import torch
import transformers

from describe_model import measure, modules, parts
from describe_model.description import (
    VERSION, Layer, kinds_of, parameters, placeholder, rounded)
from describe_model.network import Source
from describe_model.saved import EMBEDDING, HEAD


class Describer:
    def __init__(self, source: Source, model: torch.nn.Module, length: int):
        self.notes = source.notes
        self._source, self._model, self._length = source, model, length
        self.stacks = parts.find_stacks(model, source.file)
        self.measured = measure.measure(model, self.stacks, length)
        self._tensors = parts.split_tensors(model, self.stacks, self.measured.place)
        self._estimated = False

    def describe(self) -> dict[str, Any]:
        layers = [self._layer(stack, index) for stack in self.stacks
                  for index in range(len(stack.layers))]
        kinds, order = kinds_of(layers)
        text = self.stacks[-1].config
        embeddings = self._model.get_input_embeddings()
        described = {
            "zenflow_model": VERSION,
            "name": self._source.name,
            "type": self._source.type,
            "class": type(self._inner()).__name__,
            "source": f"transformers {transformers.__version__}, meta device",
            "hidden": modules.hidden_of(text),
            "vocab": getattr(embeddings, "num_embeddings", 0),
            "outputs": self._outputs(),
            "max_positions": modules.first(text, ("max_position_embeddings", "n_positions",
                                                  "max_target_positions"), 0),
            "tied_embeddings": self._tied(),
            "parameters": sum(p.numel() for p in self._model.parameters()),
            "embedding": self._end(EMBEDDING),
            "kinds": kinds, "order": order,
            "head": self._end(HEAD),
        }
        if self._estimated:
            described["saved_is_estimated"] = True
        self._say(kinds)
        return described

    def _inner(self) -> torch.nn.Module:
        model = self._model
        return model.get_base_model() if hasattr(model, "get_base_model") else model

    def _say(self, kinds: list[Layer]) -> None:
        for failure in dict.fromkeys(self.measured.failures):
            self.notes.append(f"a forward pass on the meta device does not work: {failure}")
        if self._estimated:
            self.notes.append("what some layers keep is estimated from their products' inputs and outputs")
        pairs = sorted({round(one.pairs, 2) for name, one in self.measured.saved.items()
                        if one.pairs > 0 and name not in (EMBEDDING, HEAD, "loss")})
        if pairs:
            self.notes.append("layers also keep masks or scores, not described: "
                              + ", ".join(f"{p:g}" for p in pairs)
                              + f" bytes a pair of tokens, at {self._length} tokens")

    def _outputs(self) -> int:
        if self.measured.outputs is not None:
            return self.measured.outputs
        head = self._inner().get_output_embeddings()
        return head.weight.shape[0] if head is not None else 0

    def _tied(self) -> bool:
        inputs, outputs = self._model.get_input_embeddings(), self._inner().get_output_embeddings()
        return outputs is not None and getattr(inputs, "weight", None) is outputs.weight

    def _layer(self, stack: parts.Stack, index: int) -> Layer:
        name = stack.layer_names()[index]
        module = stack.layers[index]
        named = [(n, m) for n, m in module.named_modules() if n]
        width = self.measured.width.get(name, modules.hidden_of(stack.config))
        tokens = self.measured.tokens.get(name, self._rest_tokens(stack))
        attention = modules.attention_of(named, stack.config, index,
                                         self.measured.attention.get(name, []), tokens, self._length,
                                         type(self._inner()).__name__.endswith(("CausalLM", "LMHeadModel")))
        products = modules.products_of(named, stack.config, self._shares(name))
        return {
            "name": self._layer_name(stack, products),
            "width": width,
            "tokens": tokens,
            "tensors": [tensor(placeholder(n, name), p) for n, p in self._tensors.layers[name]],
            "products": products,
            "attention": attention,
            "chains": modules.chains_of([("", module), *named], stack.config, width, attention),
            "saved": self._saved(name, products, width),
        }

    def _shares(self, part: str) -> dict[str, float]:
        """Of the modules of a layer, by their names in it."""
        return {name[len(part) + 1:]: share for name, share in self.measured.share.items()
                if name.startswith(part + ".")}

    def _rest_tokens(self, stack: parts.Stack) -> int:
        """Of a tower that did not run."""
        if stack.stream != "image":
            return 0
        patch = modules.first(stack.config, ("patch_size",), 16)
        return (measure.image_size(stack.config) // patch) ** 2

    def _layer_name(self, stack: parts.Stack, products: list[dict[str, Any]]) -> str:
        words = [stack.stream] if stack.stream != "text" else []
        if sum(s.stream == stack.stream for s in self.stacks) > 1:
            words.append("decoder" if "decoder" in stack.name else "encoder")
        if any(p["share"] < 1 for p in products):
            words.append("expert")
        return " ".join([*words, "block"])

    def _saved(self, part: str, products: list[dict[str, Any]], width: int) -> dict[str, float]:
        one = self.measured.saved.get(part)
        if one is not None:
            return {"elements": rounded(one.elements), "bytes": rounded(one.bytes)}
        self._estimated = True
        elements = sum((p["in"] + p["out"]) * p["count"] * p["share"] for p in products)
        return {"elements": rounded(elements + 2 * width), "bytes": 0}

    def _end(self, part: str) -> Layer:
        """The embedding or the head."""
        tensors = self._tensors.embedding if part == EMBEDDING else self._tensors.head
        text = self.stacks[-1]
        width = self.measured.width.get(text.layer_names()[0], modules.hidden_of(text.config))
        named = self._outside(part)
        chains = ([modules.chain("embedding", m.embedding_dim) for _, m in named
                   if isinstance(m, torch.nn.Embedding)] if part == EMBEDDING else [])
        saved = self.measured.saved.get(part)
        return {
            "name": part,
            "width": width,
            "tokens": 0,
            "tensors": [tensor(n, p) for n, p in tensors],
            "products": modules.products_of([x for x in named if self._counts(x[0])], text.config,
                                             self.measured.share),
            "attention": [],
            "chains": chains + [modules.norm_chain(n, m, width, []) for n, m in named
                                if "norm" in type(m).__name__.lower() and self._sees_text(n)],
            "saved": {"elements": rounded(saved.elements) if saved else 0,
                      "bytes": rounded(saved.bytes) if saved else 0},
        }

    def _counts(self, name: str) -> bool:
        """A product outside the layers: one that has run. Unless nothing has, then the text's."""
        return name in self.measured.share if self.measured.share else self._sees_text(name)

    def _sees_text(self, name: str) -> bool:
        """Not within a tower of images or audio."""
        return not any(s.stream != "text" and s.owner and name.startswith(s.owner + ".")
                       for s in self.stacks)

    def _outside(self, part: str) -> list[tuple[str, torch.nn.Module]]:
        """Modules of this end that hold parameters: a tied head holds the embedding's."""
        own = self._tensors.embedding if part == EMBEDDING else self._tensors.head
        names = {n.rpartition(".")[0] for n, _ in own}
        found = []
        for name, module in self._model.named_modules():
            if parts.layer_of(name + ".", self.stacks) or not name:
                continue
            holds = next(module.parameters(recurse=False), None) is not None
            ran = self.measured.place.get(name, part if name in names else None)
            if holds and ran == part or name == self._output_name() and part == HEAD:
                found.append((name, module))
        return found

    def _output_name(self) -> str | None:
        head = self._inner().get_output_embeddings()
        return next((n for n, m in self._model.named_modules() if m is head), None)


def tensor(name: str, parameter: torch.nn.Parameter) -> dict[str, Any]:
    one = {"name": name, "shape": list(parameter.shape) or [1]}
    return one if parameter.requires_grad else {**one, "trainable": False}


def check(description: dict[str, Any]) -> str | None:
    """What does not add up."""
    total = parameters(description)
    if total == description["parameters"]:
        return None
    return f"the parts have {total} parameters, the model {description['parameters']}"
