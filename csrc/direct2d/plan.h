// Direct + Arch -> Plan: which kernel serves the problem, and with which tile. Pure.
#pragma once

#include "core/refusals.h"
#include "core/rooms.h"
#include "direct2d/params.h"
#include "direct2d/plan_channels.h"
#include "direct2d/plan_products.h"

namespace torch_conv::direct2d {

enum class Variant : int8_t { reg, products, tile, channels, column, window, general };

// Which of TILE's kernels.
struct TileKind {
  bool bulk = false;  // boxes by bulk copies
  int group = 0;      // channels that make an image of their own
  int own = 0;        // channels that have a window each
};

// What launches need besides the plan.
struct Config {
  Variant variant;
  int lead = 0;  // columns that the grid of tiles starts left of the output
  TileKind tile{};
  ChannelShape channels{};
  WindowShape window{};
};

inline bool other_shards_fit(const Direct& p) { return !p.beside.any() || p.beside.same_columns(p.in); }

// Channels that lie side by side are columns of their own: rows of w * c values, whose taps lie c values apart. Shards
// stay as they are.
inline bool channels_as_columns(const Direct& p) {
  const auto interleaved = [](const Image& x) { return x.stride_c == 1 && x.stride_w == x.c; };
  return p.in.c > 1 && p.in.c == p.out.c && p.groups == p.in.c && !p.bias && p.place.stride_x == 1 && !p.beside.any() &&
         interleaved(p.in) && interleaved(p.out);
}

// Those that the same window filters; windows of samples may differ.
inline int64_t flat_channels(const Direct& p) { return channels_as_columns(p) && p.taps.stride_c == 0 ? p.in.c : 1; }

// `channels` of every pixel as columns of one image; the others are more such images.
inline Direct side_by_side(const Direct& p, int64_t channels) {
  Direct q = p;
  if (channels == 1) return q;
  q.in.w *= channels, q.out.w *= channels;
  q.place.pad_x *= channels, q.place.dilation_x *= channels;
  q.in.c = q.out.c = q.groups = p.in.c / channels;
  q.in.stride_c = q.out.stride_c = channels;
  q.in.stride_w = q.out.stride_w = 1;
  return q;
}

inline Direct flattened(const Direct& p) { return side_by_side(p, flat_channels(p)); }

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
  plan.kernels = {kernel_of("direct2d/kernel_column.cuh", "direct2d::direct2d_column",
                            {p.in.dtype, pixels, any, fixed ? int(p.kh) : 0})};
  plan.config = Config{.variant = Variant::column};
}

// ---- REG and TILE ----------------------------------------------------------------------------------------------

inline const char* column_is_faster(const Direct& p, const Arch& arch) {
  return column_refusal(p, arch) ? nullptr : "column is faster";
}

inline TileWindow tile_window(const Direct& flat, const TileKind& kind) {
  const Placement& s = flat.place;
  const bool words = kind.own && kind.group;
  return {int(flat.kh), int(flat.kw), int(s.dilation_y), int(s.dilation_x), int(s.stride_x), kind.own, words};
}

// Bulk copies start on 16 bytes.
inline int lead_columns(const Direct& flat) {
  return tma::lead_columns(tile_window(flat, {}).left(), flat.place.pad_x, 16 / size_of(flat.in.dtype));
}

// Does a lane store words of 16 bytes straight from its registers? Its columns lie side by side then, which costs
// 4-byte values that come from anywhere more than the store saves.
inline bool stores_aligned(const Direct& flat, const TileKind& kind) {
  const bool narrow = size_of(flat.in.dtype) < 4 && !kind.own;
  return aligned_rows(flat.out) && (kind.bulk ? lead_columns(flat) == 0 : narrow);
}

inline TileShape tile_shape(const Direct& flat, const TileKind& kind) {
  return tile_shape(size_of(flat.in.dtype), size_of(flat.out.dtype), tile_window(flat, kind), kind.bulk,
                    stores_aligned(flat, kind));
}

inline const char* tile_refusal(const Direct& q, const Arch& arch, const TileKind& kind) {
  if (q.kh > kTileMost || q.kw > kTileMost) return "a window beyond 31x31";
  const Placement& s = q.place;
  if (q.in.dtype == Dtype::f64 || q.out.dtype == Dtype::f64) return "float64";
  if (s.stride_y != s.stride_x || s.stride_x > 2) return "a stride other than 1x1 and 2x2";
  if (kind.bulk && s.stride_x > 1 && lead_columns(q) > 0) return "strided windows that start off 16 bytes";
  const int64_t halo_rows = s.dilation_y * (q.kh - 1), halo_values = s.dilation_x * (q.kw - 1);
  if (halo_rows >= kMostHaloRows || halo_values >= kMostHaloValues) return "taps too far apart";
  if (const char* no = rows_refusal(q.in, q.out, s, q.beside)) return no;
  if (!below(kMostSide, {q.in.w * size_of(q.in.dtype)})) return "rows of 2^30 bytes";
  if (q.in.c != q.groups) return "sums over channels";
  const TileWindow w = tile_window(q, kind);
  const int columns = w.left() + w.right() + 1;
  const bool touches = near(q.in.h, (q.out.h - 1) * w.stride + 1, w.rows(), s.pad_y) &&
                       near(q.in.w, (q.out.w - 1) * w.stride + 1, columns, s.pad_x);
  if (!touches) return "windows that lie outside the image altogether";
  const TileShape shape = tile_shape(q, kind);
  if (!kind.own && shape.lane_values * size_of(q.out.dtype) < 4) return "lanes that make less than a word";
  const int barrier = kind.bulk ? kBarrierBytes : 0;
  const int bytes = shape.shared_bytes(size_of(q.in.dtype), size_of(q.out.dtype), w) + barrier;
  const bool fits = bytes <= arch.shared_bytes;
  return fits ? nullptr : "a tile beyond shared memory";
}

