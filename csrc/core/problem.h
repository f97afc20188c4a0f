// The problems that kernel families compute: plain numbers, no torch.
//
// Axes stand in the order n, c, d, h, w; an image is a volume of depth 1. Sizes and strides are in elements, never
// bytes. Taps and bias are in the accumulation dtype: float64 for float64 images, else float32. All sums are
// correlations: for a convolution the operator layer flips the taps. The layer also divides taps by their sum
// for `normalized`, except for box filters and Border::skip.
//
// each_address(p, f) calls f(address) for every address of memory that a problem holds (graph/decision.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/border.h"
#include "core/dtype.h"

namespace torch_conv {

constexpr TC_HD int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr TC_HD int64_t round_up(int64_t a, int64_t multiple) { return ceil_div(a, multiple) * multiple; }

// The spatial sizes of a window or an image; depth 1 where there are two.
struct Extent {
  int64_t d = 1, h, w;
};

struct Image {
  void* data;
  Dtype dtype;
  int64_t n, c, d, h, w;
  int64_t stride_n, stride_c, stride_d, stride_h, stride_w;
};

inline double elements_of(const Image& image) {
  return double(image.n) * double(image.c) * double(image.d) * double(image.h) * double(image.w);
}

inline double bytes_of(const Image& image) { return elements_of(image) * size_of(image.dtype); }

// Whether the base and all rows of an image start on multiples of `bytes`.
inline bool rows_start_on(const Image& x, int64_t bytes) {
  const int64_t size = size_of(x.dtype);
  auto aligned = [&](int64_t stride, int64_t count) { return count == 1 || stride * size % bytes == 0; };
  return reinterpret_cast<uintptr_t>(x.data) % bytes == 0 && aligned(x.stride_h, x.h) && aligned(x.stride_d, x.d) &&
         aligned(x.stride_c, x.c) && aligned(x.stride_n, x.n);
}

// Whether rows are dense, 16-byte aligned and multiples of 16 bytes long.
inline bool aligned_rows(const Image& x) {
  return x.stride_w == 1 && x.w * size_of(x.dtype) % 16 == 0 && rows_start_on(x, 16);
}

// The number of channels that are interleaved in the rows of both images (channels_last), or 1. Such a row is filtered
// as one row of w * c elements, whose taps are c elements apart.
inline int64_t interleaved_channels(const Image& in, const Image& out) {
  const bool both = in.c > 1 && in.c == out.c && in.stride_c == 1 && out.stride_c == 1 && in.stride_w == in.c &&
                    out.stride_w == out.c;
  return both ? in.c : 1;
}

// An image with its interleaved channels as columns of a single channel.
inline Image as_rows(Image x, int64_t channels) {
  if (channels > 1 && x.data) x.w *= channels, x.c = 1, x.stride_c = 0, x.stride_w = 1;
  return x;
}

// The neighbour shards of a shard of an image (cut along h) or of a volume (cut along d). CUDA kernels read them in
// place, also in another GPU's memory. `data` is null at an end of the whole image.
struct Peers {
  Image above{}, below{};
  bool any() const { return above.data || below.data; }
  // Whether is(image) holds for each neighbour.
  template <typename Is>
  bool all(const Is& is) const {
    return (!above.data || is(above)) && (!below.data || is(below));
  }
  // The `rows` rows of each neighbour that are nearest to the shard.
  Peers nearest(int64_t rows) const {
    Peers b = *this;
    const int64_t behind = std::max<int64_t>(0, above.h - rows);
    if (above.data) b.above.data = static_cast<char*>(above.data) + behind * above.stride_h * size_of(above.dtype);
    b.above.h -= behind, b.below.h = std::min(below.h, rows);
    return b;
  }
  // Whether the rows of all shards have the same width and the same stride of pixels.
  bool same_columns(const Image& in) const {
    return all([&](const Image& x) { return x.stride_w == in.stride_w && x.w == in.w; });
  }
  // Whether the planes of all shards also have the same height and the same stride of rows.
  bool same_planes(const Image& in) const {
    return same_columns(in) && all([&](const Image& x) { return x.stride_h == in.stride_h && x.h == in.h; });
  }
};

// The interleaved channels of an HWC image whose neighbour shards have the same layout; 1 for other images.
constexpr int64_t kMostInterleaved = 4;
inline int64_t hwc_channels(const Image& in, const Image& out, const Peers& peers) {
  const int64_t channels = interleaved_channels(in, out);
  const auto alike = [&](const Image& shard) { return !shard.data || interleaved_channels(in, shard) == channels; };
  return channels <= kMostInterleaved && alike(peers.above) && alike(peers.below) ? channels : 1;
}

// The placement of windows. For output (z, y, x), tap (l, i, j) reads the input at these coordinates:
//
//     z * stride_z + l * dilation_z - pad_z
//     y * stride_y + i * dilation_y - pad_y
//     x * stride_x + j * dilation_x - pad_x
struct Placement {
  int64_t pad_z = 0, pad_y, pad_x;
  int64_t stride_z = 1, stride_y = 1, stride_x = 1;
  int64_t dilation_z = 1, dilation_y = 1, dilation_x = 1;
  Border border = Border::constant;
  double value = 0;         // of Border::constant
  bool normalized = false;  // only with Border::skip: divide by the sum of the |taps| inside

