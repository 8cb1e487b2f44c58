"""What is exported, and how partitioned parameters are bucketed."""

from __future__ import annotations

import torch
from torch import nn

from learner.export import Unit, buckets


def partitioned(*shape: int) -> nn.Parameter:
    """A parameter as ZeRO-3 leaves it between uses: empty, its real shape beside it."""
    parameter = nn.Parameter(torch.empty(0))
    parameter.ds_shape = torch.Size(shape)  # type: ignore[attr-defined]
    parameter.ds_numel = torch.Size(shape).numel()  # type: ignore[attr-defined]
    return parameter


def test_buckets_are_sized_by_what_a_parameter_really_holds() -> None:
    from learner.zero import real_size

    sizes = [60, 60, 10, 200, 5]
    wanted = [
        Unit(str(i), (partitioned(n),), lambda: torch.empty(0), (n,), torch.float32)
        for i, n in enumerate(sizes)
    ]
    cut = [[u.name for u in bucket] for bucket in buckets(wanted, real_size, 100)]
    assert cut == [["0"], ["1", "2"], ["3"], ["4"]]


def test_a_plain_parameter_has_its_own_size() -> None:
    from learner.zero import real_size

    assert real_size(nn.Parameter(torch.zeros(3, 4))) == 12
