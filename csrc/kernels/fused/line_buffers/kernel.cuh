// A chain of stages of any windows, dtype, layout and border, streaming down a strip: the line buffer of a separable
// filter (separable2d/line_buffer) for each window of each stage, and one stage after the other in shared memory.
//
// clang-format off
//     rows of the image      box: 32 rows x span           lines of each window              the next stage's box,
//   +-------------------+     +-----------------+           +-------------------+            or 32 rows of outputs
//   | the next 32 rows  | --> |  of each image  | -- row -->| kept: of the step | -- column    +---------------+
//   | are in registers  |     |  that the stage |    pass   |       before      |    pass  --> |               |
//   |                   |     |  reads          |           | new               |    point     +---------------+
//   +-------------------+     +-----------------+           +-------------------+
// clang-format on
//
// In a step every stage takes 32 more rows and makes 32 more, which lie radius_y rows further up: output row o needs
// rows up to o + radius_y. So a strip's first 2 * halo_y rows make no outputs. Tile columns are those of the first
// stage's outputs; each later stage makes 2 * radius_x fewer. `thin` has no windows: its lines are the stage's input.
//
// Every stage extends its input as a filter by itself would. The loader extends the image, and with `circular` so all
// stages. Else a row outside of the image has the row results of the row that it stands for, which is near and so in
// the lines: extend_lines() copies them. extend_box() does so for columns, and sets the elements of a constant border.
//
// Per output: one read of the pixel, one write of each output, 2 (kw + kh) flops a window.
#pragma once

#include "core/cuda/line_loader.cuh"
#include "core/cuda/line_pass.cuh"
#include "core/point.h"
#include "kernels/fused/combine/combine.h"
#include "kernels/fused/line_buffers/params.h"

namespace torch_conv::fused {

// Calls f(point, windows) with constants, for a stage that has windows.
template <int kWindows = 1, typename F>
__device__ __forceinline__ void with_point(Point point, int windows, const F& f) {
  if constexpr (kWindows < Stage::kMost)
    if (windows > kWindows) return with_point<kWindows + 1>(point, windows, f);
  const auto call = [&]<Point P>() {
    if constexpr (combines(P, kWindows)) f.template operator()<P, kWindows>();
  };
  switch (point) {
    case Point::sum: return call.template operator()<Point::sum>();
    case Point::l1: return call.template operator()<Point::l1>();
    case Point::l2: return call.template operator()<Point::l2>();
    case Point::products: return call.template operator()<Point::products>();
    case Point::sharpen: return call.template operator()<Point::sharpen>();
    case Point::polar: return call.template operator()<Point::polar>();
    case Point::each:
    case Point::thin: return;  // nothing to do, or no windows
  }
}

template <typename A, int V>
__device__ __forceinline__ void take_roots(A (&squares)[V]) {
  if constexpr (sizeof(A) == 4) {
    square_roots(squares);
  } else {
#pragma unroll
    for (A& square : squares) square = sqrt(square);
  }
}

template <typename T, int V>
struct ChainStrip {
  using A = acc_t<T>;
  static constexpr int kThreads = 32 * kLineWarps, kColumns = line_columns(V), kPitch = line_pitch(V);
  static constexpr int kAhead = V == 16 ? line_ahead(sizeof(A)) : 3;

  const LineBuffersParams& p;
  const LineChain& tile;
  const Position at;
  Segment* const segments;
  int64_t* const outputs;  // of every column of the last stage: where its first row goes, or kNowhere
  A* const memory;
  LineLoader<T, LineBuffersParams, kAhead> loader;
  const int x, y;  // of the image, under the strip's first element
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // Of the column pass: the thread's column, and V rows of it.
  const int column = threadIdx.x % kColumns, part = threadIdx.x / kColumns * V;

  static constexpr int kNowhere = -1;

