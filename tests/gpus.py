"""GPUs that are not there, as TORCH_CONV_EXPLAIN_FOR takes them."""

# Compute capability, multiprocessors, bytes of shared memory a block may have, bytes a second.
GPUS = {
    "A100": "8.0 108 166912 2.0e12",
    "RTX 4090": "8.9 128 101376 1.0e12",
    "H200": "9.0 132 232448 4.8e12",
    "B200": "10.0 148 232448 8.0e12",
    "RTX 5090": "12.0 170 101376 1.8e12",
}