// A box of a bulk copy has at most 256 words a side.
inline const char* tile_bulk_refusal(const Direct& q, const Arch& arch, const TileKind& kind) {
  if (const char* no = tile_refusal(q, arch, kind)) return no;
  if (const char* no = plane_copy_refusal(q.in, arch)) return no;
  const TileShape shape = tile_shape(q, kind);
  const int rows = shape.box_rows(tile_window(q, kind));
  return shape.columns() <= 256 * tma::pack_of(size_of(q.in.dtype)) && rows <= 256 ? nullptr : "a box beyond 256 words";
}

inline const char* tile_tma_refusal(const Direct& p, const Arch& arch) {
  return tile_bulk_refusal(flattened(p), arch, {.bulk = true});
}

inline const char* tile_plain_refusal(const Direct& p, const Arch& arch) {
  return tile_refusal(flattened(p), arch, {});
}

// A window for each of a few channels that lie side by side.
constexpr int64_t kMostOwn = 4;

inline TileKind tile_own_kind(const Direct& p, const Arch& arch) {
  const int own = int(p.in.c);
  const bool bulk = !tile_bulk_refusal(side_by_side(p, own), arch, {.bulk = true, .own = own});
  return {.bulk = bulk, .own = own};
}

inline const char* tile_own_refusal(const Direct& p, const Arch& arch) {
  if (!channels_as_columns(p) || p.taps.stride_c == 0 || p.in.c > kMostOwn)
    return "no 2 to 4 channels side by side that have a window each";
  if (p.in.dtype == Dtype::f64 || p.out.dtype == Dtype::f64) return "float64";
  if (p.place.stride_y != 1) return "a stride other than 1x1";
  const TileWindow w{int(p.kh), int(p.kw), 1, 1, 1, int(p.in.c)};
  if (by_channels(size_of(p.in.dtype), w) && p.in.dtype != p.out.dtype) return "another output dtype";
  return tile_refusal(side_by_side(p, p.in.c), arch, tile_own_kind(p, arch));
}

// Many channels that lie side by side, as groups of so many whose halos are at most half as large as a tile, or else as
// large; or 0. A group is 32 to 128 bytes of every pixel, whole sectors of memory. 16x512x56x56 on one NVIDIA H200, of
// copy, by groups (by CHANNELS; cuDNN): float32 3x3, 5x5 94 % (82; 65), 84 (54; 27); float16 3x3, 5x5, 7x7 84 (53; 58),
// 53 (30; 42), 22 (16; 15); uint8 3x3, 5x5 48 (20), 24 (14). As they lie, float16 of 64 channels 95 %, by groups 93; of
// 128 89 and 90. With a window for each of 64 channels, 16x64x224x224: float32 3x3, 5x5, 7x7 94 % (79; 74), 76 (31;
// 29), 47 (19; 11); float16 3x3, 5x5 82 (39; 84), 41 (16; 46); uint8 3x3 46 (18).
inline int channel_group(const Direct& p) {
  const auto together = [](const Image& x) { return x.stride_c == 1 && x.stride_w >= x.c; };
  const int in = size_of(p.in.dtype), out = size_of(p.out.dtype);
  const bool own = p.taps.stride_c != 0, alike = p.in.c == p.out.c && p.groups == p.in.c && !p.bias && !p.beside.any();
  if (!alike || !together(p.in) || !together(p.out) || in > 4 || out > 4) return 0;
  if (!p.place.unit_steps_of_images() || p.kh > kTileMost || p.kw > kTileMost || p.kw < 2) return 0;
  if (own && (p.in.dtype != p.out.dtype || p.kh * p.kw * 4 / in > kTapsAtOnce)) return 0;
  const TileWindow w{int(p.kh), int(p.kw), 1, 1, 1, own, own};
  const int tile = 32 * lane_values(in, out, w), least = std::max(32 / in, 16 / out);
  // Lanes with windows of their own share the values of neighbouring pixels where a group is 128 bytes: worth a larger
  // halo where values are narrow (float16 5x5 126 us, so 135; float32 5x5 142, so 130; 16x64x224x224).
  for (int group = 128 / in; group >= least; group /= 2)
    if (p.in.c % group == 0 && (own && in < 4 ? 1 : 2) * (p.kw - 1) * group <= tile) return group;
  return p.in.c % least == 0 && (p.kw - 1) * least <= tile ? least : 0;
}