  // All threads; a barrier follows.
  __device__ __forceinline__ ChainStrip(const LineBuffersParams& p, unsigned char* shared)
      : p(p),
        tile(p.tile),
        at(block_position(p, p.tile.rows)),
        segments(reinterpret_cast<Segment*>(shared)),
        outputs(reinterpret_cast<int64_t*>(segments + p.tile.segments)),
        memory(reinterpret_cast<A*>(outputs + kColumns)),
        loader(p, at, reinterpret_cast<int*>(memory + p.tile.elements)),
        x(int(at.x - p.place.pad_x)),
        y(int(at.y - p.place.pad_y)) {
    for (int s = 0; s < tile.count; ++s) bring_taps(s), describe_segments(tile.stages[s]);
    if (threadIdx.x < kColumns) outputs[column] = output_of(tile.stages[tile.count - 1], column);
  }

  __device__ __forceinline__ void bring_taps(int s) const {
    const LineStage& stage = tile.stages[s];
    const auto bring = [&](A* to, const WindowTaps& taps, int count) {
      const A* const from = reinterpret_cast<const A*>(taps.device ? taps.device : p.bytes + taps.start);
      for (int i = threadIdx.x; i < count; i += kThreads) to[i] = from[i];
    };
    for (int w = 0; w < stage.windows; ++w) {
      bring(taps_x(stage, w), p.taps_x[s][w], stage.kw);
      bring(taps_y(stage, w), p.taps_y[s][w], stage.kh);
    }
  }
  __device__ __forceinline__ A* taps_x(const LineStage& stage, int w) const {
    return memory + stage.taps + w * stage.window_taps();
  }
  __device__ __forceinline__ A* taps_y(const LineStage& stage, int w) const {
    return taps_x(stage, w) + tap_elements(stage.kw);
  }

  __device__ __forceinline__ void describe_segments(const LineStage& stage) const {
    const int channels = tile.channels, pixels = stage.pixels, of_plane = (pixels + V - 1) / V;
    for (int i = threadIdx.x; i < stage.segments; i += kThreads) {
      int rest = i;
      const int first = rest % of_plane * V;
      rest /= of_plane;
      const int channel = rest % channels;
      rest /= channels;
      const int plane = rest % tile.planes, w = rest / tile.planes;
      const int before = plane * (pixels + 2 * stage.radius_x()) * channels;
      segments[stage.segment + i] = {w % stage.input_fields * stage.box_field + before + first * channels + channel,
                                     w * stage.line_field + (plane * pixels + first) * channels + channel,
                                     w < stage.windows ? stage.taps + w * stage.window_taps() : Segment::kCopy,
                                     int16_t(stage.before_x + first), int16_t(min(V, pixels - first))};
    }
  }

  __device__ __forceinline__ int columns_of(const LineStage& stage) const {
    return tile.planes * stage.pixels * tile.channels;
  }
  // The pixel of a plane that an element of a stage's outputs belongs to.
  __device__ __forceinline__ int pixel_of(const LineStage& stage, int element) const {
    return element / tile.channels % stage.pixels;
  }

  __device__ __forceinline__ int64_t output_of(const LineStage& last, int element) const {
    const int pixel = pixel_of(last, element), channel = element % tile.channels;
    const LinePlane plane = plane_of(p, at, element / tile.channels / last.pixels);
    const bool there = element < columns_of(last) && at.x + pixel < p.out.w && plane.there;
    if (!there || plane.c + channel >= p.out.c) return kNowhere;
    return plane.n * p.out.stride_n + (plane.c + channel) * p.out.stride_c + (at.x + pixel) * p.out.stride_w;
  }

