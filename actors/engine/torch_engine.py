"""A small PyTorch back end, for debugging and for machines without vLLM.

No key-value cache: every step runs the whole sequences (identical ones once), padded to the longest.
Same semantics as the others: the log-probability of a sampled token is that of the distribution after
temperature, top-k and top-p.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from actors.engine.checkpoint import disagreement, read_checkpoint
from actors.engine.protocol import Emitted, EngineConfig, refusal
from agentmem.failures import ConfigError, ModelError
from agentmem.sampling import FinishReason, SampleRequest, Sampling
from agentmem.vision.directory import causal_model, module_name
from agentmem.vision.inputs import padded
from agentmem.vision.picture import Picture
from agentmem.vision.reader import PictureReader
from agentmem.vision.sight import embedded, on_device
from agentmem.weights.base import Staged, WeightUpdate

if TYPE_CHECKING:
    import torch

_Sight = tuple[tuple[int, ...], Picture | None]
"""A sequence's ids, and its picture if it has one."""


class _Row:
    """One request: its ids so far, how many of them are the prompt's, and its picture."""

    __slots__ = ("ids", "image", "prompt", "sampling")

    def __init__(self, request: SampleRequest) -> None:
        self.ids = list(request.prompt_ids)
        self.prompt = len(self.ids)
        self.sampling = request.sampling
        self.image = request.image

    @property
    def reads(self) -> _Sight:
        """What its next token depends on."""
        return tuple(self.ids), self.image


