// Depthwise convolutions of bfloat16 on the CPU, two numbers a lane.
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/activation.h"
#include "core/cpu_strips.h"
#include "core/plan.h"

#define TC_CPU_BODY "kernels/depthwise/cpu_body.h"
#include "core/cpu_bf16.h"
