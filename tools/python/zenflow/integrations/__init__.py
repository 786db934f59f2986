"""zenflow within a training script. Nothing here imports PyTorch, transformers or DeepSpeed before it is used.

    from zenflow.integrations import OffloadAdvisor
    trainer = Trainer(..., callbacks=[OffloadAdvisor("advice")])            # transformers

    with OffloadAdvisor("advice").watch(engine):                            # DeepSpeed alone
        for batch in loader: ...
"""

from zenflow.integrations._advisor import OffloadAdvisor

__all__ = ["OffloadAdvisor"]
