"""Fake implementations: shapes, dtypes and strides of results for torch.compile, torch.export and FakeTensor."""
