// The column warps of box_strips: a thread adds up 4 columns of a strip, or 4 of the numbers that its rows of pixels of
// several channels hold.
#pragma once

#include "box/strips_reads.cuh"

namespace torch_conv::box {

// The next slot of a ring.
__device__ __forceinline__ int next_slot(int slot, int slots) { return slot + 1 == slots ? 0 : slot + 1; }

// Where a thread's 4 sums go in a row of V.
template <int kLots>
struct SumPlaces {
  int at;
  __device__ SumPlaces(const StripArgs&, int) : at(in_row(4 * int(threadIdx.x))) {}
  __device__ __forceinline__ void put(float* row, const Quad& v) const { *reinterpret_cast<Quad*>(row + at) = v; }
};
// Columns of several channels part: each into its channel's lot.
template <int kLots>
requires(kLots > 1) struct SumPlaces<kLots> {
  int at[4];  // -1: nobody's
  __device__ SumPlaces(const StripArgs& a, int pixels) {
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      const int i = 4 * int(threadIdx.x) + v - a.shift;
      at[v] = i >= 0 && i < pixels * kLots ? in_row(i % kLots * a.pitch + i / kLots) : -1;
    }
  }
  __device__ __forceinline__ void put(float* row, const Quad& v) const {
    if (at[0] >= 0) row[at[0]] = v.x;
    if (at[1] >= 0) row[at[1]] = v.y;
    if (at[2] >= 0) row[at[2]] = v.z;
    if (at[3] >= 0) row[at[3]] = v.w;
  }
};