  __device__ __forceinline__ void run() {
    const int rows = int(min(int64_t(tile.rows), p.out.h - at.y)) + 2 * tile.halo_y;
    loader.load(y, min(rows, kLineRows));
    for (int done = 0;;) {
      loader.store(memory + tile.stages[0].box);
      __syncthreads();
      const int next = done + kLineRows;
      if (next < rows) loader.load(y + next, min(rows - next, kLineRows));
      int top = y + done;  // row of the image of a stage's first input row in this step
      for (int s = 0; s < tile.count; ++s) {
        const LineStage& stage = tile.stages[s];
        if (stage.windows > 0) {
          row_pass(stage);
          __syncthreads();
          if (s > 0 && extend_lines(stage, top)) __syncthreads();
        }
        top -= stage.radius_y();
        column_pass(stage, top, s + 1 < tile.count ? &tile.stages[s + 1] : nullptr);
        __syncthreads();
        keep(stage);
        if (s + 1 < tile.count && extend_box(tile.stages[s + 1], top)) __syncthreads();
      }
      if (next >= rows) return;
      done = next;
    }
  }

  __device__ __forceinline__ void row_pass(const LineStage& stage) const {
    const A* const row = memory + stage.box + lane * stage.box_pitch;
    A* const line = memory + stage.lines + (stage.kept() + lane) * kPitch;
    const bool skip = p.place.border == Border::skip;
    const Axis axis{p.in.w, 1, 1};
#pragma unroll 1
    for (int i = warp; i < stage.segments; i += kLineWarps) {
      const Segment segment = segments[stage.segment + i];
      const A *const from = row + segment.from, *const taps = memory + segment.taps;
      A* const to = line + segment.to;
      with_step<1, 3>(tile.channels, [&](auto step) {
        if (skip && !axis.covers(x + segment.first, V, stage.kw) && segment.taps != Segment::kCopy) {
          pass_inside<V>(taps, stage.kw, from, step, axis, x + segment.first, [&](const auto& sums, int first) {
            A* at = to + first * step;
#pragma unroll
            for (const A& sum : sums) {
              if (first++ < segment.count) *at = sum;
              at += step;
            }
          });
          return;
        }
        A results[V] = {};
        if (segment.taps == Segment::kCopy) {
#pragma unroll
          for (int v = 0; v < V; ++v) results[v] = from[(stage.radius_x() + v) * step];
        } else {
          slide<1>(results, taps, stage.kw, from, step);
        }
        if (segment.count == V) {
#pragma unroll
          for (int v = 0; v < V; ++v) to[v * step] = results[v];
        } else {
#pragma unroll
          for (int v = 0; v < V; ++v)
            if (v < segment.count) to[v * step] = results[v];
        }
      });
    }
  }

  // Row results of the rows outside of the image that outputs in the image need. Whether there were some.
  __device__ __forceinline__ bool extend_lines(const LineStage& stage, int top) const {
    const int first = top - stage.kept(), count = stage.kept() + kLineRows, h = int(p.in.h);
    const bool copies = is_mirror(p.place.border) && !p.valid;
    if (!copies || (first >= 0 && first + count <= h)) return false;
    const auto copy_rows = [&](int begin, int end) {
      for (int row = max(begin, first); row < min(end, first + count); ++row) {
        const int from = map_index(row, h, p.place.border) - first;
        if (from < 0 || from >= count || column >= columns_of(stage)) continue;
        A* const lines = memory + stage.lines + column;
        for (int f = threadIdx.x / kColumns; f < stage.line_fields; f += kThreads / kColumns)
          lines[f * stage.line_field + (row - first) * kPitch] = lines[f * stage.line_field + from * kPitch];
      }
    };
    copy_rows(-stage.radius_y(), 0);
    copy_rows(h, h + stage.radius_y());
    return true;
  }

