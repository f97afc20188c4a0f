// The chains that are compiled: one line each.
#pragma once

#include <algorithm>

#include "fused/stages.cuh"

namespace torch_conv::fused {

template <class... Stages>
struct Pipeline {
  static constexpr int count = sizeof...(Stages);
  static constexpr int reach = kReach<Stages...>;  // columns and rows on either side of a pixel
  static constexpr int first_radius = First<Stages...>::K / 2;
  static constexpr bool thins = (Stages::reads_zeros_outside || ...);
  // Rows of intermediates are extended in registers while that is little code, windows of 3x3 after the first
  // (structure tensor 5 and 7 at 8192^2 on one NVIDIA H200: 296 and 444 us so, 291 and 341 with their edges computed
  // again).
  static constexpr bool extends_rows = count > 1 && kReach<Stages...> - First<Stages...>::K / 2 <= count - 1;
  static constexpr int taps = (0 + ... + Stages::taps);
  static constexpr int stride = (1 * ... * Stages::stride);
  static constexpr int outputs = [] {
    int last = 0;
    ((last = Stages::outputs), ...);
    return last;
  }();

  template <bool kLend, int Out>
  using Rows = Flow<kLend, true, Out, Stages...>;

  // Registers of all rings for so many columns a lane.
  static constexpr int ring(bool lend, int columns) {
    int floats = 0, further = reach;
    ((further -= Stages::K / 2, floats += Stages::K * Stages::mid * Stages::widen(columns + (lend ? 0 : 2 * further))),
     ...);
    return floats;
  }

  // Floats of shared memory that kernel_edge.cuh takes for a piece of h x w outputs.
  static constexpr int edge_floats(int h, int w) {
    int floats = 0, further = reach, left = count;
    ((further -= Stages::K / 2, --left,
      floats += (h + 2 * further + Stages::K - 1) * (w + 2 * further) * Stages::windows +
                (left > 0 ? (h + 2 * further) * (w + 2 * further) * Stages::outputs : 0)),
     ...);
    return floats;
  }

  static bool matches(const Fused& p) {
    const Stage* s = p.stages;
    return p.count == count && p.stride == stride && (fits<Stages>(*s++) && ...);
  }

  // Calls f with this pipeline if it is what the problem asks for; false if it is not.
  template <class F>
  static bool with(const Fused& p, const F& f) {
    if (!matches(p)) return false;
    f(Pipeline{});
    return true;
  }

  // The taps that stages read at run time, one stage after another.
  static void copy_taps(const Fused& p, float* to) {
    const Stage* s = p.stages;
    ((to = copied<Stages>(*s++, to)), ...);
  }

 private:
  template <class S>
  static float* copied(const Stage& s, float* to) {
    for (int i = 0; 2 * S::K * i < S::taps; ++i)
      for (const Taps* from : {&s.taps_x[i], &s.taps_y[i]})
        to = std::copy_n(static_cast<const float*>(from->data), S::K, to);
    return to;
  }

  template <class S>
  static bool fits(const Stage& s) {
    if (s.point != S::kind || s.windows != S::windows || s.kh != S::K || s.kw != S::K) return false;
    for (int i = 0; i < s.windows; ++i) {
      if (S::shared_taps && (s.taps_x[i].data != s.taps_x[0].data || s.taps_y[i].data != s.taps_y[0].data))
        return false;
      if constexpr (S::known)
        for (int j = 0; j < S::K; ++j)
          if (static_cast<const float*>(s.taps_x[i].data)[j] != S::Known::tap(S::of_window(i) + j) ||
              static_cast<const float*>(s.taps_y[i].data)[j] != S::Known::tap(S::of_window(i) + S::K + j))
            return false;
    }
    return true;
  }
};

// Pipelines, and lists of them.
template <class... Members>
struct List {
  // As Pipeline::with, with the first that matches.
  template <class F>
  static bool with(const Fused& p, const F& f) {
    return (Members::with(p, f) || ...);
  }
};

// One window, and several of what it made; K is its size.
template <int... K>
using Gradients = List<Pipeline<Windows<K, 2, Point::each>>...>;
template <int... K>
using SecondOrder = List<Pipeline<Windows<K, 3, Point::each>>...>;
template <Point Magnitude, int... K>
using GaussianSobel = List<Pipeline<Windows<K, 1, Point::each>, Windows<3, 2, Magnitude, Sobel>>...>;
template <int... K>
using Sums = List<Pipeline<Windows<K, 2, Point::sum>>...>;
template <int... K>
using Sharpened = List<Pipeline<Windows<K, 1, Point::sharpen>>...>;
template <int... K>
using StructureTensor = List<Pipeline<Windows<3, 2, Point::products>, Windows<K, 3, Point::each, NotKnown, true>>...>;
template <int... K>
using ThinEdges = List<Pipeline<Windows<K, 1, Point::each>, Windows<3, 2, Point::polar, Sobel>, Thin>...>;
template <int... K>
using Downsampled = List<Pipeline<Windows<K, 1, Point::each, NotKnown, false, 2>>...>;

using Compiled = List<  //
    Gradients<3>, SecondOrder<3, 5>, Pipeline<Windows<3, 2, Point::l2>>, GaussianSobel<Point::l1, 3, 5, 7>,
    GaussianSobel<Point::l2, 3, 5, 7>, Sums<3, 5, 7, 9, 11, 13, 15>, Sharpened<3, 5, 7, 9, 11, 13, 15>,
    StructureTensor<3, 5, 7, 9>, ThinEdges<3, 5, 7>, Downsampled<3, 5, 7>>;

}  // namespace torch_conv::fused
