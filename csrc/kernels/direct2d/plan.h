// Direct + Arch -> Plan: which kernel serves the problem, and with which tile. Pure.
#pragma once

#include "core/refusals.h"
#include "kernels/direct2d/channels/plan.h"
#include "kernels/direct2d/params.h"
#include "kernels/direct2d/products/plan.h"
#include "kernels/direct2d/tile/plan.h"
#include "kernels/families.h"

namespace torch_conv::direct2d {

enum class Variant : int8_t { reg, products, tile, channels, column, window, general };

// What launches need besides the plan.
struct Config {
  Variant variant;
  int lead = 0;     // columns that the grid of tiles starts left of the output
  int overlap = 0;  // columns that two tiles side by side both make
  TileKind tile{};
  ChannelShape channels{};
  WindowShape window{};
};

inline bool other_shards_fit(const Direct& p) { return !p.beside.any() || p.beside.same_columns(p.in); }

// ---- COLUMN ----------------------------------------------------------------------------------------------------

inline const char* column_refusal(const Direct& p, const Arch&) {
  const Direct column = flattened(p);
  const Placement& s = column.place;
  if (column.kw != 1 || column.kh < 2) return "a window wider than 1";
  if (p.beside.any()) return "reads no other shards";
  if (!p.place.unit_steps_of_images()) return "stride or dilation";
  if (s.pad_x != 0 || column.out.w > column.in.w) return "columns outside the image";
  if (s.border == Border::skip) return "border 'skip'";
  if (column.in.stride_w != 1 || column.out.stride_w != 1) return "pixels of a row do not lie side by side";
  if (column.in.c != column.groups) return "sums over channels";
  if (!below(kMostSide, {column.in.h, column.in.w, column.out.h, column.kh, s.pad_y + column.kh}))
    return "2^30 rows or columns";
  const bool offsets = column.in.stride_h >= 0 && column.in.stride_h * size_of(column.in.dtype) < (int64_t(1) << 32);
  return offsets ? nullptr : "rows 4 GiB apart";
}

// Columns of one thread: as many as one load and one store take, where both are aligned.
inline int column_pixels(const Direct& column) {
  const int n = column.in.dtype == Dtype::f64 ? 2 : 4;
  auto aligned = [&](const Image& x) { return rows_start_on(x, n * size_of(x.dtype)); };
  return column.out.w % n == 0 && aligned(column.in) && aligned(column.out) ? n : 1;
}

// Tall blocks share halos in L1; small images rather fill the machine.
inline int column_warps(const Direct& column, int tile_w, const Arch& arch) {
  const int64_t stacks = column.out.n * column.out.c * ceil_div(column.out.w, tile_w);
  auto blocks = [&](int warps) { return stacks * ceil_div(column.out.h, warps * kColumnRows); };
  int warps = kColumnWarps;
  while (warps > 1 && (warps / 2 * kColumnRows >= column.out.h || blocks(warps) < 4 * arch.multiprocessors)) warps /= 2;
  return warps;
}

inline void configure_column(const Direct& p, const Arch& arch, Plan& plan) {
  const Direct column = flattened(p);
  const int pixels = column_pixels(column);
  const bool any = pixels == 1 || p.in.dtype != p.out.dtype;
  // All rows under a window of float32 are loaded before the first is used.
  const bool fixed = !any && p.in.dtype == Dtype::f32 && p.kh <= 15;
  plan.why = "width 1: rows pass through registers";
  plan.tile_w = 32 * pixels;
  plan.threads = 32 * column_warps(column, plan.tile_w, arch);
  plan.tile_h = plan.threads / 32 * kColumnRows;
  plan.blocks = column.out.n * column.out.c * ceil_div(column.out.h, plan.tile_h) * ceil_div(column.out.w, plan.tile_w);
  plan.kernels = {kernel_of("kernels/direct2d/column/kernel.cuh", "direct2d::direct2d_column",
                            {p.in.dtype, pixels, any, fixed ? int(p.kh) : 0})};
  plan.config = Config{.variant = Variant::column};
}

// ---- REG and TILE ----------------------------------------------------------------------------------------------

inline const char* column_is_faster(const Direct& p, const Arch& arch) {
  return column_refusal(p, arch) ? nullptr : "column is faster";
}

inline void configure_tile(const Direct& p, const TileKind& kind, Plan& plan) {
  const Direct q = tile_image(p, kind);
  const TileWindow w = tile_window(q, kind);
  const TileShape shape = tile_shape(q, kind);
  const Config config{
      .variant = Variant::tile, .lead = kind.bulk ? lead_columns(q) : 0, .overlap = shape.overlap, .tile = kind};
  plan.why = kind.group  ? "many channels side by side: groups of them are images of their own"
             : kind.own  ? "a window for each of a few channels side by side: taps are the same for all lanes"
             : kind.bulk ? "window up to 31x31: one bulk copy brings tile and halo"
                         : "window up to 31x31, copies of words: no bulk copies, or rows not 16-byte aligned";
  plan.tile_w = shape.width();
  plan.tile_h = shape.height();
  plan.threads = 32 * TileShape::warps;
  plan.shared_bytes = shape.shared_bytes(size_of(q.in.dtype), size_of(q.out.dtype), w);
  plan.blocks = q.out.n * q.out.c * ceil_div(q.out.h, plan.tile_h) *
                tiles_across(q.out.w + config.lead, plan.tile_w, config.overlap);
  plan.kernels = {kernel_of("kernels/direct2d/tile/kernel.cuh", "direct2d::direct2d_tile",
                            {q.in.dtype, q.out.dtype, w.kh, w.kw, w.step_y, w.step_x, w.stride, kind.bulk,
                             stores_aligned(q, kind), q.bias != nullptr, kind.group > 0, kind.own})};
  plan.config = config;
}
inline void configure_tile_tma(const Direct& p, const Arch&, Plan& plan) { configure_tile(p, {.bulk = true}, plan); }
inline void configure_tile_plain(const Direct& p, const Arch&, Plan& plan) { configure_tile(p, {}, plan); }
inline void configure_tile_groups(const Direct& p, const Arch&, Plan& plan) {
  configure_tile(p, tile_groups_kind(p, channel_group(p)), plan);
}
inline void configure_tile_own(const Direct& p, const Arch& arch, Plan& plan) {
  configure_tile(p, tile_own_kind(p, arch), plan);
}

// What a launch hands over. `flat`: the problem `p` as rows of columns.
inline PlaneArgs plane_args(const Direct& p, const Direct& flat, const Plan& plan, const Config& config) {
  const Placement& s = flat.place;
  return {.planes = PlaneGeometry::of(flat.in, flat.out),
          .order = TileOrder::of(tiles_across(flat.out.w + config.lead, plan.tile_w, config.overlap),
                                 ceil_div(flat.out.h, plan.tile_h), flat.out.c),
          .lead = config.lead,
          .multiplier = unsigned(flat.out.c / flat.groups),
          .shift_y = int(middle_of(int(flat.kh)) * s.dilation_y - s.pad_y),
          .shift_x = int(middle_of(int(flat.kw)) * s.dilation_x - s.pad_x),
          .channels = int(p.in.c / flat.in.c),
          .in_pixel = int(p.in.stride_w),
          .out_pixel = int(p.out.stride_w),
          .border = s.border,
          .value = float(s.value),
          .taps_n = flat.taps.stride_n,
          .taps_c = flat.taps.stride_c,
          .bias = static_cast<const float*>(flat.bias),
          .beside = Neighbours::of(flat.beside, flat.in)};
}

inline const char* reg_refusal(const Direct& p, const Arch&) {
  const int bytes = size_of(p.in.dtype);
  if (const char* no = planar_refusal(p)) return no;
  if (bytes == 1) return "uint8";
  if (p.kh != p.kw || !(p.kh == 3 || (p.kh == 5 && bytes == 4))) return "no 3x3, and no 5x5 of float32";
  if (p.place.pad_x != p.kw / 2) return "a window off the middle";
  return aligned_rows(p.in) && aligned_rows(p.out) ? nullptr : "rows not 16-byte aligned";
}

// float32 3x3: REG 97 % of copy, TILE 94 %; 5x5: TILE 90 %, REG 86 %; float16 3x3: TILE 82 %, REG 67 % (4096^2,
// reflect, one NVIDIA H200). Without bulk copies REG serves all it can (TILE by copies of words, of rows that are
// aligned, was not measured beside it).
inline const char* reg_loses(const Direct& p, const Arch& arch) {
  const bool prefer = p.kh == 3 && size_of(p.in.dtype) == 4;
  return prefer || tile_tma_refusal(p, arch) ? nullptr : "tile_tma is faster";
}

inline void configure_reg(const Direct& p, const Arch&, Plan& plan) {
  const int bytes = size_of(p.in.dtype), k = int(p.kh);
  plan.why = "small odd window, aligned rows: every row load in flight, neighbours by shuffle";
  plan.tile_w = 30 * 16 / bytes;
  plan.tile_h = kRegWarps * reg_rows(bytes, k);
  plan.threads = 32 * kRegWarps;
  plan.blocks = p.out.n * p.out.c * ceil_div(p.out.h, plan.tile_h) * ceil_div(p.out.w, plan.tile_w);
  plan.kernels = {
      kernel_of("kernels/direct2d/reg/kernel.cuh", "direct2d::direct2d_reg", {p.in.dtype, k, p.bias != nullptr})};
  plan.config = Config{.variant = Variant::reg};
}

// ---- CHANNELS (plan_channels.h) --------------------------------------------------------------------------------

inline void configure_channels(const Direct& p, const Arch& arch, Plan& plan) {
  plan.config = Config{.variant = Variant::channels, .channels = fill_channels(p, arch, plan)};
}

// ---- PRODUCTS (plan_products.h) --------------------------------------------------------------------------------

inline void configure_products(const Direct& p, const Arch&, Plan& plan) {
  fill_products(p, plan);
  plan.config = Config{.variant = Variant::products};
}

// ---- WINDOW ----------------------------------------------------------------------------------------------------

inline WindowShape window_shape(const Direct& p) {
  WindowShape s{.pitch = ceil_div(kWindowColumns + p.kw + 3, 4) * 4,
                .rows = kWindowWarps * kWindowRows + p.kh - 1,
                .tap_pitch = ceil_div(p.kw, 4) * 4};
  s.bytes = (s.pitch * s.rows + s.tap_pitch * p.kh) * acc_bytes(p.in.dtype);
  return s;
}

inline const char* window_refusal(const Direct& p, const Arch& arch) {
  if (!p.place.unit_steps_of_images()) return "stride or dilation";
  if (p.place.border == Border::skip) return "border 'skip'";
  if (p.kh > 512 || p.kw > 512 || window_shape(p).bytes > arch.shared_bytes) return "a window beyond shared memory";
  if (!below(kMostSide, {p.in.w, p.in.h, p.out.w, p.out.h})) return "2^30 rows or columns";
  return other_shards_fit(p) ? nullptr : "shards of another layout";
}

inline void configure_window(const Direct& p, const Arch&, Plan& plan) {
  const Config config{.variant = Variant::window, .window = window_shape(p)};
  plan.why = "stride and dilation 1: tile and taps in shared memory";
  plan.tile_w = kWindowColumns;
  plan.tile_h = kWindowWarps * kWindowRows;
  plan.threads = 32 * kWindowWarps;
  plan.shared_bytes = int(config.window.bytes);
  plan.blocks = p.out.n * p.out.c * ceil_div(p.out.h, plan.tile_h) * ceil_div(p.out.w, plan.tile_w);
  plan.kernels = {kernel_of("kernels/direct2d/window/kernel.cuh", "direct2d::direct2d_window", {p.in.dtype})};
  plan.config = config;
}

// ---- GENERAL ---------------------------------------------------------------------------------------------------

inline const char* general_refusal(const Direct& p, const Arch&) {
  return other_shards_fit(p) ? nullptr : "shards of another layout";
}

inline void configure_general(const Direct& p, const Arch&, Plan& plan) {
  plan.why = "any window, stride, dilation, dtype pair and layout";
  plan.tile_w = 4;
  plan.tile_h = 1;
  plan.threads = 256;
  plan.blocks = ceil_div(p.out.n * p.out.c * p.out.h * ceil_div(p.out.w, 4), plan.threads);
  plan.kernels = {kernel_of("kernels/direct2d/general/kernel.cuh", "direct2d::direct2d_general", {p.in.dtype})};
  plan.config = Config{.variant = Variant::general};
}

constexpr Candidate<Direct> kCandidates[] = {
    {"reg", reg_refusal, reg_loses, configure_reg},
    {"products", products_refusal, products_lose, configure_products},
    {"tile_groups", tile_groups_refusal, tile_groups_lose, configure_tile_groups},
    {"tile_own", tile_own_refusal, tile_own_loses, configure_tile_own},
    {"tile_tma", tile_tma_refusal, column_is_faster, configure_tile_tma},
    {"tile", tile_plain_refusal, column_is_faster, configure_tile_plain},
    {"channels", channels_refusal, column_is_faster, configure_channels},
    {"column", column_refusal, nullptr, configure_column},
    {"window", window_refusal, nullptr, configure_window},
    {"general", general_refusal, nullptr, configure_general},
};

inline Plan plan(const Direct& p, const Arch& arch, const char* pinned) {
  const double outputs = double(p.out.n * p.out.c) * double(p.out.h * p.out.w);
  // Narrow taps are read by PRODUCTS only.
  const char* slow = p.taps.narrow && p.sums == Sums::any ? products_lose(p, arch) : nullptr;
  if (slow) return {.algorithm = "direct", .why = slow};
  if (p.sums == Sums::products || p.taps.narrow) {
    if (*pinned && std::strcmp(pinned, "products") != 0) return {.algorithm = "direct"};
    pinned = "products";
  }
  return choose(kCandidates, p, arch, pinned,
                {.algorithm = "direct",
                 .bytes = double(p.in.n * p.in.c) * double(p.in.h * p.in.w) * size_of(p.in.dtype) +
                          outputs * size_of(p.out.dtype),
                 .flops = 2.0 * double(p.kh * p.kw * (p.in.c / p.groups)) * outputs});
}

}  // namespace torch_conv::direct2d