  // Elements of a stage's new input that are outside of the image. Whether there were some.
  __device__ __forceinline__ bool extend_box(const LineStage& stage, int top) const {
    const bool zeros = stage.point == Point::thin, mirrors = is_mirror(p.place.border) && !zeros;
    if (p.valid || !(zeros || mirrors || p.place.border == Border::constant)) return false;
    const int left = x + stage.before_x, pixels = stage.pixels + 2 * stage.radius_x();
    const int w = int(p.in.w), h = int(p.in.h);
    const int before = min(max(-left, 0), pixels), behind = min(max(w - left, 0), pixels);
    const bool rows = !mirrors && (top < 0 || top + kLineRows > h);
    if (before == 0 && behind == pixels && !rows) return false;
    const A value = A(zeros ? 0 : p.place.value);
    A* const box = memory + stage.box;
    // A lane owns a row.
    const auto set = [&](int pixel) {
      const int from = mirrors ? map_index(left + pixel, w, p.place.border) - left : 0;
      if (from < 0 || from >= pixels) return;
      for (int f = 0; f < stage.input_fields; ++f)
        for (int i = 0; i < tile.planes * tile.channels; ++i) {
          A* const row = box + f * stage.box_field + lane * stage.box_pitch +
                         i / tile.channels * pixels * tile.channels + i % tile.channels;
          row[pixel * tile.channels] = mirrors ? row[from * tile.channels] : value;
        }
    };
    for (int pixel = warp; pixel < before; pixel += kLineWarps) set(pixel);
    // Columns further out are under no window of an output in the image.
    const int end = min(pixels, behind + tile.halo_x);
    for (int pixel = behind + warp; pixel < end; pixel += kLineWarps) set(pixel);
    if (rows)
      for (int j = warp; j < kLineRows; j += kLineWarps)
        if (top + j < 0 || top + j >= h)
          for (int f = 0; f < stage.input_fields; ++f)
            for (int e = lane; e < tile.planes * pixels * tile.channels; e += 32)
              box[f * stage.box_field + j * stage.box_pitch + e] = value;
    return true;
  }

  // The stage's outputs of rows top to top + kLineRows - 1. `next`: the stage that takes them, or null for the last.
  __device__ __forceinline__ void column_pass(const LineStage& stage, int top, const LineStage* next) const {
    if (column >= columns_of(stage) || (!next && outputs[column] == kNowhere)) return;
    A sums[Stage::kMost][V];
    const A* const from = memory + stage.lines + part * kPitch + column;
    if (stage.windows == 0) {
      thin(stage, from, sums[0]);
    } else {
      window_sums(stage, from, top + part, sums);
      const bool masks = p.place.border == Border::zero_output && !p.valid;
      if (masks) clear_outside(stage, top + part, sums);
      with_point(stage.point, stage.windows, [&]<Point P, int kWindows>() {
        constexpr int kOutputs = count_outputs(P, kWindows);
#pragma unroll
        for (int v = 0; v < V; ++v) {
          A s[kWindows], made[kOutputs], pixel = 0;
#pragma unroll
          for (int w = 0; w < kWindows; ++w) s[w] = sums[w][v];
          if constexpr (P == Point::sharpen)
            pixel = from[kWindows * stage.line_field + (stage.radius_y() + v) * kPitch];
          apply_point<P, kWindows, false>(s, pixel, A(stage.number), made);
#pragma unroll
          for (int o = 0; o < kOutputs; ++o) sums[o][v] = made[o];
        }
        if constexpr (P == Point::l2) take_roots(sums[0]);
        if constexpr (P == Point::sharpen)
          if (masks) clear_outside(stage, top + part, sums);
      });
    }
    const int fields = count_outputs(stage.point, stage.windows);
    if (next) pass_on(*next, fields, sums);
    else store(fields, top + part, sums);
  }

