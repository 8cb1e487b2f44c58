"""From rows to micro-batches: pure functions over ids and lengths, no model and no I/O.

`merge` lets rows share a sequence, `plan` cuts sequences into mini-batches, ranks and micro-batches,
`tensors` fills the arrays that a rank trains on.
"""
