// The column warps of box_strips: a thread adds up 4 columns of a strip, or 4 of the numbers that its rows of pixels of
// several channels hold.
#pragma once

#include "kernels/box/strips/reads.cuh"
#include "kernels/box/strips/spread.cuh"
#include "kernels/box/strips/unaligned.cuh"

namespace torch_conv::box {

// The next slot of a ring.
__device__ __forceinline__ int next_slot(int slot, int slots) { return slot + 1 == slots ? 0 : slot + 1; }

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
// Columns of several channels part: each into its channel's subtile.
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

// The sums of a strip's columns over windows' rows, batch by batch, for the row warps.
//
// Columns reads a thread's 4 columns. It is StripColumns, SpreadColumns or UnalignedColumns. Its members:
//
//     Cell        the unit of entering rows in shared memory. Row j + 1 of a slot begins kCellPitch cells behind row j,
//                 row 0 first_cell() cells behind the slot. Rows that are summed in place (sums_in_place) are rows of
//                 V.
//     copy        starts asynchronous copies of 8 rows into a slot, in order. It returns the offsets that `entering`
//                 needs (UnalignedColumns), or 0; add_columns keeps them in `copied_offsets` until the rows are summed.
//     rows, copy_one  the same row by row, between sums, if rows(..).one_by_one. `copy` must then return 0.
//     lanes_meet  synchronises lanes that copy for each other: behind a thread's own wait, before its first `entering`.
//     entering    the 4 elements of row j in a slot, as floats.
//     Leaving     8 rows of the thread's columns in registers: `load` fills it, `leaving` returns row j.
template <typename T, StripPolicy kTraits, class Columns>
__device__ __forceinline__ void add_columns(const StripArgs& a, const Strip<kTraits.subtiles>& strip,
                                            const Barriers& barriers, unsigned char* shared, const Columns& columns) {
  constexpr Above kAbove = kTraits.above;
  constexpr int kHigh = kTraits.high, kStages = kTraits.stages, kSubtiles = kTraits.subtiles;
  constexpr bool kVectors = kTraits.vectors;
  using Cell = typename Columns::Cell;
  constexpr bool kInPlace = sums_in_place(sizeof(T), kChannels<kSubtiles>);
  constexpr int kV = v_stages(sizeof(T), kChannels<kSubtiles>, kStages), kAhead = batches_ahead(kStages);
  constexpr bool kLeaving = kAbove == Above::ring || kAbove == Above::reread;
  constexpr int kRest = kLeaving ? kHigh : 0;
  const int id = threadIdx.x, batches = strip.batches, blocks = kLeaving ? a.blocks : 0;
  const int start = start_batches<kAbove>(blocks);

  float* const sums = reinterpret_cast<float*>(shared);
  const SumPositions<kSubtiles, is_spread<T, kSubtiles, kVectors>> positions(a, strip.only_subtile.valid + a.kw - 1);
  unsigned char* const behind =
      shared + kV * kStageBytes + kBarrierBytes + (kSubtiles == 0 ? subtile_bytes(a.subtiles) : 0);
  constexpr bool kSpread = is_spread<T, kSubtiles, kVectors>;
  // Rows that come, and the rings: those of a warp are contiguous (kParts), or those of all warps interleave.
  constexpr bool kParts = warps_have_parts(sizeof(T), kChannels<kSubtiles>);
  constexpr int kWarpRowBytes = warp_row_bytes(sizeof(T), kVectors, kSubtiles == 0);
  constexpr int kRowBytes = kInPlace ? kRowPitch * 4 : kParts ? kWarpRowBytes : kColumnWarps * kWarpRowBytes;
  constexpr int kCellPitch = kRowBytes / int(sizeof(Cell)), kSlotsBytes = kInPlace ? 0 : kStages * kGroup * kRowBytes;
  const int ring_slots = kRest > 0 && kAbove == Above::ring ? 2 * blocks + 1 : blocks;
  // From the warp's first row, where rows of all warps interleave, to the start of its part.
  const int ahead = kParts ? id / 32 * (kSlotsBytes - kWarpRowBytes + ring_slots * 32 * int(sizeof(Quad))) : 0;
  Cell* const cells = kInPlace ? reinterpret_cast<Cell*>(sums + in_row(strip_column<kSpread>(0)))
                               : reinterpret_cast<Cell*>(behind + ahead) + Columns::first_cell();
  const int lanes = kParts ? 32 : a.lanes;  // from a ring's slot to the next
  Quad* const ring = kParts ? reinterpret_cast<Quad*>(behind + ahead + id / 32 * kWarpRowBytes + kSlotsBytes) + id % 32
                            : reinterpret_cast<Quad*>(behind + kSlotsBytes) + id;
  Quad* const rests = ring + blocks * lanes;

  const int top = strip.y - a.pad_y, bottom = top + a.kh - 1;

  // Entering rows of batch c, from c = -start on, come into slots in turn, kAhead batches before they are summed.
  // A stage that is copied to was read kStages - kAhead batches before, or more.
  static_assert(kStages > kAhead);
  int slot = 0;
  unsigned copied_offsets[kAhead] = {};  // the result of `copy` for the batch being summed and for the later ones
  auto cells_of_slot = [&](int slot) { return cells + slot * kGroup * kCellPitch; };
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    if (i - start < batches)
      copied_offsets[i] = columns.copy(bottom + kGroup * (i - start), cells_of_slot(i), kCellPitch);
    async_commit();
  }
  // Batch c + kAhead: the slot of its rows, once row warps have read it.
  auto slot_ahead = [&](int c) {
    const int b = c + kAhead, to = slot + kAhead < kStages ? slot + kAhead : slot + kAhead - kStages;
    if (kInPlace && b >= kStages && b < batches) await(&barriers.empty[to], (b - kStages) / kStages);
    return cells_of_slot(to);
  };
  // Copies batch c + kAhead, if there is one. The results of `copy` move up by one with every batch.
  auto copy_rows = [&](int c, Cell* to) {
#pragma unroll
    for (int i = 1; i < kAhead; ++i) copied_offsets[i - 1] = copied_offsets[i];
    if (c + kAhead < batches) copied_offsets[kAhead - 1] = columns.copy(bottom + kGroup * (c + kAhead), to, kCellPitch);
  };
  auto copy_ahead = [&](int c) {
    Cell* const to = slot_ahead(c);
    copy_rows(c, to);
    async_commit();
    slot = next_slot(slot, kStages);
  };
  auto entering = [&](int j) {
    return columns.entering(cells + (slot * kGroup + j) * kCellPitch, j, copied_offsets[0]);
  };
  // The stage of batch c's V.
  auto v_stage = [&](int c) { return kInPlace ? slot : c % kV; };
  auto await_stage = [&](int c) {
    if (!kInPlace && c >= kV) await(&barriers.empty[c % kV], (c - kV) / kV);
  };
  auto put = [&](int c, int j, const Quad& v) { positions.put(sums + (v_stage(c) * kGroup + j) * kRowPitch, v); };

