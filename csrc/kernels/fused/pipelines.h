// The chains that one launch serves, one line each, and their description for the host.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "kernels/fused/params.h"

namespace torch_conv::fused {

template <class... Members>
struct List {};

// One window, then several windows on its output; K is the size.
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

using Served = List<  //
    Gradients<3>, SecondOrder<3, 5>, Pipeline<Windows<3, 2, Point::l2>>, GaussianSobel<Point::l1, 3, 5, 7>,
    GaussianSobel<Point::l2, 3, 5, 7>, Sums<3, 5, 7, 9, 11, 13, 15>, Sharpened<3, 5, 7, 9, 11, 13, 15>,
    StructureTensor<3, 5, 7, 9>, ThinEdges<3, 5, 7>, Downsampled<3, 5, 7>>;

// ---- A pipeline as a kernel's template argument ----------------------------------------------------------------

inline std::string text_of(Point point) {
  switch (point) {
    case Point::each: return "Point::each";
    case Point::sum: return "Point::sum";
    case Point::l1: return "Point::l1";
    case Point::l2: return "Point::l2";
    case Point::products: return "Point::products";
    case Point::sharpen: return "Point::sharpen";
    case Point::polar: return "Point::polar";
    case Point::thin: return "Point::thin";
  }
  __builtin_unreachable();
}
inline std::string text_of(NotKnown) { return "fused::NotKnown"; }
inline std::string text_of(Sobel) { return "fused::Sobel"; }
inline std::string text_of(Thin) { return "fused::Thin"; }
template <int K, int kWindows, Point P, class Known, bool kShared, int kStride>
std::string text_of(Windows<K, kWindows, P, Known, kShared, kStride>) {
  return "fused::Windows<" + std::to_string(K) + ", " + std::to_string(kWindows) + ", " + text_of(P) + ", " +
         text_of(Known{}) + ", " + (kShared ? "true" : "false") + ", " + std::to_string(kStride) + ">";
}
template <class Stage, class... Later>
std::string text_of(Pipeline<Stage, Later...>) {
  return "fused::Pipeline<" + (text_of(Stage{}) + ... + (", " + text_of(Later{}))) + ">";
}

// ---- Does a chain compute a problem? ---------------------------------------------------------------------------

inline float tap(const Taps& taps, int i) { return static_cast<const float*>(taps.data)[i]; }

template <class S>
bool computes(const Stage& s) {
  if (s.point != S::kind || s.windows != S::windows || s.kh != S::K || s.kw != S::K) return false;
  for (int i = 0; i < s.windows; ++i) {
    if (S::shared_taps && (s.taps_x[i].data != s.taps_x[0].data || s.taps_y[i].data != s.taps_y[0].data)) return false;
    if constexpr (S::known)
      for (int j = 0; j < S::K; ++j)
        if (tap(s.taps_x[i], j) != S::Known::tap(S::first_tap(i) + j) ||
            tap(s.taps_y[i], j) != S::Known::tap(S::first_tap(i) + S::K + j))
          return false;
  }
  return true;
}

template <class... Stages>
bool is_pipeline(Pipeline<Stages...>, const Fused& p) {
  const Stage* s = p.stages;
  return p.count == sizeof...(Stages) && p.stride == Pipeline<Stages...>::stride && (computes<Stages>(*s++) && ...);
}

// The taps that stages read at run time, one stage after another.
template <class S>
float* pack_taps(const Stage& s, float* to) {
  for (int i = 0; 2 * S::K * i < S::taps; ++i)
    for (const Taps* from : {&s.taps_x[i], &s.taps_y[i]})
      to = std::copy_n(static_cast<const float*>(from->data), S::K, to);
  return to;
}

template <class... Stages>
void pack_pipeline(const Fused& p, PackedTaps& taps) {
  const Stage* s = p.stages;
  float* to = taps.v;
  ((to = pack_taps<Stages>(*s++, to)), ...);
}

// ---- A pipeline in numbers -------------------------------------------------------------------------------------

struct Chain {
  std::string (*text)();  // as a template argument
  TileShape shape;
  int shared_bytes;
  int count, halo, first_radius, stride;  // see Pipeline
  bool thins, extends_rows;
  bool fits_streaming;
  StreamingStrip streaming;
  void (*pack)(const Fused&, PackedTaps&);
};

template <class... Stages>
Chain chain_of(Pipeline<Stages...>, int bytes) {
  using P = Pipeline<Stages...>;
  static_assert(P::taps <= kMostTaps);
  return {.text = [] { return text_of(P{}); },
          .shape = tile_shape<P>(bytes),
          .shared_bytes = shared_bytes<P>(bytes),
          .count = P::count,
          .halo = P::halo,
          .first_radius = P::first_radius,
          .stride = P::stride,
          .thins = P::thins,
          .extends_rows = P::extends_rows,
          .fits_streaming = kFitsStreaming<P>,
          .streaming = streaming_strip<P>(bytes),
          .pack = pack_pipeline<Stages...>};
}

template <class... Stages>
std::optional<Chain> find_in(Pipeline<Stages...> pipeline, const Fused& p) {
  if (!is_pipeline(pipeline, p)) return std::nullopt;
  return chain_of(pipeline, size_of(p.in.dtype));
}
template <class... Members>
std::optional<Chain> find_in(List<Members...>, const Fused& p) {
  std::optional<Chain> found;
  ((found = find_in(Members{}, p)) || ...);
  return found;
}

// The pipeline that the problem asks for. The function reads its taps, which must be on the host.
inline std::optional<Chain> find_chain(const Fused& p) { return find_in(Served{}, p); }

}  // namespace torch_conv::fused
