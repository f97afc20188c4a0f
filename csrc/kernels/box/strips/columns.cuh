// The column warps of box_strips: a thread adds up 4 columns of a strip. A column of (H, W, C) images is one channel of
// a column of pixels.
#pragma once

#include "kernels/box/strips/reads.cuh"
#include "kernels/box/strips/spread.cuh"
#include "kernels/box/strips/unaligned.cuh"

namespace torch_conv::box {

// The positions of a thread's 4 sums in a row of V.
template <int kSubtiles, bool kSpread>
struct SumPositions {
  int at;
  __device__ SumPositions(const StripArgs&, int) : at(in_row(strip_column<kSpread>(0))) {}
  __device__ __forceinline__ void put(float* row, const Quad& v) const {
    if constexpr (kSpread) {
      row[at] = v.x, row[at + kChunkPitch] = v.y, row[at + 2 * kChunkPitch] = v.z, row[at + 3 * kChunkPitch] = v.w;
    } else {
      *reinterpret_cast<Quad*>(row + at) = v;
    }
  }
};
// Several channels: a column's sum goes to the subtile of its channel.
template <int kSubtiles, bool kSpread>
requires(kSubtiles > 1) struct SumPositions<kSubtiles, kSpread> {
  int at[4];  // -1: none
  __device__ SumPositions(const StripArgs& a, int pixels) {
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      const int i = strip_column<kSpread>(v) - a.shift;
      at[v] = i >= 0 && i < pixels * kSubtiles ? in_row(i % kSubtiles * a.pitch + i / kSubtiles) : -1;
    }
  }
  __device__ __forceinline__ void put(float* row, const Quad& v) const {
    if (at[0] >= 0) row[at[0]] = v.x;
    if (at[1] >= 0) row[at[1]] = v.y;
    if (at[2] >= 0) row[at[2]] = v.z;
    if (at[3] >= 0) row[at[3]] = v.w;
  }
};

// Whether a thread's columns are 32 apart.
template <typename T, int kSubtiles, bool kVectors>
constexpr bool is_spread = sizeof(T) == 4 && kSubtiles != 0 && !kVectors;

// Reads a thread's 4 columns of a strip: StripColumns, SpreadColumns or UnalignedColumns.
template <class C>
concept ColumnReader = requires(const C& columns, typename C::Cell* cells, typename C::CopyRows& rows,
                                typename C::Leaving& leaving, int row, unsigned offsets) {
  // Cells are the unit of entering rows in shared memory. Row 0 of a slot starts first_cell() cells behind the slot,
  // row j + 1 a pitch behind row j. Rows that are summed in place (sums_in_place) are rows of V.
  C::first_cell();
  // Starts asynchronous copies of the 8 rows from `row` on into a slot of this pitch. Returns the offsets that
  // `entering` needs for these rows, or 0.
  offsets = columns.copy(row, cells, 0);
  // The same row by row, between other work, if rows(..).one_by_one. `copy` must then return 0.
  columns.copy_one(rows = columns.rows(row), cells);
  // Synchronises lanes that copy for one another. A thread calls it after its own wait, before its first `entering`.
  columns.lanes_meet();
  // The 4 elements of row j in a slot as floats.
  columns.entering(cells, row, offsets);
  // 8 rows of the thread's columns into registers, and row j of them as floats.
  columns.load(row, leaving);
  columns.leaving(leaving, row);
};

