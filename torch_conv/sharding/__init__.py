"""Tensors in shards: their geometry, and the calls and copies behind `split` and SplitTensor."""
