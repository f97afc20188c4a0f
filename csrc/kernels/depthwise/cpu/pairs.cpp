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
#include "core/cpu/strips.h"
#include "core/plan.h"

#define TC_CPU_BODY "kernels/depthwise/cpu/body.h"
#include "core/cpu/bf16.h"