template <typename T, Above kAbove, int kHigh, int kStages, int kLots, bool kVectors, bool kPolicies, bool kAnywhere>
__device__ __forceinline__ void add_columns(const StripArgs& a, const Strip<kLots>& strip, const Barriers& barriers,
                                            unsigned char* shared,
                                            const StripColumns<T, kLots, kVectors, kPolicies, kAnywhere>& columns) {
  using Cells = typename StripColumns<T, kLots, kVectors, kPolicies, kAnywhere>::Cells;
  constexpr bool kInPlace = sums_in_place(sizeof(T), kChannels<kLots>);
  constexpr int kV = v_stages(sizeof(T), kChannels<kLots>, kStages), kAhead = batches_ahead(kStages);
  constexpr bool kLeaving = kAbove == Above::ring || kAbove == Above::reread;
  constexpr int kRest = kLeaving ? kHigh : 0;
  const int id = threadIdx.x, batches = strip.batches, blocks = kLeaving ? a.blocks : 0;
  const int start = start_batches<kAbove>(blocks);

  float* const sums = reinterpret_cast<float*>(shared);
  const SumPlaces<kLots> places(a, strip.alone.valid + a.kw - 1);
  unsigned char* const behind = shared + kV * kStageBytes + kBarrierBytes + (kLots == 0 ? lot_bytes(a.lots) : 0);
  Cells* const cells =
      kInPlace ? reinterpret_cast<Cells*>(sums + in_row(4 * id)) : reinterpret_cast<Cells*>(behind) + id;
  constexpr int kCellPitch = kInPlace ? kRowPitch / 4 : 32 * kColumnWarps;
  const int lanes = a.lanes;
  Quad* const ring =
      reinterpret_cast<Quad*>(behind + (kInPlace ? 0 : kStages * kGroup * kCellPitch * int(sizeof(Cells)))) + id;
  Quad* const rests = ring + blocks * lanes;

  const int top = strip.y - a.pad_y, bottom = top + a.kh - 1;

  // Entering rows of batch c, from c = -start on, come into slots in turn, kAhead batches before they are summed.
  int slot = 0;
  auto cells_of_slot = [&](int slot) { return cells + slot * kGroup * kCellPitch; };
  for (int i = 0; i < kAhead; ++i) {
    if (i - start < batches) columns.copy(bottom + kGroup * (i - start), cells_of_slot(i), kCellPitch);
    async_commit();
  }
  // Batch c + kAhead: where its rows go, once row warps have read what stands there.
  auto place_ahead = [&](int c) {
    const int b = c + kAhead, to = slot + kAhead < kStages ? slot + kAhead : slot + kAhead - kStages;
    if (kInPlace && b >= kStages && b < batches) await(&barriers.empty[to], (b - kStages) / kStages);
    return cells_of_slot(to);
  };
  auto copy_ahead = [&](int c) {
    Cells* const to = place_ahead(c);
    if (c + kAhead < batches) columns.copy(bottom + kGroup * (c + kAhead), to, kCellPitch);
    async_commit();
    slot = next_slot(slot, kStages);
  };
  auto entering = [&](int j) { return unpack<T>(cells[(slot * kGroup + j) * kCellPitch]); };
  // Where batch c's V stand.
  auto v_stage = [&](int c) { return kInPlace ? slot : c % kV; };
  auto await_stage = [&](int c) {
    if (!kInPlace && c >= kV) await(&barriers.empty[c % kV], (c - kV) / kV);
  };
  auto put = [&](int c, int j, const Quad& v) { places.put(sums + (v_stage(c) * kGroup + j) * kRowPitch, v); };

  if constexpr (!kLeaving) {
    // The kHigh - 1 rows before the batch stay in registers.
    constexpr int kKept = kHigh - 1;
    Quad kept[kKept > 0 ? kKept : 1];
    for (int c = -start; c < 0; ++c) {
      async_wait<kAhead - 1>();
      columns.wait_for_lanes();
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
      columns.wait_for_lanes();
      await_stage(c);
      // Rows that come are copied between the sums: that leaves the load unit room.
      Cells* const to = place_ahead(c);
      const int next = bottom + kGroup * (c + kAhead);
      auto coming = columns.rows(next);
      coming.one_by_one = coming.one_by_one && c + kAhead < batches;
      auto copy_row = [&](int j) {
        if (coming.one_by_one) columns.copy_one(coming, to + j * kCellPitch);
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
      if (!coming.one_by_one && c + kAhead < batches) columns.copy(next, to, kCellPitch);
      async_commit();
      slot = next_slot(slot, kStages);
    }
  } else {
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
    auto batch = [&](Cells(&leaving)[kGroup], Cells(&next)[kGroup], int c) {
      Quad v[kGroup];
#pragma unroll
      for (int j = kGroup - 1; j >= 0; --j) {
        v[j] = unpack<T>(leaving[j]);
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
        middle = unpack<T>(next[0]);
#pragma unroll
        for (int j = 1; j < kRest; ++j) middle = middle + unpack<T>(next[j]);
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
      columns.wait_for_lanes();
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
      columns.wait_for_lanes();
      Quad row[kGroup];
#pragma unroll
      for (int j = 0; j < kGroup; ++j) row[j] = entering(j);
      Quad rest = row[kGroup - (kRest > 0 ? kRest : 1)];
#pragma unroll
      for (int j = kGroup - kRest + 1; j < kGroup; ++j) rest = rest + row[j];
      keep(block_sum(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7]), rest);
      copy_ahead(c);
    }
    Cells even[kGroup], odd[kGroup];  // take turns: copies from one to the other would wait for the loads
    columns.load(top, even);
    if constexpr (kAbove == Above::reread) columns.load(top + kGroup, odd);
    for (int c = 0; c < batches; c += 2) {
      batch(even, odd, c);
      if (c + 1 < batches) batch(odd, even, c + 1);
    }
  }
  async_wait<0>();
}

template <typename T, Above kAbove, int kHigh, int kStages, int kLots, bool kVectors, bool kPolicies>
__device__ __forceinline__ void column_warp(const StripArgs& a, const Strip<kLots>& strip, const Barriers& barriers,
                                            unsigned char* shared) {
  const StripColumns<T, kLots, kVectors, kPolicies, true> anywhere(a, strip);
  if (__any_sync(0xffffffff, anywhere.apart)) {
    add_columns<T, kAbove, kHigh, kStages>(a, strip, barriers, shared, anywhere);
  } else {
    const StripColumns<T, kLots, kVectors, kPolicies, false> inner(a, strip);
    add_columns<T, kAbove, kHigh, kStages>(a, strip, barriers, shared, inner);
  }
}

}  // namespace torch_conv::box
