// The measurements behind the order of kCandidates and kDepthCandidates (plan.h). The first variant that serves a
// problem is chosen: no rule compares two. All times are us on one NVIDIA H200, unless a table names another GPU.
//
// BYTES is faster than STREAMING for every problem that it serves:
//
//     4096^2, k = 15           BYTES  STREAMING      4096^2                       BYTES  STREAMING
//       reflect                   19         70        k = 200                       37         99
//       circular                  19         66        k = 15, width 4093            28         94
//       constant                  19         66        k = 15, HWC, 3 channels       46        473
//       zero_output               20        150        15 x 700                      78         94
//       skip                      27        223      512^2, k = 5                   4.9        5.9
//       skip, k = 63              42        227
//
// STRIPS narrows its strips for tall windows, because GROUPS serves HWC images by 200x200 at 1.6 % of a copy's speed.
//
// Boxes of k^3 of float32, both passes, on one NVIDIA H100. From 34 planes on a multiprocessor holds a single block.
//
//     DEPTH_RING, DEPTH_GROUPS    k = 31        k = 41       k = 63       k = 73
//       256^3                   127, 153      142, 166     153, 173     197, 220
//       512^3                  887, 1057     960, 1118    964, 1119   1068, 1216
#pragma once
