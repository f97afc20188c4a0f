// The column warps of box_bytes: a thread adds up 8 columns of a strip, two sums of 16 bits in a register.
#pragma once

#include "kernels/box/bytes/common.cuh"
#include "kernels/box/shared/numbered_rows.cuh"

namespace torch_conv::box {

// The loads by which a warp reads its columns.
enum class Reads {
  vectors,       // 8 aligned bytes a thread
  words,         // 8 unaligned bytes: the three words that hold them
  single_bytes,  // byte by byte, of columns that do not follow one another
};

// 8 columns of a row as they were read.
template <Reads kReads>
struct ByteCells {
  uint32_t words[kReads == Reads::words ? 3 : 2];
};

// A thread's columns of a strip, from `first` of the extended image on.
struct ByteColumns {
  const uint8_t* from;  // the first one in row 0
  uint32_t select[4];   // of __byte_perm: a pair of columns as two numbers of 16 bits, zeros where nothing is read
  int map[8];           // column of the image, -1: nothing is read
  int count;            // of those that are read
  bool is_scattered;    // the bytes are not contiguous

  __device__ ByteColumns(const ByteArgs& a, const ByteStrip& strip, int first, int channels) {
    count = 0, is_scattered = false;
#pragma unroll
    for (int v = 0; v < 8; ++v) {
      const int x = first + v;
      const bool inside = x >= 0 && x < a.in_w;
      const bool repeats = first + 8 > strip.first && !strip.mirrors;
      map[v] = x < strip.end && (inside || repeats) ? map_column(x, a.in_w, channels, a.border) : -1;
      count += map[v] >= 0;
      is_scattered = is_scattered || (map[v] >= 0 && (map[0] < 0 || map[v] != map[0] + v));
    }
    from = a.in + strip.in + max(map[0], 0);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      select[i] = (map[2 * i] >= 0 ? 0x40 | (2 * i) % 4 : 0x44) |
                  (map[2 * i + 1] >= 0 ? 0x4000 | (2 * i + 1) % 4 << 8 : 0x4400);
  }
};

template <Reads kReads, bool kPeers>
struct ByteRows {
  static_assert(!kPeers || kReads != Reads::words);
  const ByteArgs& a;
  const ByteStrip& strip;
  const ByteColumns& columns;
  NumberedRows<kPeers> numbers;
  using Cells = ByteCells<kReads>;

  // Bits from a word's start to the first column of row `row`; a shift ignores the bits above 31.
  __device__ __forceinline__ uint32_t bits(int row) const {
    return (uint32_t(reinterpret_cast<uintptr_t>(columns.from)) + uint32_t(row) * uint32_t(a.in_stride_h)) * 8;
  }

  // The first column of row number `row` of the plane.
  __device__ __forceinline__ const uint8_t* at(int row) const {
    return numbers.at(a.in + strip.in, a.in_stride_h, row, a.in_h);
  }
  __device__ __forceinline__ const uint8_t* start(int row) const {
    if constexpr (kPeers) return at(row) + (columns.from - (a.in + strip.in));
    else return columns.from + row * a.in_stride_h;
  }

  __device__ __forceinline__ Cells cells(const uint8_t* from) const {
    if constexpr (kReads == Reads::vectors) {
      const uint2 words = load_words2(from);
      return {words.x, words.y};
    } else {
      const uint8_t* const start = from - reinterpret_cast<uintptr_t>(from) % 4;
      return {load_word(start), load_word(start + 4), load_word(start + 8)};
    }
  }

  // Byte by byte, as 8 bytes. Unrolled if the warp reads all rows so, else a short loop for one row.
  __device__ __forceinline__ uint2 gather(int row) const {
    uint64_t bytes = 0;
    if constexpr (kReads == Reads::single_bytes) {
#pragma unroll
      for (int v = 0; v < 8; ++v)
        if (columns.map[v] >= 0) bytes |= uint64_t(__ldg(at(row) + columns.map[v])) << 8 * v;
    } else {
#pragma unroll 1
      for (int v = 0; v < columns.count; ++v) bytes |= uint64_t(__ldg(columns.from + row * a.in_stride_h + v)) << 8 * v;
    }
    return {uint32_t(bytes), uint32_t(bytes >> 32)};
  }