  if constexpr (!kLeaving) {
    // The kHigh - 1 rows before the batch stay in registers.
    constexpr int kKept = kHigh - 1;
    Quad kept[kKept > 0 ? kKept : 1];
    for (int c = -start; c < 0; ++c) {
      async_wait<kAhead - 1>();
      columns.lanes_meet();
#pragma unroll
      for (int j = 0; j < kGroup; ++j) {
        const Quad row = entering(j);
        if (kKept > 2 * kGroup - 1 - j && c == -2) kept[kKept > 2 * kGroup - 1 - j ? kKept - 2 * kGroup + j : 0] = row;
        if (kKept > kGroup - 1 - j && c == -1) kept[kKept > kGroup - 1 - j ? kKept - kGroup + j : 0] = row;
      }
      copy_ahead(c);
    }
    for (int c = 0; c < batches; ++c) {
      Quad v[kGroup];
      if constexpr (kAbove == Above::kept) {
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
      async_wait<kAhead - 1>();
      columns.lanes_meet();
      await_stage(c);
      // Rows that come are copied between the sums: that leaves the load unit free.
      Cell* const to = slot_ahead(c);
      auto next_rows = columns.rows(bottom + kGroup * (c + kAhead));
      next_rows.one_by_one = next_rows.one_by_one && c + kAhead < batches;
      auto copy_row = [&](int j) {
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
        auto row = [&](auto i) { return i < kKept ? kept[i < kKept ? i : 0] : rows[i < kKept ? 0 : i - kKept]; };
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
      async_commit();
      slot = next_slot(slot, kStages);
    }
  } else {
    using Leaving = typename Columns::Leaving;
    int oldest = 0, oldest_rest = 0;  // slots of the rings
    auto keep = [&](const Quad& block, const Quad& rest) {
      if (blocks > 0) {
        ring[oldest * lanes] = block;
        oldest = next_slot(oldest, blocks);
      }
      if constexpr (kRest > 0 && kAbove == Above::ring) {
        rests[oldest_rest * lanes] = rest;
        oldest_rest = next_slot(oldest_rest, blocks + 1);
      }
    };
    // V of a batch: `leaving` are its rows, and `next` will be those of the batch behind it.
    auto batch = [&](Leaving& leaving, Leaving& next, int c) {
      Quad v[kGroup];
#pragma unroll
      for (int j = kGroup - 1; j >= 0; --j) {
        v[j] = columns.leaving(leaving, j);
        if (j < kGroup - 1) v[j] = v[j] + v[j + 1 < kGroup ? j + 1 : j];
      }
      // Only now: loads count at one scoreboard, and waiting for these rows would wait for those as well.
      hold(v[0]);
      if constexpr (kAbove == Above::ring)
        if (c + 1 < batches) columns.load(top + kGroup * (c + 1), next);
      Quad middle;
      int left = blocks, at = oldest;
      if constexpr (kRest > 0 && kAbove == Above::ring) {
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
      async_wait<kAhead - 1>();
      columns.lanes_meet();
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
    };
    for (int c = -start; c < 0; ++c) {
      async_wait<kAhead - 1>();
      columns.lanes_meet();
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
      batch(even, odd, c);
      if (c + 1 < batches) batch(odd, even, c + 1);
    }
  }
  async_wait<0>();
}

template <typename T, StripPolicy kTraits, bool kPeers>
__device__ __forceinline__ void column_warp(const StripArgs& a, const Strip<kTraits.subtiles>& strip,
                                            const Barriers& barriers, unsigned char* shared) {
  constexpr int kSubtiles = kTraits.subtiles;
  constexpr bool kVectors = kTraits.vectors, kPolicies = kTraits.policies;
  const auto add = [&](const auto& columns) { add_columns<T, kTraits>(a, strip, barriers, shared, columns); };
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
