// Box + Arch -> Plan: how box sums are cut into blocks on a GPU. Pure.
#pragma once

#include <algorithm>
#include <climits>
#include <limits>
#include <utility>

#include "box/order.h"
#include "box/params.h"
#include "core/rooms.h"

namespace torch_conv::box {

// What the launch needs besides the plan.
struct Config {
  Finish finish;
  bool carry = false;  // shared memory has a buffer to carry column sums over to the columns that repeat them
};

inline Finish finish_of(const Placement& place) {
  switch (place.border) {
    case Border::constant: return place.value == 0 ? Finish::scale : Finish::value;
    case Border::skip: return place.normalized ? Finish::mean : Finish::scale;
    case Border::zero_output: return Finish::interior;
    case Border::replicate:
    case Border::reflect:
    case Border::symmetric:
    case Border::circular: return Finish::scale;
  }
  __builtin_unreachable();
}

// Bytes of one window sum: 4, or 8 where 32-bit integer sums could wrap around and for float64, also as the result's
// dtype: 4-byte sums leave as float32. Differences of sums that wrapped around are still right as long as the window's
// own sum fits.
inline int sum_bytes(const Box& p) {
  const int64_t kh = p.kh, kw = p.kw;
  if (is_integer(p.in.dtype) && p.out.dtype == Dtype::f64) return 8;
  switch (p.in.dtype) {
    case Dtype::f32:
    case Dtype::f16:
    case Dtype::bf16: return 4;
    case Dtype::f64: return 8;
    case Dtype::u8: return kh * kw <= UINT32_MAX / 255 ? 4 : 8;
    case Dtype::u16: return kh * kw <= UINT32_MAX / 65535 ? 4 : 8;
    case Dtype::i16: return kh * kw <= INT32_MAX / 32768 ? 4 : 8;
  }
  __builtin_unreachable();
}

// As kernels' template arguments are spelt.
inline const char* sum_type(const Box& p) {
  const bool wide = sum_bytes(p) == 8;
  if (is_integer(p.in.dtype)) return wide ? "uint64_t" : "uint32_t";
  return wide ? "double" : "float";
}

// What a kernel of its own does faster, another one does for every output: the latter where only it can be had.
inline Kernel first_offered(const Arch& arch, Kernel own, Kernel every) {
  return !arch.offers || arch.offers(own, arch) ? std::move(own) : std::move(every);
}

// Sizes and coordinates are 32-bit inside the kernels.
inline const char* size_refusal(const Box& p) {
  constexpr int64_t limit = INT_MAX / 4;
  const bool fits = std::max({p.in.h, p.in.w, p.out.h, p.out.w, p.kh, p.kw}) < limit &&
                    std::max(std::abs(p.place.pad_y), std::abs(p.place.pad_x)) < limit;
  return fits ? nullptr : "the window or the image is too large";
}

// ---- GROUPS: sums of floats in the fixed order, of any window ------------------------------------------------------

constexpr const char* kOnlyIntegers = "running sums are for integers";

inline const char* groups_refusal(const Box& p, const Arch&) {
  if (is_integer(p.in.dtype)) return "an order of additions for floats";
  return size_refusal(p);
}

// Outputs are summed in groups of 8 rows, aligned in the whole image: rows of the first group before the first output.
inline int group_phase(const Box& p) { return place_in_group(p.first_row); }

// What stands outside is read like any other pixel.
inline Finish float_finish_of(const Placement& place) {
  const Finish finish = finish_of(place);
  return finish == Finish::value ? Finish::scale : finish;
}

// Columns of the sums of 8 rows that fit in shared memory, s and t (box/kernel_groups.cuh).
inline int64_t group_columns(const Box& p, const Arch& arch) {
  return arch.shared_bytes / (2 * 8 * acc_bytes(p.in.dtype));
}

inline void configure_groups(const Box& p, const Arch& arch, Plan& plan) {
  constexpr int64_t kTile = 256;
  const int64_t most = group_columns(p, arch) - p.kw + 1;
  const bool wide = most < 32;
  const int64_t tile = wide ? 32 : std::min({kTile, most, round_up(std::max<int64_t>(p.out.w, 1), 32)});
  const int size = acc_bytes(p.in.dtype);
  plan.why = "sums of 8 rows of windows at a time: any window";
  plan.tile_w = int(tile);
  plan.tile_h = 8;
  plan.threads = kGroupThreads;
  plan.shared_bytes = wide ? 8 * kGroupThreads * size : int(2 * 8 * (tile + p.kw - 1) * size);
  plan.blocks = p.out.n * p.out.c * ceil_div(p.out.w, tile) * ceil_div(p.out.h + group_phase(p), 8);
  plan.kernels = {
      kernel_of("box/kernel_groups.cuh", wide ? "box::box_groups_wide" : "box::box_groups", {p.in.dtype, sum_type(p)})};
  plan.config = Config{.finish = float_finish_of(p.place)};
}

inline GroupArgs group_args(const Box& p, const Plan& plan) {
  const bool wide = p.in.dtype == Dtype::f64;
  const Reciprocal<double> precise = reciprocal<double>(p.kh * p.kw);
  const Reciprocal<float> rough = reciprocal<float>(p.kh * p.kw);
  const int phase = group_phase(p);
  return {.in = p.in,
          .out = p.out,
          .work = plan.blocks,
          .kh = int(p.kh),
          .kw = int(p.kw),
          .pad_y = int(p.place.pad_y),
          .pad_x = int(p.place.pad_x),
          .tile_w = plan.tile_w,
          .tiles = int(ceil_div(p.out.w, plan.tile_w)),
          .groups = int(ceil_div(p.out.h + phase, kGroup)),
          .phase = phase,
          .mean = p.scale != 1,
          .outside = p.place.border == Border::constant ? p.place.value : 0,
          .area = wide ? precise : Reciprocal<double>{rough.hi, rough.lo},
          .border = p.place.border,
          .finish = float_finish_of(p.place)};
}

// ---- STRIPS: the same for rows that lie side by side ---------------------------------------------------------------

struct StripShape {
  Above above;
  int number;  // kh, or the rows of a rest: the kernel's argument
  int stages, blocks, shift, lanes;
  int64_t tile_w, tile_h;
  int shared_bytes;
};

// Columns of the widest strip's outputs.
inline int64_t widest_strip(const Box& p, int shift) { return (kStripColumns - (p.kw - 1) - shift) / 32 * 32; }

inline int strip_lanes(const Box& p, int64_t tile_w, int shift) {
  return int(std::min<int64_t>(32 * kColumnWarps, round_up(ceil_div(tile_w + p.kw - 1 + shift, 4), 8)));
}

inline int64_t strip_bytes(const Box& p, const StripShape& s) {
  const int size = size_of(p.in.dtype);
  int64_t ring = 0;
  if (s.above == Above::ring || s.above == Above::reread) ring = s.blocks;
  if (s.above == Above::ring && s.number > 0) ring += s.blocks + 1;
  const int64_t raw = size == 4 ? 0 : int64_t(s.stages) * kGroup * 32 * kColumnWarps * 4 * size;
  return int64_t(v_stages(size, s.stages)) * kStageBytes + kStripSlack + raw + ring * s.lanes * 16;
}

// The cut whose busiest multiprocessor has the least to do: batches of 8 rows, of which those that start a segment are
// cheaper, in strips whose halo is read twice.
inline void cut_strips(const Box& p, const Arch& arch, StripShape& s) {
  const int64_t planes = p.out.n * p.out.c, rows = p.out.h + group_phase(p), widest = widest_strip(p, s.shift);
  const int64_t fewest = ceil_div(p.out.w, widest);
  const int start = s.above == Above::chain ? 1 : s.above == Above::kept ? 2 : s.blocks + 1;
  double best = 0;
  for (int64_t tiles = fewest; tiles < fewest + 3; ++tiles) {
    const int64_t tile_w = std::min(p.out.w, round_up(ceil_div(p.out.w, tiles), 32));
    const double columns = double(tile_w + p.kw - 1) / kStripColumns;
    for (int64_t segments = 1; segments <= ceil_div(rows, kGroup); ++segments) {
      const int64_t tile_h = round_up(ceil_div(rows, segments), kGroup);
      const int64_t blocks = planes * ceil_div(p.out.w, tile_w) * ceil_div(rows, tile_h);
      const int64_t waves = ceil_div(blocks, arch.multiprocessors);
      if (segments > 1 && waves > 8) break;
      const double cost = double(waves) * (double(tile_h / kGroup) + 0.5 * start + 2) * (0.35 + 0.65 * columns);
      if (best == 0 || cost < best) best = cost, s.tile_w = tile_w, s.tile_h = tile_h;
    }
  }
  s.lanes = strip_lanes(p, s.tile_w, s.shift);
}

inline StripShape strip_shape(const Box& p, const Arch& arch) {
  StripShape s{};
  s.shift = int((4 - p.place.pad_x % 4) % 4);
  s.shift = s.shift >= 4 ? s.shift - 4 : s.shift;
  const bool short_window = p.kh <= 2 * kGroup;
  s.above = one_chain(p.kh) ? Above::chain : short_window ? Above::kept : Above::ring;
  s.number = short_window ? int(p.kh) : int(rest_of(p.kh));
  s.blocks = short_window ? 0 : int(blocks_of(p.kh));
  s.stages = short_window ? 4 : 2;
  cut_strips(p, arch, s);
  const auto fits = [&] { return strip_bytes(p, s) <= arch.shared_bytes; };
  while (!fits() && s.stages > 2) --s.stages;
  if (!fits() && s.above == Above::ring && s.number > 0) s.above = Above::reread, s.stages = 3;
  if (!fits()) s.stages = 2;
  s.shared_bytes = int(std::min<int64_t>(strip_bytes(p, s), INT_MAX));
  return s;
}

inline const char* strips_refusal(const Box& p, const Arch& arch) {
  if (const char* no = groups_refusal(p, arch)) return no;
  const auto served = [](Dtype d) { return d == Dtype::f32 || is_half(d); };
  if (!served(p.in.dtype) || !served(p.out.dtype) || size_of(p.out.dtype) < size_of(p.in.dtype) ||
      (is_half(p.out.dtype) && p.out.dtype != p.in.dtype))
    return "it adds up 16- and 32-bit floats, for results of their dtype or float32";
  if (p.out.n * p.out.c * p.out.h * p.out.w == 0) return "nothing to compute";
  if (p.in.stride_w != 1 || p.out.stride_w != 1) return "the pixels of a row do not lie side by side";
  if (!rows_start_on(p.in, 4 * size_of(p.in.dtype)) || !rows_start_on(p.out, 4 * size_of(p.out.dtype)))
    return "rows do not start on whole vectors";
  if (arch.major < 8) return "it needs asynchronous copies";
  if (p.kw > kStripColumns / 2) return "windows this wide leave a strip few outputs";
  if (p.place.border == Border::constant && !holds(p.in.dtype, p.place.value))
    return "the constant outside is no number of the image's dtype";
  if (p.kh > 1024) return "windows this tall leave no shared memory";
  const StripShape s = strip_shape(p, arch);
  if (s.shared_bytes > arch.shared_bytes) return "windows this tall leave no shared memory";
  if (p.out.n * p.out.c * ceil_div(p.out.w, s.tile_w) * ceil_div(p.out.h + group_phase(p), s.tile_h) > INT_MAX)
    return "too many blocks";
  return nullptr;
}

inline const char* name_of(Above above) {
  switch (above) {
    case Above::chain: return "box::Above::chain";
    case Above::kept: return "box::Above::kept";
    case Above::ring: return "box::Above::ring";
    case Above::reread: return "box::Above::reread";
  }
  __builtin_unreachable();
}

inline void configure_strips(const Box& p, const Arch& arch, Plan& plan) {
  const StripShape s = strip_shape(p, arch);
  plan.why = "column sums and row sums by warps of their own, in strips";
  plan.tile_w = int(s.tile_w);
  plan.tile_h = int(s.tile_h);
  plan.threads = kStripThreads;
  plan.shared_bytes = s.shared_bytes;
  plan.blocks = p.out.n * p.out.c * ceil_div(p.out.w, s.tile_w) * ceil_div(p.out.h + group_phase(p), s.tile_h);
  // What enters stays in L2 until it leaves, as long as it fits there. float32 8192^2 on one NVIDIA H200, without /
  // with: 15x15 166 / 153 us (the windows in registers), 31x31 188 / 152 in a prototype, 200x200 284 / 296.
  const bool policies = p.kh < 100;
  plan.kernels = {kernel_of("box/kernel_strips.cuh", "box::box_strips",
                            {p.in.dtype, p.out.dtype, name_of(s.above), s.number, int(p.kw), s.shift, s.stages,
                             policies, float_finish_of(p.place) != Finish::scale})};
  plan.config = s;
}

inline StripArgs strip_args(const Box& p, const Plan& plan, const StripShape& s) {
  const Reciprocal<float> area =
      p.scale != 1 ? reciprocal<float>(p.kh * p.kw) : Reciprocal<float>{1, std::numeric_limits<float>::denorm_min()};
  const int phase = group_phase(p);
  return {.in = p.in.data,
          .out = p.out.data,
          .in_stride_n = p.in.stride_n,
          .in_stride_c = p.in.stride_c,
          .in_stride_h = p.in.stride_h,
          .out_stride_n = p.out.stride_n,
          .out_stride_c = p.out.stride_c,
          .out_stride_h = p.out.stride_h,
          .channels = int(p.out.c),
          .in_h = int(p.in.h),
          .in_w = int(p.in.w),
          .out_h = int(p.out.h),
          .out_w = int(p.out.w),
          .kh = int(p.kh),
          .kw = int(p.kw),
          .pad_y = int(p.place.pad_y),
          .pad_x = int(p.place.pad_x),
          .shift = s.shift,
          .tile_w = plan.tile_w,
          .tile_h = plan.tile_h,
          .tiles = int(ceil_div(p.out.w, plan.tile_w)),
          .segments = int(ceil_div(p.out.h + phase, plan.tile_h)),
          .phase = phase,
          .blocks = s.blocks,
          .lanes = s.lanes,
          .area_hi = area.hi,
          .area_lo = area.lo,
          .outside = p.place.border == Border::constant ? p.place.value : 0,
          .border = p.place.border,
          .finish = float_finish_of(p.place)};
}

// ---- MARCH: a block owns a strip of rows and marches down it with running column sums -----------------------------

// Threads for a tile of tile_w outputs: their windows, up to a vector of misalignment, and the column past the last
// window, where its exclusive prefix stands.
constexpr int64_t march_threads(int64_t tile_w, int64_t kw, int element_bytes) {
  const int v = columns_per_thread(element_bytes);
  return round_up(ceil_div(tile_w + kw + v - 1, v), 32);
}

// The widest block that the machine takes, 0 if none.
inline int widest_block(const Arch& arch, int element_bytes, int sum_bytes) {
  int threads = kMaxThreads;
  while (threads > 0 && march_shape(threads, element_bytes, sum_bytes).shared_bytes() > arch.shared_bytes)
    threads -= 32;
  return threads;
}

// Columns of the widest tile of outputs, less than 1 if none fits.
inline int64_t widest_tile(const Box& p, const Arch& arch) {
  const int size = size_of(p.in.dtype), v = columns_per_thread(size);
  const int64_t columns = int64_t(widest_block(arch, size, sum_bytes(p))) * v - p.kw - v + 1;
  return columns > 32 ? columns / 32 * 32 : columns;  // tiles of whole warp stores
}

inline const char* march_refusal(const Box& p, const Arch& arch) {
  if (const char* no = size_refusal(p)) return no;
  if (!is_integer(p.in.dtype)) return kOnlyIntegers;
  if (p.out.n * p.out.c * p.out.h * p.out.w == 0) return "nothing to compute";
  return widest_tile(p, arch) < std::min<int64_t>(p.out.w, 32) ? "a window wider than the column sums of one block"
                                                               : nullptr;
}

struct MarchTiles {
  int64_t tile_w = 0, strip_h = 0;
};

// Column tiles read the horizontal halo again, strips read a whole window to start, and both together must fill the
// machine evenly: takes the cut whose busiest multiprocessor reads the fewest elements.
inline MarchTiles march_tiles(const Box& p, const Arch& arch) {
  // A multiprocessor with fewer columns in flight than this waits for memory and barriers instead of reading. H200,
  // k=200, widths 1024 / 1376 of 8192^2: float32 258 / 273 us, uint8 213 / 197; 960 / 640 of 1080p: uint8 355 / 399.
  const int64_t busy_columns = size_of(p.in.dtype) < 4 ? 1320 : 1152;
  constexpr int64_t kStartRows = 40;  // a block's launch, fill and drain, in rows of reading
  const int size = size_of(p.in.dtype), sum = sum_bytes(p);
  const int64_t planes = p.out.n * p.out.c, width = p.out.w, height = p.out.h;
  const int64_t widest = widest_tile(p, arch);
  MarchTiles best;
  double best_cost = 0;
  const int64_t first = ceil_div(width, widest);
  for (int64_t tiles = first; tiles < first + 8; ++tiles) {
    const int64_t tile_w = std::min({width, widest, round_up(ceil_div(width, tiles), 32)});
    const int64_t across = ceil_div(width, tile_w);
    const MarchShape shape = march_shape(int(march_threads(tile_w, p.kw, size)), size, sum);
    const int64_t resident = std::min(kMaxThreads / shape.threads, arch.shared_bytes / shape.shared_bytes());
    for (int per_sm = 1; per_sm <= 8; ++per_sm) {
      const int64_t wanted = std::max<int64_t>(1, per_sm * arch.multiprocessors / (across * planes));
      const int64_t strip_h = std::min(height, round_up(ceil_div(height, wanted), kChunkRows));
      const int64_t share = ceil_div(across * planes * ceil_div(height, strip_h), arch.multiprocessors);
      const int64_t together = std::min(share, resident);
      const double cost = double(ceil_div(share, together)) * double(2 * strip_h + p.kh + kStartRows) *
                          double(std::max(together * shape.columns, busy_columns));
      if (best.tile_w == 0 || cost < best_cost) {
        best = {tile_w, strip_h};
        best_cost = cost;
      }
    }
  }
  return best;
}

inline int shared_bytes_without_carry(const Box& p, int threads) {
  return march_shape(threads, size_of(p.in.dtype), sum_bytes(p)).shared_bytes();
}

// Shared memory of a planned march. Blocks whose border repeats columns get a buffer to carry column sums over, which
// saves a barrier a chunk, unless it would cost a block that the grid could keep resident.
inline int march_shared_bytes(const Box& p, const Arch& arch, int threads, int64_t blocks) {
  const Border border = p.place.border;
  const int without = shared_bytes_without_carry(p, threads);
  const int with = without + kChunkRows * threads * columns_per_thread(size_of(p.in.dtype)) * sum_bytes(p);
  const bool mirrors = border == Border::replicate || border == Border::reflect || border == Border::symmetric;
  auto resident = [&](int bytes) { return std::min<int64_t>(kMaxThreads / threads, arch.shared_bytes / bytes); };
  const bool free = resident(with) == resident(without) || blocks <= arch.multiprocessors * resident(with);
  return mirrors && with <= arch.shared_bytes && free ? with : without;
}

// Dense rows of the input's dtype with nothing but a scale have kernels of their own. 64-bit integer sums are rare
// (large windows, or float64 results): not worth one.
inline bool dense_and_scaled(const Box& p) {
  const bool sums = !is_integer(p.in.dtype) || sum_bytes(p) == 4;
  return sums && p.out.dtype == p.in.dtype && p.out.stride_w == 1 && finish_of(p.place) == Finish::scale;
}

inline void configure_march(const Box& p, const Arch& arch, Plan& plan) {
  const MarchTiles tiles = march_tiles(p, arch);
  plan.why = "running column sums: the cost does not grow with the window";
  plan.tile_w = int(tiles.tile_w);
  plan.tile_h = int(tiles.strip_h);
  plan.threads = int(march_threads(tiles.tile_w, p.kw, size_of(p.in.dtype)));
  plan.blocks = p.out.n * p.out.c * ceil_div(p.out.w, tiles.tile_w) * ceil_div(p.out.h, tiles.strip_h);
  plan.shared_bytes = march_shared_bytes(p, arch, plan.threads, plan.blocks);
  const auto kernel = [&](const char* out) {
    return kernel_of("box/kernel_march.cuh", "box::box_march", {p.in.dtype, sum_type(p), out});
  };
  const Kernel every = kernel("void");
  plan.kernels = {dense_and_scaled(p) ? first_offered(arch, kernel(type_name(p.out.dtype)), every) : every};
  plan.config =
      Config{.finish = finish_of(p.place), .carry = plan.shared_bytes > shared_bytes_without_carry(p, plan.threads)};
}

// ---- PLAIN: fresh sums for every row, any window ------------------------------------------------------------------

inline const char* plain_refusal(const Box& p, const Arch&) {
  return is_integer(p.in.dtype) ? size_refusal(p) : kOnlyIntegers;
}

inline void configure_plain(const Box& p, const Arch&, Plan& plan) {
  plan.why = "sums of their own for every row: any window";
  plan.tile_w = kPlainThreads;
  plan.tile_h = 1;
  plan.threads = kPlainThreads;
  plan.shared_bytes = kPlainThreads * 8;
  plan.blocks = p.out.n * p.out.c * ceil_div(p.out.w, kPlainThreads) * p.out.h;
  plan.kernels = {kernel_of("box/kernel_plain.cuh", "box::box_plain", {p.in.dtype, sum_type(p)})};
  plan.config = Config{.finish = finish_of(p.place)};
}

constexpr Candidate<Box> kCandidates[] = {
    {"march", march_refusal, nullptr, configure_march},
    {"plain", plain_refusal, nullptr, configure_plain},
    {"strips", strips_refusal, nullptr, configure_strips},
    {"groups", groups_refusal, nullptr, configure_groups},
};

inline Plan plan(const Box& p, const Arch& arch, const char* pinned) {
  const double outputs = double(p.out.n * p.out.c * p.out.h * p.out.w);
  return choose(
      kCandidates, p, arch, pinned,
      {.algorithm = "box",
       .bytes = double(p.in.n * p.in.c * p.in.h * p.in.w) * size_of(p.in.dtype) + outputs * size_of(p.out.dtype),
       // A row enters and leaves, then one difference of prefix sums.
       .flops = 4.0 * outputs});
}

}  // namespace torch_conv::box
