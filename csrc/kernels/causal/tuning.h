// The measurements behind the order of kUpdateCandidates (plan.h). The first variant that serves a problem is chosen:
// no rule compares two.
//
// bf16, k = 4, silu, one step of generation on one NVIDIA H200, us:
//
//     256 x 8192 channels             STEP  UPDATE
//       states of 3 elements          13.0      38
//       states of 4 elements          14.6      38
//       channels innermost            12.5      38
//     1 x 2048 channels                1.8     1.8
#pragma once