// The sums of a thread's columns over windows' rows, batch by batch, for the row warps.
template <typename T, StripPolicy kTraits, ColumnReader Columns>
struct ColumnSums {
  static constexpr Above kAbove = kTraits.above;
  static constexpr int kHigh = kTraits.high, kStages = kTraits.stages, kSubtiles = kTraits.subtiles;
  static constexpr bool kSpread = is_spread<T, kSubtiles, kTraits.vectors>;
  using Cell = typename Columns::Cell;
  using Leaving = typename Columns::Leaving;
  static constexpr bool kInPlace = sums_in_place(sizeof(T), kChannels<kSubtiles>);
  static constexpr int kV = v_stages(sizeof(T), kChannels<kSubtiles>, kStages), kAhead = batches_ahead(kStages);
  static constexpr bool kLeaving = kAbove == Above::ring || kAbove == Above::reread;
  static constexpr int kRest = kLeaving ? kHigh : 0, kKept = kLeaving ? 0 : kHigh - 1;
  static constexpr bool kRestsInRing = kRest > 0 && kAbove == Above::ring;
  // Entering rows and the rings: those of a warp are contiguous (kParts), or those of all warps interleave.
  static constexpr bool kParts = warps_have_parts(sizeof(T), kChannels<kSubtiles>);
  static constexpr int kWarpRowBytes = warp_row_bytes(sizeof(T), kTraits.vectors, kSubtiles == 0);
  static constexpr int kRowBytes = kInPlace ? kRowPitch * 4 : kParts ? kWarpRowBytes : kColumnWarps * kWarpRowBytes;
  static constexpr int kCellPitch = kRowBytes / int(sizeof(Cell)),
                       kSlotsBytes = kInPlace ? 0 : kStages * kGroup * kRowBytes;
  // A stage that is copied to was read kStages - kAhead batches before, or more.
  static_assert(kStages > kAhead);
  using Kept = Quad[kKept > 0 ? kKept : 1];

  const StripArgs& a;
  const Strip<kSubtiles>& strip;
  const Barriers& barriers;
  unsigned char* const shared;
  // With a reference loads at the image's edges become branches: 16-bit boxes of circular images took 1.38 times as
  // long on an H200. A copy of columns of float32 planes spills 4 to 84 bytes.
  std::conditional_t<sizeof(T) == 2 || (kSubtiles > 1), const Columns, const Columns&> columns;
  // Arrays stay outside: their indices are known late, when all loops are unrolled, and the struct's registers with
  // them.
  const SumPositions<kSubtiles, kSpread>& positions;
  unsigned (&copied_offsets)[kAhead];  // the result of `copy` for the batch being summed and for the later ones

  float* const sums = reinterpret_cast<float*>(shared);
  const int batches = strip.batches, blocks = kLeaving ? a.blocks : 0;
  const int start = start_batches<kAbove>(blocks);             // batches of rows before the first that ends windows
  const int top = strip.y - a.pad_y, bottom = top + a.kh - 1;  // the first window's first and last row
  const int lanes = kParts ? 32 : a.lanes, id = threadIdx.x;   // lanes: from a ring's slot to the next
  const int ring_slots = kRestsInRing ? 2 * blocks + 1 : blocks;
  // From the warp's first row, where rows of all warps interleave, to the start of its part.
  const int ahead = kParts ? id / 32 * (kSlotsBytes - kWarpRowBytes + ring_slots * 32 * int(sizeof(Quad))) : 0;
  unsigned char* const behind =
      shared + kV * kStageBytes + kBarrierBytes + (kSubtiles == 0 ? subtile_bytes(a.subtiles) : 0);
  Cell* const cells = kInPlace ? reinterpret_cast<Cell*>(sums + in_row(strip_column<kSpread>(0)))
                               : reinterpret_cast<Cell*>(behind + ahead) + Columns::first_cell();
  Quad* const ring = kParts ? reinterpret_cast<Quad*>(behind + ahead + id / 32 * kWarpRowBytes + kSlotsBytes) + id % 32
                            : reinterpret_cast<Quad*>(behind + kSlotsBytes) + id;  // of blocks
  Quad* const rests = ring + blocks * lanes;                                       // the ring of rests
  int slot = 0, oldest = 0, oldest_rest = 0;