  // Whether all strides and dilations are 1, along y and x or along all axes.
  bool unit_steps_of_images() const { return stride_y == 1 && stride_x == 1 && dilation_y == 1 && dilation_x == 1; }
  bool unit_steps() const { return unit_steps_of_images() && stride_z == 1 && dilation_z == 1; }
};

// A set of windows; a stride of 0 shares one window along that axis.
struct Taps {
  const void* data;
  bool on_host;         // CUDA: `data` is host memory, at most kInlineTapBytes, which kernels take as a parameter
  int64_t stride_n;     // elements from one sample's window to the next
  int64_t stride_c;     // ... one output channel's to the next
  int64_t stride_ci;    // ... one input channel's to the next, within a group (convolutions)
  bool narrow = false;  // in the images' 16-bit dtype, for tensor cores
};

// Host taps up to this size are kernel parameters; the operator layer uploads larger ones to device memory first.
// Larger parameters cost time at every launch (3200 bytes: 1.5-2 us on one NVIDIA H200), an upload is one more small
// launch.
constexpr int64_t kInlineTapBytes = 256;

// The order of a sum. `chain`: one chain of fused multiply-adds, row by row, that starts at 0. `mma`: products of
// matrices on tensor cores. `any`: either.
enum class Sums : int8_t { chain, any, mma };

// out[n, co] = bias[co] + sum over ci of the group, l, i, j of taps[n, co, ci][l, i, j] * in[n, ci]. The sum is one fma
// chain in this order that starts at 0, unless `sums` allows others. A filter is the depthwise case, groups == c.
struct Direct {
  Image in, out;
  Taps taps;
  int64_t kd = 1, kh, kw;
  Placement place;
  int64_t groups;
  const void* bias;  // one per output channel, on the images' device, or null
  Peers peers{};
  Sums sums = Sums::chain;
  bool one_window() const { return taps.stride_n == 0 && taps.stride_c == 0; }
  bool needs_mma() const { return sums == Sums::mma || taps.narrow; }
  // Whether the problem holds no memory of a device besides its images.
  bool on_any_device() const { return taps.on_host && !bias; }
  // One channel that is expanded to many, each with its own window, as one input channel with many outputs. Kernels
  // then read the channel less often. Bulk copies take no stride of 0.
  Direct with_channels_read_once() const {
    const auto expanded = [](const Image& x) { return x.stride_c == 0; };
    Direct p = *this;
    if (in.c > 1 && expanded(in) && peers.all(expanded) && groups == in.c && out.c == in.c)
      p.in.c = p.groups = p.peers.above.c = p.peers.below.c = 1;
    return p;
  }
};
template <typename F>
void each_address(Direct& p, const F& f) {
  f(p.in.data), f(p.out.data), f(p.taps.data), f(p.bias), f(p.peers.above.data), f(p.peers.below.data);
}

// Overlap-save: tiles of the extended images, which are transformed one by one. `data` holds tiles `first` to
// first + count - 1 of every image in raster order, `across` tiles a row. The memory is dense, (n, c, count, h, w), in
// the accumulation dtype. Tiles start step_h rows and step_w columns apart.
struct Tiles {
  void* data;
  int64_t first, count, across;
  int64_t h, w;
  int64_t step_h, step_w;  // multiples of the filter's strides
};

// Fills tiles with pixels and notes the magnitude of each cell of a tile (kernels/overlap_save/params.h). The kernel
// reads the pads, the border and the border's value of `place`.
struct ReadTiles {
  Image in;
  Placement place;
  Tiles tiles;
  int64_t end_y, end_x;  // no window covers rows and columns from here on, and tiles hold 0 there
  int32_t* notes;        // zeros, Cells::notes() for each tile
};
template <typename F>
void each_address(ReadTiles& p, const F& f) {
  f(p.in.data), f(p.tiles.data), f(p.notes);
}

// Corner sums of every window. The sums of sample n and channel c start at n * stride_n + c * stride_c.
struct CornerSums {
  const double* data = nullptr;
  int64_t stride_n = 0, stride_c = 0;
};

// Writes the filter's outputs from the circular convolutions of tiles with the flipped window. Each sum is multiplied
// by the number of a tile's pixels. The sum of the window that starts at row y, column x of a tile is at (y, x) plus
// the window's span less one. Outputs are computed tap by tap if their sum is not finite, or if the window's pixels are
// far smaller than the tile's. On CUDA the same kernel computes these outputs. On the CPU `marks` names their cells,
// and the caller filters these cells directly.
struct WriteTiles {
  Direct filter;
  Tiles sums;
  // For filter.place.normalized. s(i, j) is element i * (kw + 1) + j. The sum of the |taps| of [i0, i1) x [j0, j1) is
  // s(i1, j1) - s(i0, j1) - s(i1, j0) + s(i0, j0).
  CornerSums corners;
  const int32_t* notes;  // of ReadTiles
  char* marks;           // a byte for each cell of each tile: scratch on CUDA
};
template <typename F>
void each_address(WriteTiles& p, const F& f) {
  each_address(p.filter, f), f(p.sums.data), f(p.corners.data), f(p.notes), f(p.marks);
}

// The activation of a convolution: a function of sum plus bias, before the rounding (core/activation.h).
enum class Activation : int8_t { none, relu, relu6, gelu, silu, hardswish };

// A depthwise convolution of images with zeros outside. Every input channel has out.c / in.c outputs:
// out[n, co] = activation(bias[co] + sum over i, j of weight[co][i, j] * in[n, co / (out.c / in.c)]).
struct Depthwise {
  Image in, out;
  const void *weight, *bias;  // out.c dense windows of kh x kw; one number per output channel, or null
  Dtype weights;              // of weight and bias: the images', or float32 for 16-bit images
  int64_t kh, kw;
  Placement place;  // border: constant 0
  Activation activation;
  Sums sums;
  int64_t multiplier() const { return out.c / in.c; }
  bool needs_mma() const { return sums == Sums::mma; }
};
template <typename F>
void each_address(Depthwise& p, const F& f) {
  f(p.in.data), f(p.out.data), f(p.weight), f(p.bias);
}

// The row pass over taps_x of the extended image, then the column pass over taps_y, then the depth pass over taps_z.
// Each pass is one fma chain that starts at 0, unless `sums` allows others. Intermediates have the accumulation dtype.
// An image (depth 1, kd 1) has no depth pass. in and out have the same channels. stride_ci is unused.
struct Separable {
  Image in, out;
  Taps taps_x, taps_y, taps_z;
  int64_t kd = 1, kh, kw;
  Placement place;
  Peers peers{};
  Sums sums = Sums::chain;
  bool needs_mma() const { return sums == Sums::mma; }
  bool on_any_device() const { return taps_x.on_host && taps_y.on_host && (kd == 1 || taps_z.on_host); }
};
template <typename F>
void each_address(Separable& p, const F& f) {
  f(p.in.data), f(p.out.data), f(p.taps_x.data), f(p.taps_y.data), f(p.taps_z.data);
  f(p.peers.above.data), f(p.peers.below.data);
}

// out = window sum * scale (Border::skip with place.normalized: window sum / number of pixels inside).
// Strides and dilations are 1. Sums of floats depend on which row of the whole image the first output row is.
struct Box {
  Image in, out;
  int64_t kd = 1, kh, kw;
  double scale;
  Placement place;
  int64_t first_row = 0;  // out's row 0, among the outputs of the whole image
  int64_t whole_h = 0;    // rows of the whole image
  int64_t whole_w = 0;    // columns of the whole image
  Peers peers{};
  bool on_any_device() const { return true; }
};
template <typename F>
void each_address(Box& p, const F& f) {
  f(p.in.data), f(p.out.data), f(p.peers.above.data), f(p.peers.below.data);
}

// The third axis of a 3-D box, after the planes' sums: out = sum over l of sums[z + l - pad_z] * scale. With
// Border::skip and place.normalized the sum is divided by the number of voxels of the kd x kh x kw window inside.
// `sums` holds kh x kw sums of every plane in float64. They are float32 for float sources and for integers whose sums
// stay below 2^24. With Border::constant, `outside` is the sum of a plane outside. Sums of integer sources are exact,
// and their means are rounded once. Sums of floats depend on the number of the first output plane in the whole volume.
struct BoxDepth {
  Image sums, out;
  Dtype source;  // of the volume that was summed
  int64_t kd, kh, kw;
  double scale, outside;
  Placement place;           // along y and x too: Border::skip counts by it
  int64_t plane_h, plane_w;  // of the volume that was summed
  int64_t first_plane = 0;   // out's plane 0, among the outputs of the whole volume
  int64_t whole_d = 0;       // planes of the whole volume
};
template <typename F>
void each_address(BoxDepth& p, const F& f) {
  f(p.sums.data), f(p.out.data);
}

// The outputs of a stage as functions of its windows' sums s0, s1, ..., in the accumulation dtype and in this order of
// operations.
enum class Point : int8_t {
  each,      // every sum is an output
  sum,       // (s0 + s1) + ...
  l1,        // |s0| + |s1| (+ |s2|)
  l2,        // sqrt(fma(s1, s1, s0 * s0) + number); with three fma(s2, s2, ...) before the number
  products,  // s0 * s0, s0 * s1, s1 * s1
  sharpen,   // fma(number, x - s0, x) with x the pixel under the window's middle
  polar,     // fma(s1, s1, s0 * s0), s0, s1: the inputs of `thin`
  // A stage of images without windows, behind `polar`: sqrt(m) where m is a maximum along the gradient, else 0. A
  // maximum is larger than the neighbour before and not smaller than the neighbour after, in raster order. The
  // neighbours are on the row, column or diagonal that is nearest to the direction of (s0, s1). Magnitudes outside the
  // image are 0.
  thin,
};

constexpr int count_outputs(Point point, int windows) {
  switch (point) {
    case Point::each: return windows;
    case Point::products:
    case Point::polar: return 3;
    case Point::sum:
    case Point::l1:
    case Point::l2:
    case Point::sharpen:
    case Point::thin: return 1;
  }
  return 0;
}

// A stage of a fused chain: separable windows (odd, centred) over the outputs of the stage before, then `point`.
struct Stage {
  static constexpr int kMost = 3;
  int windows;                     // `thin` has none; window i reads output i % outputs of the stage before
  int64_t kd = 1, kh = 3, kw = 3;  // of every window, and of the neighbourhood of `thin`
  Taps taps_x[kMost], taps_y[kMost], taps_z[kMost];
  Point point = Point::each;
  double number = 0;
  int outputs() const { return count_outputs(point, windows); }
};

// A chain of stages between one read and one write. Every stage extends its input by the border policy, as a separate
// filter would. With `zero_output`, its sums and the outputs of `sharpen` are 0 where the stage's windows are not
// inside. Each window is a row pass and a column pass (and a depth pass over volumes) as in Separable.
struct Fused {
  static constexpr int kMost = 3;
  Image in, out;          // `out`: the images of the last stage's first output
  int64_t stride_output;  // elements from one output's images to the next one's
  int count;              // of stages
  Stage stages[kMost];
  Border border;
  double value;
  bool valid;           // 'valid': every stage keeps only the pixels whose windows are inside its input
  int64_t stride;       // the last stage keeps the pixels 0, stride, 2 stride ... along every axis
  bool wanted = false;  // one launch, even where separate filters are faster
  Peers peers{};
  bool on_any_device() const {
    bool on_host = true;
    for (const Stage* s = stages; s != stages + count; ++s)
      for (int i = 0; i < s->windows; ++i) on_host = on_host && s->taps_x[i].on_host && s->taps_y[i].on_host;
    return on_host;
  }

