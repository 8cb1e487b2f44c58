"""The trained module: a causal language model, optionally with LoRA, optionally with a value head.

With LoRA a memory policy's decision tokens are trained beside the adapter (token_rows.py).

All that is trained is computed inside one `forward`, so that DeepSpeed's hooks see every parameter at its
use. Dropout is off: a policy's log-probabilities must be those of the policy that acts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from agentmem.chat.decision import DecisionTokens
from agentmem.failures import ModelError
from agentmem.vision.directory import causal_model
from agentmem.vision.sight import embedded, tower
from learner.forward import logits_at, output_layer
from learner.token_rows import TokenRows

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from agentmem.config.schema import LoraConfig
    from learner.settings import RankSettings

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class PolicyModel(nn.Module):
    """`forward` gives logits [N, V] at chosen positions, and values [M] (float32) where a head is asked for
    them.
    """

    def __init__(
        self, model: PreTrainedModel, *, value_head: bool = False, rows: TokenRows | None = None
    ) -> None:
        super().__init__()
        self.model: Any = model
        self.rows = rows
        self.blank: tuple[Tensor, Tensor] | None = None
        """A picture that is looked at where a batch has none, so that all ranks gather the same
        parameters."""
        layer = output_layer(model)
        weight: Any = layer.weight
        self.value_head: nn.Linear | None = None
        if value_head:
            width = int(model.config.get_text_config().hidden_size)
            self.value_head = nn.Linear(width, 1, dtype=weight.dtype)
            nn.init.zeros_(self.value_head.weight)  # values start at 0: the first update is a plain return
            nn.init.zeros_(self.value_head.bias)

    def forward(
        self,
        input_ids: Tensor,
        index: Tensor,
        position_ids: Tensor | None,
        value_at: Tensor,
        **pictures: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """`pictures`: as `agentmem.vision.sight.embedded` takes them; nothing where the batch has none."""
        embeddings = embedded(self.model, input_ids, **pictures) if pictures else None
        logits, hidden = logits_at(
            self.model, output_layer(self.model), input_ids, index, position_ids, embeddings=embeddings
        )
        if self.blank is not None and not pictures:
            logits = logits + 0.0 * tower(self.model, *(each.to(logits.device) for each in self.blank)).sum()
        if self.value_head is None:
            return logits, hidden.new_zeros(0)
        at = hidden.reshape(-1, hidden.shape[-1]).index_select(0, value_at)
        return logits, self.value_head(at)[:, 0].float()


def load_model(settings: RankSettings, device: torch.device, attention: str = "sdpa") -> PolicyModel:
    """Load the base model and add what is trained on top. Raises ModelError with one line."""
    model = load_base(settings.model, settings.dtype, device, attention)
    rows: TokenRows | None = None
    if settings.lora is not None:
        model = _with_lora(model, settings.lora)
        if settings.advice is not None:
            tokens = DecisionTokens.of(settings.model)
            rows = TokenRows(model, (tokens.generate, tokens.abstain))
    policy = PolicyModel(model, value_head=settings.has_values, rows=rows).to(device)
    for module in policy.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    if settings.gradient_checkpointing:
        policy.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if settings.lora is not None:
            policy.model.enable_input_require_grads()
    policy.train()
    return policy


def load_base(path: str, dtype: str, device: torch.device, attention: str = "sdpa") -> PreTrainedModel:
    """The model as it is on disk."""
    try:
        model: PreTrainedModel = causal_model(path).from_pretrained(
            path, dtype=DTYPES[dtype], attn_implementation=attention
        )
    except (OSError, ValueError) as error:
        raise ModelError(f"model {path} can't be loaded: {error}") from error
    for name in ("attention_dropout", "hidden_dropout", "embd_pdrop", "attn_pdrop", "resid_pdrop"):
        if getattr(model.config, name, None):
            setattr(model.config, name, 0.0)
    return model.to(device)


def _with_lora(model: PreTrainedModel, lora: LoraConfig) -> PreTrainedModel:
    from peft import LoraConfig as PeftConfig
    from peft import get_peft_model

    targets = lora.targets if isinstance(lora.targets, str) else list(lora.targets)
    wrapped: PreTrainedModel = get_peft_model(
        model,
        PeftConfig(
            r=lora.rank,
            lora_alpha=lora.alpha,
            lora_dropout=0.0,
            target_modules=targets,
            task_type="CAUSAL_LM",
        ),
    )
    return wrapped
