"""Losses over token tensors: differentiable functions of log-probabilities, one equation a file.

Tensors are flat `[tokens]` or padded `[rows, width]`; all tensors of a call have one shape or broadcast to
it. `mask` is boolean, True on the tokens that are trained. What lies outside the mask may be anything, NaN
included (an engine reports none for forced tokens): it reaches neither a value nor a gradient. An empty mask
gives a zero loss that is attached to its input, so that `backward` works on a rank that happens to have no
row.

Log-probabilities are natural logarithms. `new` are those being trained, `old` those of the learner at the
start of the update, `engine` those that the sampler reported. Half-precision inputs are computed in float32.

No loss divides by what it happens to see: the counts come from the whole update, over all ranks and
micro-batches (`normalise`), so that micro-batches of any cut add up to one and the same gradient.
"""
