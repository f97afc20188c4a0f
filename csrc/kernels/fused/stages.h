// The stages of a pipeline, composed at compile time. This file describes them for host and kernels;
// stages.cuh computes.
//
//   rows of the image --> Windows<3, 1, each> --> Windows<3, 2, l1> --> rows of the result
//
// A user's own chain needs a Pipeline<...> of such stages, a line in the list of pipelines.h, and nothing
// else. The compiler refuses windows other than K x K, several inputs, and a stride before
// the end. It also refuses later stages whose halos together exceed a lane's columns.
#pragma once

#include <type_traits>

#include "core/problem.h"

namespace torch_conv::fused {

// Taps known to the compiler: a product with 1 is no instruction, so Sobel takes 8 a pixel instead of 12.
struct Sobel {
  static constexpr float tap(int i) {
    constexpr float taps[] = {-1, 0, 1, 1, 2, 1, 1, 2, 1, -1, 0, 1};  // x and y of the first window, of the second
    return taps[i];
  }
};
struct NotKnown {};

// Separable K x K windows. kShared: all have the taps of the first. kStride: only every so many-th row and column.
template <int K_, int Windows_, Point P, class Known_ = NotKnown, bool kShared = false, int kStride = 1>
struct Windows {
  using Known = Known_;
  static constexpr bool known = !std::is_same_v<Known, NotKnown>;
  static constexpr int K = K_, windows = Windows_, outputs = count_outputs(P, Windows_), stride = kStride;
  static constexpr Point kind = P;
  static constexpr bool shared_taps = kShared;
  static constexpr int mid = windows + (P == Point::sharpen);  // channels of the ring: row sums, and the pixel itself
  static constexpr int taps = known ? 0 : 2 * K * (kShared ? 1 : windows);  // for each window along x, then along y
  static constexpr int channels = windows;                                  // at most, that it reads
  static constexpr bool reads_zeros_outside = false;
  static constexpr int neighbours(int channels) { return channels; }  // channels read beyond a lane's own columns
  static constexpr int widen(int columns) { return columns; }         // columns of the ring under so many outputs

  static constexpr int first_tap(int i) { return kShared ? 0 : 2 * K * i; }
};

// Keeps a gradient's magnitude where it is the largest across the edge.
struct Thin {
  static constexpr int K = 3, windows = 0, outputs = 1, mid = 3, taps = 0, stride = 1;
  static constexpr Point kind = Point::thin;
  static constexpr bool shared_taps = false;
  static constexpr int channels = 3;
  static constexpr bool reads_zeros_outside = true, known = false;
  static constexpr int neighbours(int) { return 1; }  // the magnitudes
  static constexpr int widen(int columns) { return columns + 2; }
};

// The halo of all stages together: columns on either side.
template <class... Stages>
constexpr int kHalo = (0 + ... + (Stages::K / 2));

template <class... Stages>
struct FirstOf;
template <class Stage, class... Later>
struct FirstOf<Stage, Later...> {
  using type = Stage;
};
template <class... Stages>
using First = typename FirstOf<Stages...>::type;

// Whether the first of these stages, if there is one, reads zeros outside of the image.
template <class...>
constexpr bool kFirstReadsZeros = false;
template <class Stage, class... Later>
constexpr bool kFirstReadsZeros<Stage, Later...> = Stage::reads_zeros_outside;

template <class... Stages>
struct Pipeline {
  using Start = First<Stages...>;
  static constexpr int count = sizeof...(Stages);
  static constexpr int halo = kHalo<Stages...>;  // columns and rows on either side of a pixel
  static constexpr int first_radius = Start::K / 2;
  static constexpr bool thins = (Stages::reads_zeros_outside || ...);
  // Rows of intermediates are extended in registers for windows of 3x3 behind the first, which is little code.
  // Structure tensor 5 and 7, 8192^2, one NVIDIA H200: extended 296, 444 us; edges computed again 291, 341.
  static constexpr bool extends_rows = count > 1 && kHalo<Stages...> - Start::K / 2 <= count - 1;
  static constexpr int taps = (0 + ... + Stages::taps);
  static constexpr int stride = (1 * ... * Stages::stride);
  static constexpr int outputs = [] {
    int last = 0;
    ((last = Stages::outputs), ...);
    return last;
  }();

  // Registers of all rings for so many columns a lane.
  static constexpr int ring(bool halo_lanes, int columns) {
    int floats = 0, further = halo;
    ((further -= Stages::K / 2,
      floats += Stages::K * Stages::mid * Stages::widen(columns + (halo_lanes ? 0 : 2 * further))),
     ...);
    return floats;
  }

  // Floats of shared memory that edge.cuh takes for a piece of h x w outputs.
  static constexpr int edge_floats(int h, int w) {
    int floats = 0, further = halo, left = count;
    ((further -= Stages::K / 2, --left,
      floats += (h + 2 * further + Stages::K - 1) * (w + 2 * further) * Stages::windows +
                (left > 0 ? (h + 2 * further) * (w + 2 * further) * Stages::outputs : 0)),
     ...);
    return floats;
  }
};

}  // namespace torch_conv::fused