  __device__ __forceinline__ void window_sums(const LineStage& stage, const A* lines, int row,
                                              A (&sums)[Stage::kMost][V]) const {
    const Axis axis{p.in.h, 1, 1};
    const int first = row - stage.radius_y();
    const bool skip = p.place.border == Border::skip && !axis.covers(first, V, stage.kh);
#pragma unroll
    for (int w = 0; w < Stage::kMost; ++w) {
#pragma unroll
      for (int v = 0; v < V; ++v) sums[w][v] = 0;
      if (w >= stage.windows) continue;
      const A* const from = lines + w * stage.line_field;
      if (skip)
        accumulate_inside(sums[w], taps_y(stage, w), stage.kh, axis, first,
                          [&](int v, int i) { return from[(v + i) * kPitch]; });
      else slide<1>(sums[w], taps_y(stage, w), stage.kh, from, std::integral_constant<int, kPitch>{});
    }
  }

  // `zero_output`: 0 where the stage's windows are not inside the image.
  __device__ __forceinline__ void clear_outside(const LineStage& stage, int row, A (&sums)[Stage::kMost][V]) const {
    const int middle = x + stage.before_x + stage.radius_x() + pixel_of(stage, column);
    const bool inside = middle >= stage.radius_x() && middle < p.in.w - stage.radius_x();
#pragma unroll
    for (int v = 0; v < V; ++v)
      if (!inside || row + v < stage.radius_y() || row + v >= p.in.h - stage.radius_y())
#pragma unroll
        for (auto& sum : sums) sum[v] = 0;
  }

  __device__ __forceinline__ void thin(const LineStage& stage, const A* lines, A (&out)[V]) const {
    // An input row has two pixels more than an output row.
    const int plane = column / (stage.pixels * tile.channels);
    const A* const middle = lines + kPitch + (1 + 2 * plane) * tile.channels;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const A* const here = middle + v * kPitch;
      const auto magnitude = [&](int dy, int dx) { return here[dy * kPitch + dx * tile.channels]; };
      out[v] = thinned<false>(magnitude, here[stage.line_field], here[2 * stage.line_field]);
    }
    take_roots(out);
  }

  __device__ __forceinline__ void pass_on(const LineStage& next, int fields, A (&values)[Stage::kMost][V]) const {
    A* const to = memory + next.box + part * next.box_pitch + column;
#pragma unroll
    for (int o = 0; o < Stage::kMost; ++o)
      if (o < fields)
#pragma unroll
        for (int v = 0; v < V; ++v) to[o * next.box_field + v * next.box_pitch] = values[o][v];
  }

  __device__ __forceinline__ void store(int fields, int row, A (&values)[Stage::kMost][V]) const {
    const int first = row - y - tile.halo_y;                                               // of the strip's outputs
    const int begin = -first, end = int(min(int64_t(tile.rows), p.out.h - at.y)) - first;  // of the V rows
    with_type(p.out.dtype, [&](auto zero) {
      using Out = decltype(zero);
      Out* field = static_cast<Out*>(p.out.data) + outputs[column] + (at.y + first) * p.out.stride_h;
#pragma unroll
      for (int o = 0; o < Stage::kMost; ++o) {
        if (o == fields) return;
        Out* to = field;
#pragma unroll
        for (int v = 0; v < V; ++v) {
          if (v >= begin && v < end) *to = from_acc<Out>(values[o][v]);
          to += p.out.stride_h;
        }
        field += p.stride_output;
      }
    });
  }

  // The lines that the next step needs, too.
  __device__ __forceinline__ void keep(const LineStage& stage) const {
    for (int f = threadIdx.x / kColumns; f < stage.line_fields; f += kThreads / kColumns) {
      A* to = memory + stage.lines + f * stage.line_field + column;
#pragma unroll 4
      for (int r = 0; r < stage.kept(); ++r, to += kPitch) *to = to[kLineRows * kPitch];
    }
  }
};

template <typename T, int V>
__global__ void __launch_bounds__(32 * kLineWarps, line_blocks(V, sizeof(acc_t<T>)))
    fused_line_buffers(const __grid_constant__ LineBuffersParams p) {
  extern __shared__ __align__(128) unsigned char shared[];
  ChainStrip<T, V> strip(p, shared);
  __syncthreads();
  strip.run();
}

}  // namespace torch_conv::fused
