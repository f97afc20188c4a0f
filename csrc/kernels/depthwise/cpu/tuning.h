// Comparisons of the CPU variants. VARIANT_is_slower: null, or why another variant is faster. Above each function stand
// its rule and the measurements behind it, all on Zen 4.
#pragma once

#include "kernels/depthwise/cpu/plan.h"

namespace torch_conv::depthwise {

// CHANNELS is slower for wide windows. ms, float32 2x96x32x32, two threads, PLANES : CHANNELS: 31x31 2.2 : 3.0; 13x13
// 0.54 : 0.72; 9x9 on 56x56 1.17 : 0.87.
inline const char* channels_is_slower(const Depthwise& p) {
  return p.kh > 1 && p.kw > 9 ? "a wide window, whose edges are copied" : nullptr;
}

// PLANES is slower for few interleaved channels, which `direct` takes as one row. ms, float32 2x3x512x512
// channels_last, `direct` : PLANES: 3x3 0.49 : 0.80; 5x5 1.0 : 1.1.
inline const char* planes_is_slower(const Depthwise& p) {
  const bool interleaved = p.activation == Activation::none && interleaved_channels(p.in, p.out) > 1;
  return interleaved && p.out.c < kFewChannels ? "few interleaved channels are one row elsewhere" : nullptr;
}

// BLOCKS is slower for signals, windows without their own tile, and few taps on wide rows. Cycles for 16 outputs of
// BLOCKS and PLANES, float32, one thread:
//
//     3x3   7x7 maps 35, 86; 14x14 26, 44; 56x56 24, 25; 112x112 stride 2 48, 43
//     5x5   56x56 40, 45
//     7x7   56x56 63, 72
//     4 taps, signals of 1024   30, 17
//
inline const char* blocks_is_slower(const Depthwise& p) {
  if (p.kh == 1) return "signals are faster without a transpose";
  const Placement& at = p.place;
  const bool few = p.kw == 3 || p.kw == 5, some = few || p.kw == 4 || p.kw == 7;
  if (at.dilation_x != 1 || !(at.stride_x == 1 ? some : few && at.stride_x == 2))
    return "a window without its own tile";
  if (p.in.w > 64 && p.kh * p.kw < 25) return "few taps, wide rows";
  return nullptr;
}

// Pairs take 32 channels at a time, CHANNELS and BLOCKS 16. So some numbers of channels leave more registers of pairs
// empty. ms, 7x7, two threads, CHANNEL_PAIRS and CHANNELS: 2x16x224x224 1.20, 0.75; 8x96x56x56 0.86, 1.05; 8x384x14x14
// 0.22, 0.24.
inline const char* channels_leave_registers_empty(const Depthwise& p) {
  return 10 * round_up(p.out.c, 16) < 8 * round_up(p.out.c, 32) ? "channels that leave registers empty" : nullptr;
}

// CHANNEL_PAIRS is slower for rows of three taps, except on large maps of many channels. us, 3x3, two threads,
// CHANNEL_PAIRS and CHANNELS:
//
//     8x96x56x56 293, 304; 4x32x112x112 210, 195; 8x384x14x14 86, 81
//     8x192x28x28 158, 155; 2x64x56x56 60, 59; 1x96x112x112 156, 162
//
// With cold caches (torch-conv bench depthwise) 8x96x56x56 takes 303 to 323 and 326 to 367.
inline const char* channel_pairs_is_slower(const Depthwise& p) {
  const bool large = p.kh > 1 && p.out.h * p.out.w > 2048 && p.out.c > 64;
  return p.kw == 3 && !large ? "rows of three taps make no pairs" : channels_leave_registers_empty(p);
}

inline const char* block_pairs_is_slower(const Depthwise& p) {
  const char* why = blocks_is_slower(p);
  return why ? why : channels_leave_registers_empty(p);
}

// STRIPS and PLANE_PAIRS (both in rows `strips`) are slower on narrow maps. ns for 16 outputs by columns of the map,
// one thread:
//
//                               12    14    16    18    20    24    28    33    36    40    48
//     bfloat16 3x3  strips    10.5   9.3   7.6   7.2   6.2   5.1   4.5   6.6   6.0   5.6   4.7
//                   blocks     9.5   6.9   7.8   7.5   7.9   8.3   6.8   7.6   7.3   7.6   7.3
//             block_pairs      7.6   6.8   6.9   6.8   7.1   7.2   6.4   6.9   6.6   6.6   6.7
//              5x5  strips    20.7  18.4  14.8  13.9  11.9   9.8   8.5  12.6  11.4  10.3   8.6
//                   blocks    12.1  10.3  11.5  11.3  11.7  12.1  10.6  11.7  11.2  11.4  11.4
//             block_pairs     11.1   9.5   9.7  10.0  10.3  10.1   9.1   9.9   9.4   9.8   9.7
//              7x7  strips    32.2  28.5  23.3  21.7  18.8  15.5  13.3  21.1  18.9  17.1  14.3
//                   blocks    16.8  15.6  16.5  16.1  16.9  17.9  16.2  17.6  17.3  17.4  17.6
//             block_pairs     15.4  13.3  13.8  14.1  14.6  14.5  13.2  14.4  13.7  14.0  14.4
//         stride 2  strips    14.9  13.3  11.4  10.7   9.6   8.3   7.4  10.4   9.5   8.8   7.8
//                   blocks    15.5  12.8  13.6  13.2  13.8  14.3  12.8  14.2  13.8  13.8  13.6
//     float32  3x3  strips    13.4  12.0   9.5   9.1   7.9   6.5   5.6   8.6   7.6   6.7   5.7
//                   blocks     9.5   7.2   7.5   7.7   7.9   8.1   6.5   7.5   7.2   7.5   7.4
//         stride 2  strips    18.7  16.7  13.5  12.8  11.3   9.2   8.3  12.9  11.7  10.4   8.9
//                   blocks    17.5  14.8  15.9  14.8  15.2  15.8  13.8  15.0  14.8  14.6  15.5
inline const char* strips_is_slower(const Depthwise& p) {
  if (blocks_refusal(p)) return nullptr;
  const bool pairs = !block_pairs_refusal(p) && !block_pairs_is_slower(p);
  const bool half = p.place.stride_x == 2 || (p.in.dtype == Dtype::bf16 && p.kw == 3);
  const int tenths = half ? 5 : !pairs ? 6 : p.kw == 5 ? 7 : 8;
  return 10 * p.out.w < tenths * round_up(p.out.w, 32) ? "a narrow map, which leaves registers empty" : nullptr;
}

}  // namespace torch_conv::depthwise
