// BYTES: sums of bytes in strips, column sums of 16 bits and row sums by warps of their own. Pure.
#pragma once

#include "kernels/box/bytes/params.h"
#include "kernels/box/config.h"

namespace torch_conv::box {

void launch_bytes(const Box& p, const Plan& plan, const Site& site);

struct ByteShape {
  Rounding rounding;
  int shift;
  int64_t tile_w, tile_h;
};

// channels_in_rows of planes and of HWC images of up to 4 channels, of others 0. Columns of HWC images are those of all
// channels, and windows step from one of a channel to its next.
inline int byte_channels(const Box& p) {
  const int64_t channels = channels_in_rows(p);
  return channels <= 4 ? int(channels) : 0;
}

// Columns before a strip's first window, so that it starts on whole vectors of the image and its outputs on whole
// vectors of the result.
inline int byte_shift(const Box& p) { return int(((p.place.pad_x - p.kw + 1) * byte_channels(p) % 8 + 8) % 8); }

// The strip's column that ends the first window: `shift` before a whole chunk, and the window before it is in the
// strip, too.
inline int64_t byte_lead(const Box& p) {
  const int shift = byte_shift(p);
  return round_up(p.kw * byte_channels(p) + shift, 32) - shift;
}

inline int64_t widest_byte_strip(const Box& p) { return kByteColumns - byte_lead(p) - byte_shift(p); }

// The cut whose busiest multiprocessor has the least to do, in batches of 8 rows. A block starts for two batches and a
// fifth of its window's rows, and narrow strips cost more than their share. H200, times by segments, which it takes *:
// k = 15  at 4096^2: 26 24.9 us, 40 22.4, 52* 19.4, 66 26.7, 88 24.6; at 8192^2: 22 68.4, 29* 57.6, 44 69.6, 58 60.1
// k = 200 at 4096^2: 26 52.2 us, 40 38.6, 43* 37.0, 52 46.6; at 8192^2: 22 106.5, 24* 99.4, 44 107.9, 58 106.8
// k = 31 of 48 planes of 1080x1920: 2 103.9 us, 3 119.0, 4 97.1, 5 91.8, 8* 92.7, 11 97.1
inline void cut_byte_strips(const Box& p, const Arch& arch, ByteShape& s) {
  const int channels = byte_channels(p);
  const Image out = as_rows(p.out, channels);
  const int64_t planes = out.n * out.c, fewest = ceil_div(out.w, widest_byte_strip(p));
  const double start = 2 + double(p.kh) / kByteRows * 0.2;
  double best = 0;
  for (int64_t tiles = fewest; tiles < fewest + 2; ++tiles) {
    const int64_t tile_w = round_up(ceil_div(out.w, tiles), 32);
    const double columns = double(std::min(tile_w, out.w) + p.kw * channels) / kByteColumns;
    for (int64_t segments = 1; segments <= ceil_div(p.out.h, kByteRows); ++segments) {
      const int64_t tile_h = round_up(ceil_div(p.out.h, segments), kByteRows);
      const int64_t blocks = planes * ceil_div(out.w, tile_w) * ceil_div(out.h, tile_h);
      const int64_t waves = ceil_div(blocks, kByteBlocks * arch.multiprocessors);
      if (segments > 1 && waves > 8) break;
      const double cost = double(waves) * (double(tile_h / kByteRows) + start) * (0.6 + 0.4 * columns);
      if (best == 0 || cost < best) best = cost, s.tile_w = tile_w, s.tile_h = tile_h;
    }
  }
}

// Means of so many pixels.
inline Rounding rounding_of(const Box& p) {
  const int64_t area = p.kh * p.kw;
  if (p.scale == 1 && area > 1) return Rounding::clamp;
  const bool twice = area % 2 == 0 && (area & (area - 1)) != 0, centred = area > 1 << 15;
  return twice     ? centred ? Rounding::twice_centred : Rounding::twice
         : centred ? Rounding::once_centred
                   : Rounding::once;
}

inline ByteShape byte_shape(const Box& p, const Arch& arch) {
  ByteShape s{.rounding = rounding_of(p), .shift = byte_shift(p)};
  cut_byte_strips(p, arch, s);
  return s;
}

inline int64_t byte_blocks(const Box& p, const ByteShape& s) {
  const Image out = as_rows(p.out, byte_channels(p));
  return out.n * out.c * ceil_div(out.w, s.tile_w) * ceil_div(out.h, s.tile_h);
}

// Whether rows start on 8 bytes and hold whole vectors of 8, in all shards at hand.
inline bool whole_vectors(const Box& p) {
  const auto whole = [&](const Image& x) {
    const Image rows = as_rows(x, byte_channels(p));
    return rows_start_on(rows, 8) && rows.w % 8 == 0;
  };
  return whole(p.in) && p.peers.all(whole);
}

inline const char* bytes_refusal(const Box& p, const Arch& arch) {
  if (const char* no = size_refusal(p)) return no;
  if (p.in.dtype != Dtype::u8 || p.out.dtype != Dtype::u8) return "it makes bytes of bytes";
  if (p.out.n * p.out.c * p.out.h * p.out.w == 0) return "nothing to compute";
  const int channels = byte_channels(p);
  if (channels == 0) return "neither planes with contiguous pixels, nor HWC images of two to four channels";
  if (!alike_in_shards(p, channels)) return "shards of another layout";
  if (std::max(p.in.w, p.out.w) * channels > INT_MAX / 4) return "the image is too wide";
  if (p.in.h > 1 && p.in.stride_h < p.in.w * channels) return "rows that overlap";
  if (p.peers.any() && !whole_vectors(p)) return "rows of other shards are read by whole vectors of 8 bytes";
  if (arch.major < 8) return "it needs barriers in shared memory";
  if (p.kh > 257) return "column sums of 16 bits hold 257 rows";
  if (p.kh * p.kw > ((1 << 24) - 1) / 255) return "sums of 24 bits";
  if (p.kw * channels > kByteColumns * 3 / 4) return "windows this wide leave a strip few outputs";
  if (p.place.border == Border::constant && !holds(Dtype::u8, p.place.value))
    return "no pixel holds the border's value";
  const ByteShape s = byte_shape(p, arch);
  if (kByteSharedBytes > arch.shared_bytes) return "not enough shared memory";
  if (byte_blocks(p, s) > INT_MAX) return "too many blocks";
  return nullptr;
}

inline const char* name_of(Rounding rounding) {
  switch (rounding) {
    case Rounding::clamp: return "box::Rounding::clamp";
    case Rounding::once: return "box::Rounding::once";
    case Rounding::twice: return "box::Rounding::twice";
    case Rounding::once_centred: return "box::Rounding::once_centred";
    case Rounding::twice_centred: return "box::Rounding::twice_centred";
  }
  __builtin_unreachable();
}

// Pixels outside the image are read like any other pixel.
inline const char* byte_finish(const Box& p) {
  const Finish finish = finish_of(p.place);
  return finish == Finish::mean_inside ? "box::Finish::mean_inside"
         : finish == Finish::interior  ? "box::Finish::interior"
                                       : "box::Finish::scale";
}

inline void configure_bytes(const Box& p, const Arch& arch, Plan& plan) {
  const ByteShape s = byte_shape(p, arch);
  plan.why = p.peers.any() ? "column sums of 16 bits and row sums by warps of their own, in strips through all shards"
                           : "column sums of 16 bits and row sums by warps of their own, in strips";
  plan.tile_w = int(s.tile_w);
  plan.tile_h = int(s.tile_h);
  plan.threads = kByteThreads;
  plan.shared_bytes = kByteSharedBytes;
  plan.blocks = byte_blocks(p, s);
  const int channels = byte_channels(p);
  const bool aligned_out = rows_start_on(as_rows(p.out, channels), 16);
  const Kernel kernel = kernel_of(
      "kernels/box/bytes/kernel.cuh", "box::box_bytes",
      {TemplateArgument("box::BytePolicy", {int(p.kw), channels, aligned_out ? s.shift : 0, name_of(s.rounding),
                                            byte_finish(p), rows_start_on(as_rows(p.in, channels), 8), aligned_out})});
  plan.kernels = {with_peers(kernel, p.peers.any())};
  plan.config = s;
}

// 1 / area from below and from above; the same twice where it is exact.
inline ByteArgs byte_args(const Box& p, const Plan& plan, const ByteShape& s) {
  const double area = double(p.kh) * double(p.kw);
  float low = float(1 / area), high = low;
  const double left = std::fma(-double(low), area, 1.0);  // of 1
  if (takes_two(s.rounding) && left < 0) low = std::nextafter(low, 0.f);
  if (takes_two(s.rounding) && left > 0) high = std::nextafter(high, 1.f);
  const float unit = is_centred(s.rounding) ? 1.f : std::ldexp(1.f, 127);
  // Reads of words end up to 11 bytes beyond the needed bytes, reads of vectors do not.
  const int channels = byte_channels(p);
  const auto rows = [&](const Image& x) { return as_rows(x, channels); };
  const Peers peers = p.peers.nearest(p.kh - 1);
  const Image in = rows(p.in), out = rows(p.out), above = rows(peers.above), below = rows(peers.below);
  const bool whole = whole_vectors(p);
  const int64_t unsafe = whole ? 0 : in.h > 1 ? 1 + 10 / in.stride_h : 1;
  return {.in = static_cast<const uint8_t*>(in.data),
          .out = static_cast<uint8_t*>(out.data),
          .in_stride_n = in.stride_n,
          .in_stride_c = in.stride_c,
          .in_stride_h = in.stride_h,
          .out_stride_n = out.stride_n,
          .out_stride_c = out.stride_c,
          .out_stride_h = out.stride_h,
          .planes = int(out.c),
          .in_h = int(in.h),
          .in_w = int(in.w),
          .out_h = int(out.h),
          .out_w = int(out.w),
          .kh = int(p.kh),
          .kw = int(p.kw),
          .pad_y = int(p.place.pad_y),
          .pad_x = int(p.place.pad_x),
          .lead = int(byte_lead(p)),
          .tile_w = plan.tile_w,
          .tile_h = plan.tile_h,
          .tiles = int(ceil_div(out.w, plan.tile_w)),
          .segments = int(ceil_div(out.h, plan.tile_h)),
          .outside = p.place.border == Border::constant ? int(p.place.value) : 0,
          .safe_rows = int(std::max<int64_t>(0, in.h - unsafe)),
          .low = low * unit,
          .high = high * unit,
          .border = p.place.border,
          .counted_pad_y = int(p.place.pad_y - above.h),
          .counted_h = int(above.h + in.h + below.h),
          .peers = PeerRows::of({above, below}, in)};
}

}  // namespace torch_conv::box
