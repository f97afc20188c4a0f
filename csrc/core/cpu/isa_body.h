// The CPU loops of all kernel families, then the loops of one family. Text of each_isa.h: compiled once per instruction
// set.
// clang-format off
#include "core/cpu/vec.h"
#include "core/cpu/rows.h"
#include "core/cpu/correlate.h"
#include "core/cpu/output.h"
#include TC_CPU_BODY
// clang-format on