// Lanes 16 bytes apart read the same banks of shared memory: float32 3x3 63 % of copy, CHANNELS 80 (8x4x1080x1920, one
// NVIDIA H200).
inline const char* tile_own_loses(const Direct& p, const Arch& arch) {
  if (p.in.c == 4 && size_of(p.in.dtype) == 4) return "channels is faster";
  return column_is_faster(p, arch);
}

inline TileKind tile_groups_kind(const Direct& p, int group) {
  return {.bulk = true, .group = group, .own = p.taps.stride_c != 0 ? group : 0};
}

inline const char* tile_groups_refusal(const Direct& p, const Arch& arch) {
  const int group = channel_group(p);
  if (group == 0) return "no groups of channels side by side, or windows beyond a lane's registers";
  if (!arch.bulk_copy) return "no bulk copies";
  if (!tma::channels_possible(p.in) || !tma::channels_possible(p.out)) return "pixels not 16-byte aligned";
  const Direct q = side_by_side(p, group);
  const TileKind kind = tile_groups_kind(p, group);
  if (const char* no = tile_refusal(q, arch, kind)) return no;
  if (!stores_aligned(q, kind)) return "outputs of a group that are no words of 16 bytes";
  if (!below(kMostSide, {p.in.w * p.in.stride_w, p.out.w * p.out.stride_w})) return "rows of 2^30 values";
  const bool box = tile_shape(q, kind).box_rows(tile_window(q, kind)) <= 256;
  return box ? nullptr : "a box beyond 256 rows";
}

// Fewer channels are read in longer pieces as they lie.
inline const char* tile_groups_lose(const Direct& p, const Arch& arch) {
  const bool few = p.in.c <= channel_group(p) && !tile_tma_refusal(p, arch);
  return few ? "rows of few channels are one image" : nullptr;
}

inline void configure_tile(const Direct& q, const TileKind& kind, Plan& plan) {
  const TileWindow w = tile_window(q, kind);
  const TileShape shape = tile_shape(q, kind);
  const Config config{.variant = Variant::tile, .lead = kind.bulk ? lead_columns(q) : 0, .tile = kind};
  plan.why = kind.group  ? "many channels side by side: groups of them are images of their own"
             : kind.own  ? "a window for each of a few channels side by side: taps are the same for all lanes"
             : kind.bulk ? "window up to 31x31: one bulk copy brings tile and halo"
                         : "window up to 31x31, copies of words: no bulk copies, or rows not 16-byte aligned";
  plan.tile_w = shape.width();
  plan.tile_h = shape.height();
  plan.threads = 32 * TileShape::warps;
  plan.shared_bytes = shape.shared_bytes(size_of(q.in.dtype), size_of(q.out.dtype), w);
  plan.blocks = q.out.n * q.out.c * ceil_div(q.out.h, plan.tile_h) * ceil_div(q.out.w + config.lead, plan.tile_w);
  plan.kernels = {kernel_of("direct2d/kernel_tile.cuh", "direct2d::direct2d_tile",
                            {q.in.dtype, q.out.dtype, w.kh, w.kw, w.step_y, w.step_x, w.stride, kind.bulk,
                             stores_aligned(q, kind), q.bias != nullptr, kind.group > 0, kind.own})};
  plan.config = config;
}
inline void configure_tile_tma(const Direct& p, const Arch&, Plan& plan) {
  configure_tile(flattened(p), {.bulk = true}, plan);
}
inline void configure_tile_plain(const Direct& p, const Arch&, Plan& plan) { configure_tile(flattened(p), {}, plan); }
inline void configure_tile_groups(const Direct& p, const Arch&, Plan& plan) {
  const int group = channel_group(p);
  configure_tile(side_by_side(p, group), tile_groups_kind(p, group), plan);
}
inline void configure_tile_own(const Direct& p, const Arch& arch, Plan& plan) {
  configure_tile(side_by_side(p, p.in.c), tile_own_kind(p, arch), plan);
}

// What a launch hands over. `flat`: the problem `p` as rows of columns.
inline PlaneArgs plane_args(const Direct& p, const Direct& flat, const Plan& plan, int lead) {
  const Placement& s = flat.place;
  return {
      .planes = PlaneGeometry::of(flat.in, flat.out),
      .order = TileOrder::of(ceil_div(flat.out.w + lead, plan.tile_w), ceil_div(flat.out.h, plan.tile_h), flat.out.c),
      .lead = lead,
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
  plan.kernels = {kernel_of("direct2d/kernel_reg.cuh", "direct2d::direct2d_reg", {p.in.dtype, k, p.bias != nullptr})};
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
  plan.kernels = {kernel_of("direct2d/kernel_window.cuh", "direct2d::direct2d_window", {p.in.dtype})};
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
  plan.kernels = {kernel_of("direct2d/kernel_general.cuh", "direct2d::direct2d_general", {p.in.dtype})};
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