  static Fused of(const Stage& only, const Image& in, const Image& out, const Placement& at, bool valid) {
    return {.in = in,
            .out = out,
            .stride_output = 0,
            .count = 1,
            .stages = {only},
            .border = at.border,
            .value = at.value,
            .valid = valid,
            .stride = at.stride_y};
  }
};
template <typename F>
void each_address(Fused& p, const F& f) {
  f(p.in.data), f(p.out.data), f(p.peers.above.data), f(p.peers.below.data);
  for (int s = 0; s < p.count; ++s) {
    Stage& stage = p.stages[s];
    for (int i = 0; i < stage.windows; ++i) f(stage.taps_x[i].data), f(stage.taps_y[i].data), f(stage.taps_z[i].data);
  }
}

// One stage's `point` on whole images or volumes, after the filters that compute the sums of its windows.
struct Combine {
  Image sums[Stage::kMost];  // of the windows; for `thin` the outputs of `polar`
  int windows;               // how many
  Image centre;              // the pixel for `sharpen`
  Image out;
  int64_t stride_output;
  Point point;
  double number;
  int64_t margin_y, margin_x;                // `sharpen` with zero_output: outputs nearer than this to an edge are 0
  Activation activation = Activation::none;  // of Point::sum of one image
};
template <typename F>
void each_address(Combine& p, const F& f) {
  for (int i = 0; i < p.windows; ++i) f(p.sums[i].data);
  f(p.centre.data), f(p.out.data);
}

// Problems on shards (sharding/launch_shards.h).
// Whether interior and boundary strips can be separate problems: a chain has no pad for the first window.
template <typename Problem>
constexpr bool kHasBoundaries = !std::is_same_v<Problem, Fused>;
// Whether sums depend on `first_row`.
template <typename Problem>
constexpr bool kCountsRows = std::is_same_v<Problem, Box>;
// Whether there may be several outputs, `stride_output` elements apart.
template <typename Problem>
constexpr bool kHasSeveralOutputs = std::is_same_v<Problem, Fused>;

}  // namespace torch_conv