class TorchCore:
    """See the module's docstring. Adapters aren't supported: push merged weights."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._rows: dict[int, _Row] = {}

    def start(self) -> None:
        if self._config.lora_rank:
            raise ConfigError(
                "engine kind `torch` has no adapters: set lora_rank to 0 and push merged weights"
            )
        self._shapes, self._vocab = read_checkpoint(self._config)
        import torch

        torch.set_num_threads(self._config.threads)
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self._generator = torch.Generator(self._device).manual_seed(self._config.seed)
        dtype = getattr(torch, self._config.dtype, None)
        if not isinstance(dtype, torch.dtype):
            raise ConfigError(f"dtype {self._config.dtype!r} is unknown to torch")
        try:
            model = causal_model(self._config.model).from_pretrained(self._config.model, dtype=dtype)
        except (ValueError, OSError, RuntimeError) as error:
            cause = " ".join(str(error).split())[:300]
            raise ModelError(
                f"torch can't serve {self._config.model}: {type(error).__name__}: {cause}"
            ) from error
        self._reader = PictureReader.of(self._config.model)
        if self._reader is not None:
            self._reader.check()
        self._model: Any = model.to(self._device).eval()
        self._initial = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}

    def refusal(self, request: SampleRequest) -> str | None:
        return refusal(request, self._vocab, self._config.max_model_len, self._reader)

    def add(self, ids: Sequence[int], requests: Sequence[SampleRequest], adapter: int | None) -> None:
        for number, request in zip(ids, requests, strict=True):
            self._rows[number] = _Row(request)

    def abort(self, ids: Sequence[int]) -> None:
        for number in ids:
            self._rows.pop(number, None)

    def busy(self) -> bool:
        return bool(self._rows)

    def cache_share(self) -> float:
        return 0.0

    def step(self) -> list[Emitted]:
        import torch

        batch = list(self._rows.items())[: self._config.max_num_seqs]
        distinct = list(dict.fromkeys(row.reads for _, row in batch))
        index = {reads: i for i, reads in enumerate(distinct)}
        with torch.inference_mode():
            logits = self._logits(distinct)
            last = torch.tensor([len(ids) - 1 for ids, _ in distinct], device=self._device)
            ends = logits[torch.arange(len(distinct), device=self._device), last]
            sampled: dict[int, tuple[int, float]] = {}
            for sampling in dict.fromkeys(row.sampling for _, row in batch):
                group = [(number, row) for number, row in batch if row.sampling == sampling]
                rows = ends[torch.tensor([index[row.reads] for _, row in group], device=self._device)]
                logprobs = processed_logprobs(rows, sampling)
                chosen = torch.multinomial(logprobs.exp(), 1, generator=self._generator)
                values = logprobs.gather(1, chosen)[:, 0].tolist()
                for (number, _), token, value in zip(group, chosen[:, 0].tolist(), values, strict=True):
                    sampled[number] = (token, value)
        emitted = []
        for number, row in batch:
            token, value = sampled[number]
            row.ids.append(token)
            finish = None
            if token in row.sampling.stop_token_ids:
                finish = FinishReason.STOP
            elif len(row.ids) - row.prompt >= row.sampling.max_tokens:
                finish = FinishReason.LENGTH
            if finish is not None:
                del self._rows[number]
            emitted.append(Emitted(number, [token], [value], finish))
        return emitted

    def drain(self) -> list[Emitted]:
        return []

    def check(self, update: WeightUpdate) -> str | None:
        return disagreement(self._shapes, update)

    def load(self, staged: Staged | None) -> None:
        tensors = self._initial if staged is None else staged.tensors
        if tensors is None:
            raise ModelError("engine kind `torch` needs the tensors themselves")
        if self._reader is not None:  # what arrives is named as in the model's files
            tensors = {module_name(name): tensor for name, tensor in tensors.items()}
        # A tied head may be absent; it is the embedding's tensor, and that was checked at the announcement.
        self._model.load_state_dict(tensors, strict=False)

    def score(
        self,
        sequences: Sequence[Sequence[int]],
        adapter: int | None,
        pictures: Sequence[Picture | None] = (),
    ) -> list[list[float]]:
        import torch

        sights = list(zip(map(tuple, sequences), pictures or [None] * len(sequences), strict=True))
        with torch.inference_mode():
            logprobs = self._logits(sights).float().log_softmax(-1)
        rows = []
        for i, ids in enumerate(sequences):
            targets = torch.tensor(list(ids[1:]), device=self._device)[:, None]
            rows.append(logprobs[i, : len(ids) - 1].gather(1, targets)[:, 0].tolist())
        return rows

    def _logits(self, sequences: Sequence[_Sight]) -> torch.Tensor:
        """Shape (sequences, longest, vocabulary); what follows a sequence's end is meaningless."""
        import torch

        longest = max(len(ids) for ids, _ in sequences)
        ids = torch.zeros(len(sequences), longest, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for i, (row, _) in enumerate(sequences):
            ids[i, : len(row)] = torch.tensor(row)
            mask[i, : len(row)] = 1
        ids, mask = ids.to(self._device), mask.to(self._device)
        positions, pictures = (
            (None, None) if self._reader is None else padded(self._reader, sequences, longest)
        )
        if pictures is None:
            logits: torch.Tensor = self._model(ids, attention_mask=mask).logits
            return logits
        embeddings = embedded(self._model, ids, **on_device(pictures, self._device))
        where = torch.tensor(positions).to(self._device)
        logits = self._model(inputs_embeds=embeddings, attention_mask=mask, position_ids=where).logits
        return logits

    def add_adapter(self, number: int, path: str) -> None:
        raise ConfigError("engine kind `torch` has no adapters: push merged weights")

    def remove_adapter(self, number: int) -> None:
        raise ConfigError("engine kind `torch` has no adapters")

    def close(self) -> None:
        self._rows.clear()


def processed_logprobs(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Log-probabilities of the distribution that is sampled from; -inf where top-k or top-p cut, and for
    tokens that aren't allowed.

    `logits` has shape (rows, vocabulary). Tokens that aren't allowed go first; top-k comes before top-p,
    which keeps the smallest set of tokens whose probability reaches `top_p`.
    """
    import torch

    scaled = logits.float() / sampling.temperature
    if sampling.allowed_ids:
        kept = scaled.new_zeros(scaled.shape[-1], dtype=torch.bool)
        kept[list(sampling.allowed_ids)] = True
        scaled = scaled.masked_fill(~kept, float("-inf"))
    if 0 < sampling.top_k < scaled.shape[-1]:
        least = scaled.topk(sampling.top_k, dim=-1).values[:, -1:]
        scaled = scaled.masked_fill(scaled < least, float("-inf"))
    if sampling.top_p < 1:
        ordered, order = scaled.sort(dim=-1, descending=True)
        before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)
        cut = (before >= sampling.top_p).scatter(-1, order, before >= sampling.top_p)
        scaled = scaled.masked_fill(cut, float("-inf"))
    return scaled.log_softmax(-1)
