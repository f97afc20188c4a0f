// What plans and launches of kernels that march through volumes share: how far a block goes, taps as parameters.
#pragma once

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "core/march.h"

namespace torch_conv {

// Output planes of a block out of `d`, which reads `extra` planes more; cost(chunk) is what so many take.
template <class Cost>
int march_chunk(int64_t d, int64_t extra, const Cost& cost) {
  int64_t best = 1, least = INT64_MAX;
  const int64_t fewest = ceil_div(d, kMostPlanes - extra);
  for (int64_t chunks = fewest; chunks <= std::min(d, fewest + 256); ++chunks) {
    const int64_t chunk = ceil_div(d, chunks), now = cost(chunk);
    if (now < least) least = now, best = chunk;
  }
  return int(best);
}

// Windows of k float32 taps for n x c volumes. Those on the host are copied to `bytes`, where the next one starts on a
// whole multiple of kTapPitch floats.
inline void take_taps(const Taps* const (&axes)[3], int64_t n, int64_t c, int64_t k, MarchTaps (&windows)[3],
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