  __device__ __forceinline__ void add() {
    // Entering rows of batch c, from c = -start on, come into slots in turn, kAhead batches before they are summed.
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (i - start < batches)
        copied_offsets[i] = columns.copy(bottom + kGroup * (i - start), cells_of_slot(i), kCellPitch);
      async_commit();
    }
    if constexpr (kLeaving) add_with_leaving();
    else add_with_kept();
    async_wait<0>();
  }

 private:
  __device__ __forceinline__ Cell* cells_of_slot(int slot) const { return cells + slot * kGroup * kCellPitch; }
  // Batch c + kAhead: the slot of its rows, once row warps have read it.
  __device__ __forceinline__ Cell* slot_ahead(int c) const {
    const int b = c + kAhead, to = slot + kAhead < kStages ? slot + kAhead : slot + kAhead - kStages;
    if (kInPlace && b >= kStages && b < batches) await(&barriers.empty[to], (b - kStages) / kStages);
    return cells_of_slot(to);
  }
  // Copies batch c + kAhead, if there is one. The results of `copy` move up by one with every batch.
  __device__ __forceinline__ void copy_rows(int c, Cell* to) {
#pragma unroll
    for (int i = 1; i < kAhead; ++i) copied_offsets[i - 1] = copied_offsets[i];
    if (c + kAhead < batches) copied_offsets[kAhead - 1] = columns.copy(bottom + kGroup * (c + kAhead), to, kCellPitch);
  }
  __device__ __forceinline__ void copy_ahead(int c) {
    copy_rows(c, slot_ahead(c));
    end_batch();
  }
  __device__ __forceinline__ void end_batch() {
    async_commit();
    slot = next_slot(slot, kStages);
  }
  __device__ __forceinline__ void await_entering() const {
    async_wait<kAhead - 1>();
    columns.lanes_meet();
  }
  __device__ __forceinline__ Quad entering(int j) const {
    return columns.entering(cells + (slot * kGroup + j) * kCellPitch, j, copied_offsets[0]);
  }
  // The stage of batch c's V.
  __device__ __forceinline__ int v_stage(int c) const { return kInPlace ? slot : c % kV; }
  __device__ __forceinline__ void await_stage(int c) const {
    if (!kInPlace && c >= kV) await(&barriers.empty[c % kV], (c - kV) / kV);
  }
  __device__ __forceinline__ void put(int c, int j, const Quad& v) const {
    positions.put(sums + (v_stage(c) * kGroup + j) * kRowPitch, v);
  }

  // Windows of up to 16 rows: the kKept rows before a batch stay in registers.
  __device__ __forceinline__ void add_with_kept() {
    Kept kept;
    for (int c = -start; c < 0; ++c) {
      await_entering();
#pragma unroll
      for (int j = 0; j < kGroup; ++j) {
        const Quad row = entering(j);
        if (kKept > 2 * kGroup - 1 - j && c == -2) kept[kKept > 2 * kGroup - 1 - j ? kKept - 2 * kGroup + j : 0] = row;
        if (kKept > kGroup - 1 - j && c == -1) kept[kKept > kGroup - 1 - j ? kKept - kGroup + j : 0] = row;
      }
      copy_ahead(c);
    }
    for (int c = 0; c < batches; ++c) batch_of_kept(c, kept);
  }

  __device__ __forceinline__ void batch_of_kept(int c, Kept& kept) {
    Quad v[kGroup];
    if constexpr (kAbove == Above::kept) sums_of_kept(kept, v);
    await_entering();
    await_stage(c);
    // Copies of entering rows between the sums leave the load unit free.
    Cell* const to = slot_ahead(c);
    auto next_rows = columns.rows(bottom + kGroup * (c + kAhead));
    next_rows.one_by_one = next_rows.one_by_one && c + kAhead < batches;
    const auto copy_row = [&](int j) {
      if (next_rows.one_by_one) columns.copy_one(next_rows, to + j * kCellPitch);
    };
    if constexpr (kAbove == Above::kept) {
      Quad prefix;
#pragma unroll
      for (int j = 0; j < kGroup; ++j) {
        const Quad row = entering(j);
        prefix = j == 0 ? row : prefix + row;
        put(c, j, v[j] + prefix);
        kept[kKept - kGroup + j] = row;
        copy_row(j);
      }
    } else {
      Quad rows[kGroup];
#pragma unroll
      for (int j = 0; j < kGroup; ++j) rows[j] = entering(j);
      const auto row = [&](auto i) { return i < kKept ? kept[i < kKept ? i : 0] : rows[i < kKept ? 0 : i - kKept]; };
#pragma unroll
      for (int j = 0; j < kGroup; ++j) {
        Quad sum = row(j);
#pragma unroll
        for (int i = 1; i < kHigh; ++i) sum = sum + row(j + i);
        put(c, j, sum);
        copy_row(j);
      }
#pragma unroll
      for (int j = 0; j < kKept; ++j) kept[j] = rows[kGroup - kKept + j];
    }
    arrive(&barriers.full[v_stage(c)]);
    if (!next_rows.one_by_one) copy_rows(c, to);
    end_batch();
  }

  // Lead and middle of a batch's windows. The kept rows move up by a batch.
  __device__ __forceinline__ static void sums_of_kept(Kept& kept, Quad (&v)[kGroup]) {
    v[kGroup - 1] = kept[kGroup - 1];
#pragma unroll
    for (int j = kGroup - 2; j >= 0; --j) v[j] = kept[j] + v[j + 1];
    if constexpr (kKept > kGroup) {
      Quad middle = kept[kGroup];
#pragma unroll
      for (int j = kGroup + 1; j < kKept; ++j) middle = middle + kept[j];
#pragma unroll
      for (int j = 0; j < kGroup; ++j) v[j] = v[j] + middle;
    }
#pragma unroll
    for (int j = 0; j < kKept - kGroup; ++j) kept[j] = kept[j + kGroup];
  }

  // Taller windows: leaving rows are read again, and the middle is in the rings.
  __device__ __forceinline__ void add_with_leaving() {
    for (int c = -start; c < 0; ++c) {
      await_entering();
      Quad row[kGroup];
#pragma unroll
      for (int j = 0; j < kGroup; ++j) row[j] = entering(j);
      Quad rest = row[kGroup - (kRest > 0 ? kRest : 1)];
#pragma unroll
      for (int j = kGroup - kRest + 1; j < kGroup; ++j) rest = rest + row[j];
      keep(block_sum(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7]), rest);
      copy_ahead(c);
    }
    Leaving even, odd;  // take turns: copies from one to the other would wait for the loads
    columns.load(top, even);
    if constexpr (kAbove == Above::reread) columns.load(top + kGroup, odd);
    for (int c = 0; c < batches; c += 2) {
      batch_with_leaving(c, even, odd);
      if (c + 1 < batches) batch_with_leaving(c + 1, odd, even);
    }
  }

  // `leaving`: the batch's leaving rows. `next`: receives those of the next batch.
  __device__ __forceinline__ void batch_with_leaving(int c, Leaving& leaving, Leaving& next) {
    Quad v[kGroup];
#pragma unroll
    for (int j = kGroup - 1; j >= 0; --j) {
      v[j] = columns.leaving(leaving, j);
      if (j < kGroup - 1) v[j] = v[j] + v[j + 1 < kGroup ? j + 1 : j];
    }
    // Not earlier: loads share one scoreboard, so that a wait for `leaving` would wait for these rows as well.
    hold(v[0]);
    if constexpr (kAbove == Above::ring)
      if (c + 1 < batches) columns.load(top + kGroup * (c + 1), next);
    add_middle(next, v);
    await_entering();
    await_stage(c);
    Quad prefix, pair, half, first_half, rest;
#pragma unroll
    for (int j = 0; j < kGroup; ++j) {
      const Quad row = entering(j);
      prefix = j == 0 ? row : prefix + row;
      put(c, j, v[j] + prefix);
      pair = j % 2 == 0 ? row : pair + row;
      if (j % 4 == 1) half = pair;
      if (j % 4 == 3) half = half + pair;
      if (j == 3) first_half = half;
      if (j == kGroup - kRest) rest = row;
      if (j > kGroup - kRest) rest = rest + row;
    }
    arrive(&barriers.full[v_stage(c)]);
    keep(first_half + half, rest);
    copy_ahead(c);
    if constexpr (kAbove == Above::reread)
      if (c + 2 <= batches) columns.load(top + kGroup * (c + 2), leaving);
  }

  // Adds the rest, which is in its ring or the first of the next leaving rows, and the blocks.
  __device__ __forceinline__ void add_middle(const Leaving& next, Quad (&v)[kGroup]) const {
    Quad middle;
    int left = blocks, at = oldest;
    if constexpr (kRestsInRing) {
      middle = rests[oldest_rest * lanes];
    } else if constexpr (kRest > 0) {
      middle = columns.leaving(next, 0);
#pragma unroll
      for (int j = 1; j < kRest; ++j) middle = middle + columns.leaving(next, j);
    } else if (left > 0) {
      middle = ring[at * lanes];
      at = next_slot(at, blocks), --left;
    }
#pragma unroll 4
    for (; left > 0; --left, at = next_slot(at, blocks)) middle = middle + ring[at * lanes];
    if (kRest > 0 || blocks > 0) {
#pragma unroll
      for (int j = 0; j < kGroup; ++j) v[j] = v[j] + middle;
    }
  }
  // A batch's entering rows become a block and a rest of later windows.
  __device__ __forceinline__ void keep(const Quad& block, const Quad& rest) {
    if (blocks > 0) {
      ring[oldest * lanes] = block;
      oldest = next_slot(oldest, blocks);
    }
    if constexpr (kRestsInRing) {
      rests[oldest_rest * lanes] = rest;
      oldest_rest = next_slot(oldest_rest, blocks + 1);
    }
  }
};

