"""One interface to train a model by: forward(tokens) is the loss, backward(loss), step();
`micro_step` counts from 0."""
import torch

from gpu_check.training.cases import deepspeed_configuration
from gpu_check.training.models import LanguageModel
from gpu_check.training.shapes import SHAPES, parameters


def new_model(case, device):
    """In bf16 on the device: weights are drawn there, in fp32."""
    torch.manual_seed(1)
    with torch.device(device):
        model = LanguageModel(SHAPES[case.model])
        model.initialize()
    count = sum(parameter.numel() for parameter in model.parameters())
    if count != (expected := parameters(SHAPES[case.model])):
        raise RuntimeError(f"{case.model}: {count} parameters, {expected} by its shape")
    return model.to(torch.bfloat16)


class Plain:
    """Everything on the device: AdamW on fp32 master weights, gradients clipped to 1."""

    optimizer_text = "torch.optim.AdamW on fp32 master weights on the device"
    config = None
    keeps_weights = True

    def __init__(self, case, device):
        self.model = new_model(case, device)
        self.weights = list(self.model.parameters())
        self.master = [weight.detach().float() for weight in self.weights]
        self.optimizer = torch.optim.AdamW(self.master, lr=1e-5, betas=(0.9, 0.95), eps=1e-8,
                                           weight_decay=0.1, fused=device == "cuda")
        self.micro_step = 0

    def boundary(self):
        return True

    def selections(self):
        return 0

    def forward(self, tokens):
        return self.model(tokens)

    def backward(self, loss):
        loss.backward()

    @torch.no_grad()
    def step(self):
        for master, weight in zip(self.master, self.weights, strict=True):
            master.grad = weight.grad.float()
            weight.grad = None
        torch.nn.utils.clip_grad_norm_(self.master, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        torch._foreach_copy_(self.weights, self.master)
        self.micro_step += 1


class DeepSpeed:
    """A configuration as it is, in a group of one rank and without DeepSpeed's launcher.

    `keeps_weights`: whether the weights are still those that it was given once it is set up.
    ZenFlow's stages 1 and 2 lay matrices out transposed, and 0.19.8 looks at them as if they were
    not (_flatten_dense_tensors in zenflow_utils.py, _update_model_bit16_weights in
    zenflow_stage_1_and_2.py).
    """

    optimizer_text = "DeepSpeed's CPU Adam"

    def __init__(self, case, device):
        import deepspeed

        self.config = deepspeed_configuration(case)
        model = new_model(case, device)
        before = [weight.detach().to("cpu", copy=True) for weight in model.blocks[0].parameters()]
        self.engine, _, _, _ = deepspeed.initialize(
            model=model, model_parameters=model.parameters(), config=self.config)
        after = self.engine.module.blocks[0].parameters()
        self.keeps_weights = all(torch.equal(old, new.detach().cpu())
                                 for old, new in zip(before, after, strict=True))
        self._selected = 0
        if case.method == "zenflow":
            self._count_selections()
        self.micro_step = 0

    def _count_selections(self):
        optimizer = self.engine.optimizer
        select = optimizer.update_selected_channels

        def counting(*args, **kwargs):
            self._selected += 1
            return select(*args, **kwargs)
        optimizer.update_selected_channels = counting

    def boundary(self):
        return bool(self.engine.is_gradient_accumulation_boundary())

    def selections(self):
        """Since the last call."""
        count, self._selected = self._selected, 0
        return count

    def forward(self, tokens):
        return self.engine(tokens)

    def backward(self, loss):
        self.engine.backward(loss)

    def step(self):
        self.engine.step()
        self.micro_step += 1


def new_trainer(case, device):
    return (Plain if case.method == "plain" else DeepSpeed)(case, device)