  // Row `row` of the extended image, which is row `mapped` of the image, or outside.
  __device__ __forceinline__ Cells any_row(int row, int mapped) const {
    const uint32_t outside = a.outside * 0x01010101u;
    uint2 bytes{outside, outside};
    if (mapped >= 0) {
      if (kReads == Reads::single_bytes || (!kPeers && mapped >= strip.safe_rows)) {
        bytes = gather(mapped);
      } else if constexpr (kReads != Reads::single_bytes) {
        const Cells there = cells(start(mapped));
        if constexpr (kReads == Reads::vectors) return there;
        else bytes = aligned(there, bits(mapped));
      }
    }
    if constexpr (kReads != Reads::words) {
      return {bytes.x, bytes.y};
    } else {  // at the positions that they would have in this row
      const uint32_t by = bits(row) % 32;
      return {bytes.x << by, __funnelshift_l(bytes.x, bytes.y, by), __funnelshift_l(bytes.y, 0, by)};
    }
  }
  __device__ __forceinline__ uint2 aligned(const Cells& c, uint32_t bits) const {
    if constexpr (kReads == Reads::words)
      return {__funnelshift_r(c.words[0], c.words[1], bits), __funnelshift_r(c.words[1], c.words[2], bits)};
    else return {c.words[0], c.words[1]};
  }

  // `count` rows from `first` on, of which the last may lack.
  template <int N>
  __device__ __forceinline__ void load(int first, int count, Cells (&to)[N]) const {
    if (kReads != Reads::single_bytes && first >= 0 && first + N <= strip.safe_rows && count >= N) {
      const uint8_t* row = columns.from + first * a.in_stride_h;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        if constexpr (kReads != Reads::single_bytes) to[i] = cells(row);
        row = next_row(row, a.in_stride_h);
      }
    } else {
      const int mine = numbers.map(first + int(threadIdx.x % N), a.in_h, a.border);  // a row a lane
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const int mapped = __shfl_sync(0xffffffff, mine, i);
        to[i] = i < count ? any_row(first + i, mapped) : Cells{};
      }
    }
  }

  // sums[i] += a pair of columns of this row, or -= it.
  template <bool kLeaves>
  __device__ __forceinline__ void add(uint32_t (&sums)[4], const Cells& cells, uint32_t bits) const {
    const uint2 bytes = aligned(cells, bits);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t pair = __byte_perm(i < 2 ? bytes.x : bytes.y, 0, columns.select[i]);
      sums[i] = kLeaves ? sums[i] - pair : sums[i] + pair;
    }
  }
};

// The sums of the window before a segment's first one, a third of its rows: all warps have a share.
template <Reads kReads, bool kPeers>
__device__ __forceinline__ void start_columns(const ByteRows<kReads, kPeers>& rows, int share, uint32_t (&sums)[4]) {
  constexpr int N = kReads == Reads::vectors ? 8 : kReads == Reads::words ? 4 : 2;
  const ByteArgs& a = rows.a;
  const int top = rows.strip.y - a.pad_y - 1, each = (a.kh + 3 * N - 1) / (3 * N) * N;
  const int end = min(a.kh, (share + 1) * each);
  for (int i = share * each; i < end; i += N) {
    ByteCells<kReads> cells[N];
    rows.load(top + i, end - i, cells);
#pragma unroll
    for (int j = 0; j < N; ++j) rows.template add<false>(sums, cells[j], rows.bits(top + i + j));
  }
}

// Rows are read half a batch ahead, or less where that would take too many registers.
template <Reads kReads, bool kPeers>
__device__ __forceinline__ void add_columns(const ByteRows<kReads, kPeers>& rows, const Barriers& barriers,
                                            unsigned char* to, uint32_t (&sums)[4]) {
  constexpr int N = kReads == Reads::vectors ? 4 : kReads == Reads::words ? 2 : 1;
  const ByteStrip& strip = rows.strip;
  const int top = strip.y - rows.a.pad_y - 1, bottom = top + rows.a.kh, end = strip.batches * kByteRows;
  struct Some {
    ByteCells<kReads> entering[N], leaving[N];
  } even, odd;
  const auto load = [&](Some& some, int row) {
    rows.load(bottom + row, N, some.entering), rows.load(top + row, N, some.leaving);
  };
  const auto add = [&](const Some& some, int row, unsigned char* stage) {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      rows.template add<false>(sums, some.entering[j], rows.bits(bottom + row + j));
      rows.template add<true>(sums, some.leaving[j], rows.bits(top + row + j));
      *reinterpret_cast<uint4*>(stage + (row % kByteRows + j) * kByteRowPitch) =
          uint4{sums[0], sums[1], sums[2], sums[3]};
    }
  };
  load(even, 0);
  int stage = 0;
  for (int c = 0; c < strip.batches; ++c) {
    unsigned char* const there = to + stage * kByteStageBytes;
#pragma unroll 1
    for (int i = 0; i < kByteRows; i += 2 * N) {
      const int row = c * kByteRows + i;
      load(odd, row + N);
      if (i == 0 && c >= kByteStages) await(&barriers.empty[stage], c / kByteStages - 1);
      add(even, row, there);
      if (row + 2 * N < end) load(even, row + 2 * N);
      add(odd, row + N, there);
    }
    arrive(&barriers.full[stage]);
    stage = next_slot(stage, kByteStages);
  }
}

}  // namespace torch_conv::box
