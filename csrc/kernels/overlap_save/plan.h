// Both ends of a filter by FFT: a batch of tiles is read, and its sums are written.
#pragma once

#include "core/plan.h"
#include "kernels/overlap_save/params.h"

namespace torch_conv::overlap_save {

void launch_read(const ReadTiles& p, const Plan& plan, const Site& site);
void launch_write(const WriteTiles& p, const Plan& plan, const Site& site);

inline int64_t units_of(const ReadTiles& p) { return p.in.n * p.in.c * p.tiles.count; }
inline int64_t units_of(const WriteTiles& p) { return p.filter.in.n * p.filter.in.c * p.sums.count; }

inline unsigned blocks_of_row(const ReadTiles& p) { return unsigned(ceil_div(p.tiles.w, kThreads * kPixels)); }
inline unsigned blocks_of_row(const WriteTiles& p) { return unsigned(ceil_div(Outputs::of(p).w, kThreads * kPixels)); }

// The rows of a block of `read`: up to 16, the rows of the smallest cells, while the blocks still fill a GPU.
inline int rows_of_block(const ReadTiles& p) {
  constexpr int64_t kFull = 2048;  // 16 blocks of kThreads on each of 128 multiprocessors: those of the larger GPUs
  const int64_t rows = units_of(p) * blocks_of_row(p) * p.tiles.h;
  int most = 16;
  while (most > 1 && rows < kFull * most) most /= 2;
  return most;
}

// The grids' y.
inline unsigned row_groups(const ReadTiles& p, int rows) { return unsigned(ceil_div(p.tiles.h, int64_t(rows))); }
inline unsigned row_groups(const ReadTiles& p) { return row_groups(p, rows_of_block(p)); }
inline unsigned row_groups(const WriteTiles& p) { return unsigned(ceil_div(Outputs::of(p).h, int64_t(kWriteRows))); }
inline unsigned cell_groups(const WriteTiles& p, int cells) {
  return unsigned(ceil_div(Cells::of(p.sums).count(), cells));
}

inline ReadArgs args_of(const ReadTiles& p) {
  return {p, BlockOrder::of(p.tiles, p.in.c, blocks_of_row(p)), Cells::of(p.tiles), rows_of_block(p)};
}
inline WriteArgs args_of(const WriteTiles& p) {
  const Image& out = p.filter.out;
  const bool packs = size_of(out.dtype) <= 4 && out.stride_w == 1 && rows_start_on(out, kPixels * size_of(out.dtype)) &&
                     Outputs::of(p).w % kPixels == 0;
  return {p, BlockOrder::of(p.sums, p.filter.in.c, blocks_of_row(p)), Cells::of(p.sums),
          1.0 / (double(p.sums.h) * double(p.sums.w)), packs};
}

inline Plan base_plan(const ReadTiles& p) {
  Plan plan{.algorithm = "fft", .why = "a batch of tiles, extended by the border"};
  plan.tile_w = int(p.tiles.w), plan.tile_h = int(p.tiles.h);
  const double pixels = double(units_of(p)) * double(p.tiles.h) * double(p.tiles.w);
  plan.bytes = pixels * (size_of(p.in.dtype) + acc_bytes(p.in.dtype));
  return plan;
}

inline Plan base_plan(const WriteTiles& p) {
  Plan plan{.algorithm = "fft",
            .why = "the sums of a batch; those that are not finite, or far smaller than the tile, tap by tap"};
  const Outputs outputs = Outputs::of(p);
  plan.tile_w = int(outputs.w), plan.tile_h = int(outputs.h);
  const double pixels = double(units_of(p)) * double(outputs.h) * double(outputs.w);
  plan.bytes = pixels * (acc_bytes(p.filter.in.dtype) + size_of(p.filter.out.dtype));
  return plan;
}

inline const char* too_many_blocks(int64_t blocks) {
  return blocks <= (int64_t(1) << 31) - 1 ? nullptr : "more blocks than a grid holds";
}

template <typename Problem>
const char* refusal(const Problem& p, const Arch&) {
  return too_many_blocks(units_of(p) * blocks_of_row(p));
}

inline void configure_read(const ReadTiles& p, const Arch&, Plan& plan) {
  plan.threads = kThreads;
  plan.blocks = units_of(p) * blocks_of_row(p) * row_groups(p);
  plan.kernels = {kernel_of("kernels/overlap_save/kernel_read.cuh", "overlap_save::overlap_save_read", {p.in.dtype})};
}

inline void configure_write(const WriteTiles& p, const Arch&, Plan& plan) {
  plan.threads = kThreads;
  plan.launches = 3;
  plan.blocks = units_of(p) * blocks_of_row(p) * row_groups(p);
  plan.kernels = {
      kernel_of("kernels/overlap_save/kernel_mark.cuh", "overlap_save::overlap_save_mark", {p.filter.in.dtype}),
      kernel_of("kernels/overlap_save/kernel_write.cuh", "overlap_save::overlap_save_write", {p.filter.in.dtype}),
      kernel_of("kernels/overlap_save/kernel_directly.cuh", "overlap_save::overlap_save_directly",
                {p.filter.in.dtype})};
}

constexpr Candidate<ReadTiles> kReadCandidates[] = {{"read", refusal<ReadTiles>, nullptr, configure_read, launch_read}};
constexpr Candidate<WriteTiles> kWriteCandidates[] = {
    {"write", refusal<WriteTiles>, nullptr, configure_write, launch_write}};

inline Plan plan_cuda(const ReadTiles& p, const Arch& arch, const char* pinned) {
  return choose(kReadCandidates, p, arch, pinned, base_plan(p));
}

inline Plan plan_cuda(const WriteTiles& p, const Arch& arch, const char* pinned) {
  return choose(kWriteCandidates, p, arch, pinned, base_plan(p));
}

}  // namespace torch_conv::overlap_save