template <typename T, StripPolicy kTraits, bool kPeers>
__device__ __forceinline__ void column_warp(const StripArgs& a, const Strip<kTraits.subtiles>& strip,
                                            const Barriers& barriers, unsigned char* shared) {
  constexpr int kSubtiles = kTraits.subtiles;
  constexpr bool kVectors = kTraits.vectors, kPolicies = kTraits.policies;
  const auto add = [&]<class Columns>(const Columns& columns) {
    using Sums = ColumnSums<T, kTraits, Columns>;
    const SumPositions<kSubtiles, Sums::kSpread> positions(a, strip.only_subtile.valid + a.kw - 1);
    unsigned copied_offsets[Sums::kAhead] = {};
    Sums{a, strip, barriers, shared, columns, positions, copied_offsets}.add();
  };
  if constexpr (sizeof(T) == 2 && !kVectors && kSubtiles != 0) {
    const UnalignedColumns<T, kSubtiles, kPolicies, false, kPeers> words(a, strip);
    if (words.gathers) add(UnalignedColumns<T, kSubtiles, kPolicies, true, kPeers>(a, strip));
    else add(words);
  } else {
    constexpr bool kOf32 = is_spread<T, kSubtiles, kVectors>;
    using Anywhere = std::conditional_t<kOf32, SpreadColumns<kSubtiles, kPolicies, true, kPeers>,
                                        StripColumns<T, kSubtiles, kVectors, kPolicies, true, kPeers>>;
    using Inner = std::conditional_t<kOf32, SpreadColumns<kSubtiles, kPolicies, false, kPeers>,
                                     StripColumns<T, kSubtiles, kVectors, kPolicies, false, kPeers>>;
    const Anywhere anywhere(a, strip);
    if (__any_sync(0xffffffff, anywhere.is_partial)) add(anywhere);
    else add(Inner(a, strip));
  }
}

}  // namespace torch_conv::box
