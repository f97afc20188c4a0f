// Plans of kernels that stream through volumes: the planes of a block, the taps as parameters.
#pragma once

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "core/streaming.h"

namespace torch_conv {

// The output planes of a block, of `d` in all. The block reads `extra` more planes. cost(chunk): the time of `chunk`
// planes.
template <class Cost>
int streaming_chunk(int64_t d, int64_t extra, const Cost& cost) {
  int64_t best = 1, least = INT64_MAX;
  const int64_t fewest = ceil_div(d, kMostPlanes - extra);
  for (int64_t chunks = fewest; chunks <= std::min(d, fewest + 256); ++chunks) {
    const int64_t chunk = ceil_div(d, chunks), now = cost(chunk);
    if (now < least) least = now, best = chunk;
  }
  return int(best);
}

// The output planes of a block, of `d` in all, for a memory-bound kernel with windows of k planes and bulk copies.
// Returns 0 if the grid has fewer than `rounds` rounds of `slots` blocks. In many rounds the last one hardly counts,
// and short walks are faster than walks that fill whole rounds.
//
// Times in us on one NVIDIA H100, float32, reflect: whole rounds | chunks of about 128, 64, 32, 26, 20 planes.
//
//     512^3         3x3x3 412 | 406 392 387 388 389        256x1024x1024 835 | 798 791 788 786 792
//     separable 3         487 | 456 436 415 408 403                      930 | 888 874 835 826 829
//               7         506 | 482 453 440 434 430                      978 | 937 925 895 896 908
//               9         508 | 483 458 461 462 483                      990 | 926 940 926 937 972
//              11         572 | 576 555 590 615 671                     1094 | 1056 1049 1123 1181 1283
//              13         574 | 604 609 672 704 764                     1107 | 1087 1123 1256 1343 1472
//
// In fewer rounds:
//
//     1024x256x256 separable 9 245 | 245 234 241 250 272   384^3 199 | 210 217 223 220 226
inline int64_t short_walk(int64_t d, int64_t k, int64_t tiles, int64_t slots, int64_t rounds) {
  const int64_t planes = 5 * (k + 2), chunks = std::max<int64_t>(1, (d + planes / 2) / planes);
  return tiles * chunks < rounds * slots ? 0 : ceil_div(d, chunks);
}

// The planes of a boundary strip of a shard of `d` planes, if windows of k planes cover other GPUs' shards; 0: one
// launch computes the whole shard. Blocks of boundary strips wait for NVLink. In a launch of their own they wait while
// others compute. That is faster where memory binds (short walks) and the shard has enough walks. Four NVIDIA H100,
// reflect, us a call (in a CUDA graph), one launch | boundary strips of one walk; the number of walks:
//
//     1024^3  3x3x3        824 (805) | 802 (792)  10    768^3  3x3x3        370 (353) | 355 (347)   8
//             separable 5  929 (912) | 900 (893)   7           separable 5  427 (409) | 407 (393)   5
//                       7  989 (971) | 953 (945)   6    four channels of 512^3
//                       9 1050 (1031) | 976 (967)  5           3x3x3        420 (403) | 410 (400)   5
//                      11 1197 (1177) | 1111 (1094) 4          separable 5  458 (440) | 481 (463)   4
//
// Two GPUs:
//
//     768^3   3x3x3        691 (669) | 676 (665)        512^3   3x3x3        213 (206) | 213 (210)
//             separable 5  772 (745) | 748 (740)
//                       9  868 (839) | 830 (819)
//
// 1024^3 separable 9 with strips of two walks takes 1021, with strips of the fewest planes 1099. Arithmetic binds
// 7x7x7, and boundary strips are slower at any size: 4410 (4283) | 4811 (4695).
inline int boundary_of(int64_t walk, int64_t k, int64_t d) {
  const int64_t fewest = k > 7 ? 4 : 5;
  return walk > 0 && ceil_div(d, walk) >= fewest ? int(walk) : 0;
}

// Windows of k float32 taps for n x c volumes. Host taps are copied to `bytes`; each axis starts on a multiple of
// kTapPitch floats.
inline void take_taps(const Taps* const (&axes)[3], int64_t n, int64_t c, int64_t k, StreamingTaps (&windows)[3],
                      unsigned char (&bytes)[3 * kInlineTapBytes]) {
  int64_t used = 0;
  for (int i = 0; i < 3; ++i) {
    const Taps& taps = *axes[i];
    windows[i] = {taps.on_host ? nullptr : taps.data, int(used), taps.stride_n, taps.stride_c};
    if (!taps.on_host) continue;
    const int64_t size = ((n - 1) * taps.stride_n + (c - 1) * taps.stride_c + k) * 4;
    if (size > kInlineTapBytes) throw std::logic_error("torch_conv: host taps are too large for a kernel's parameters");
    std::memcpy(bytes + used, taps.data, size);
    used = round_up(used + size, kTapPitch * 4);
  }
}

}  // namespace torch_conv
