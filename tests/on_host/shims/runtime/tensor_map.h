// Tensor maps for bulk copies on the host.
#pragma once

#include "core/cuda/tma.cuh"
