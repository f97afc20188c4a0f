// The header of csrc with what is a kernel's in it.
#pragma once

#include "core/problem.h"

#define __CUDACC__
#include_next "core/taps.h"
#undef __CUDACC__
