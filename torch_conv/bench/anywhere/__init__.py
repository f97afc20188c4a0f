"""`torch-conv bench anywhere`: random realistic calls of every function, beside the least time that they can take."""
