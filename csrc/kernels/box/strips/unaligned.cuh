// Reads of a column warp: 16-bit rows of a strip with any alignment.
#pragma once

#include "core/cuda/unaligned_rows.cuh"
#include "kernels/box/strips/reads.cuh"

namespace torch_conv::box {

// A thread has 4 neighbouring columns, a warp 128. A warp's lanes copy the vectors of 16 bytes that hold its columns of
// entering rows. A row's offset `behind` a vector is the same in shared memory as in memory. A thread's columns are in
// three words of 4 bytes, or in two:
//
//     words of 4 bytes   |  a  b  |  c  d  |  e  f  |        b to e, if rows are an odd number of elements behind
//
// Columns outside the image are masked. kGathered: the border has values for them, and each thread loads its elements
// one by one; the row then starts at a word.
//
// Lanes copy for each other, so they synchronise after each has waited for its own copies. One stage more than those
// that are being copied makes this enough: a stage is written again only behind the next synchronisation.
template <typename T, int kSubtiles, bool kPolicies, bool kGathered, bool kPeers>
struct UnalignedColumns {
  static_assert(sizeof(T) == 2);
  using Cell = unsigned;
  // The words of 8 rows. Bits 4 j to 4 j + 3 of the last: bytes from the start of row j's first word to the row.
  static constexpr int kKept = kGathered ? 2 : 3;
  using Leaving = unsigned[kGroup * kKept + 1];
  static constexpr int kColumns = 128, kWords = kColumns * 2 / 16, kRowCells = 4 * kWords + 4;
  static_assert(kRowCells * 4 == warp_row_bytes(2, false, false));

  SubtileRows<T, kPeers> image;  // ... and `plane` is the warp's first column in row 0
  // Bytes from the start of the image's row to that column, and from there to the end of the columns that are read.
  int before, stop;
  int count;     // of the thread's columns that are read, from its first one
  int map[4];    // gathered: columns from the warp's first, INT_MIN: not read, the value is `outside`
  bool gathers;  // the warp's columns are to be gathered
  T outside;
  // Vectors of 16 bytes with the last columns of a row extend beyond them. In rows below whole_rows they do not
  // extend beyond the plane's last element, behind which memory may end: they are read whole. In later rows only bytes
  // of the plane are, and of rows of other shards.
  int whole_rows;
  const StripArgs& a;

  __device__ UnalignedColumns(const StripArgs& a, const Strip<kSubtiles>& strip)
      : UnalignedColumns(a, strip,
                         strip.only_subtile.template begin<kSubtiles>(a) * kChannels<kSubtiles> -
                             (kSubtiles > 1 ? a.shift : 0) + int(threadIdx.x) / 32 * kColumns) {}
  __device__ UnalignedColumns(const StripArgs& a, const Strip<kSubtiles>& strip, int first)
      : image(SubtileRows<T, kPeers>::of(a, strip, 0, strip.only_subtile.in + first)), a(a) {
    constexpr int C = kChannels<kSubtiles>;
    const Subtile& subtile = strip.only_subtile;
    const int lane = threadIdx.x % 32, height = image.height;
    const int width = a.in_w * C, end = subtile.end(a) * C, own_column = first + 4 * lane;
    bool mapped = false;
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      const int x = own_column + v;
      const int to = column_to_read<C>(subtile, x, end, width, a.border);
      map[v] = to < 0 ? INT_MIN : to - first;
      mapped = mapped || (to >= 0 && (x < 0 || x >= width));
    }
    outside = from_acc<T>(float(a.outside));
    // Masks put zeros behind a thread's columns, never before them: a thread whose columns begin left of the image and
    // end inside it cannot use them either.
    gathers = a.outside != 0 || __any_sync(0xffffffff, mapped || (own_column < 0 && own_column > -4));
    // The end of the subtile's columns, rounded up to a multiple of 4, at most the image's edge: threads read all of
    // their columns or none.
    const int last = min(first + ((max(end - first, 0) + 3) & ~3), width);
    before = first * 2, stop = max(last - first, 0) * 2;
    count = own_column < 0 ? 0 : max(min(last - own_column, 4), 0);
    const T* const from = image.plane;
    const int64_t stride = image.stride;
    const auto address = [&](int x, int row) { return reinterpret_cast<uintptr_t>(from + (x - first) + row * stride); };
    const bool all = ((address(last, height - 1) + 15) & ~uintptr_t(15)) <= address(width, height - 1);
    // Rows of 16 bytes or more: a vector beyond the end of the last but one is still in the last.
    whole_rows = all ? height : stride >= 8 ? height - 1 : 0;
  }

  static __device__ __forceinline__ int first_cell() { return int(threadIdx.x) / 32 * kRowCells; }
  __device__ __forceinline__ void lanes_meet() const { box::lanes_meet(); }

  // Row j of 8, whose words start at `cell`.
  __device__ __forceinline__ Quad entering(const Cell* cell, int j, unsigned behind) const {
    const unsigned* const at = cell + 2 * (threadIdx.x % 32) + (behind >> (4 * j + 2) & 3);
    return quad(at[0], at[1], at[kGathered ? 1 : 2], j, behind);
  }
  __device__ __forceinline__ Quad leaving(const Leaving& from, int j) const {
    return quad(from[j * kKept], from[j * kKept + 1], from[j * kKept + kKept - 1], j, from[kGroup * kKept]);
  }

  // 8 rows into registers.
  __device__ __forceinline__ void load(int first, Leaving& to) const {
    to[kGroup * kKept] = 0;
    if constexpr (kGathered) {
      const int mapped = image.map_of_lane(first);
#pragma unroll
      for (int j = 0; j < kGroup; ++j) put(to + j * kKept, gather(__shfl_sync(0xffffffff, mapped, j)));
    } else if (first >= 0 && first + kGroup <= whole_rows) {
      const T* row = own_columns(image.plane + first * image.stride);
      const uint64_t pass = pass_policy<kPolicies>();  // kept ones would take registers that are not there
#pragma unroll
      for (int j = 0; j < kGroup; ++j, row += image.stride) load_row(to, j, row, true, pass);
    } else {
      const uint64_t pass = pass_policy<kPolicies>();
      const int mapped = image.map_of_lane(first);
#pragma unroll
      for (int j = 0; j < kGroup; ++j) {
        const int row = __shfl_sync(0xffffffff, mapped, j);
        load_row(to, j, own_columns(at(max(row, 0))), row >= 0 && row < whole_rows, pass);
        if (row >= whole_rows) {
          put(to + j * kKept, elements(row));
          to[kGroup * kKept] &= ~(15u << 4 * j);
        }
      }
    }
  }

  // Entering rows are copied into shared memory asynchronously, never one by one.
  struct CopyRows {
    bool one_by_one = false;
  };
  __device__ __forceinline__ CopyRows rows(int) const { return {}; }
  __device__ __forceinline__ void copy_one(CopyRows&, Cell*) const {}
  // Any 8 rows, and their offsets to words in the form of Leaving.
  __device__ __forceinline__ unsigned copy(int first, Cell* to, int pitch) const {
    const int lane = threadIdx.x % 32, j = lane % kGroup;
    if constexpr (kGathered) {
      const int mapped = image.map_of_lane(first);
#pragma unroll 1
      for (int i = 0; i < kGroup; i += 4, to += 4 * pitch) {
        // Single elements are waited for: those of 4 rows.
        Cells4<T> cells[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) cells[k] = gather(__shfl_sync(0xffffffff, mapped, i + k));
#pragma unroll
        for (int k = 0; k < 4; ++k) put(to + 2 * lane + k * pitch, cells[k]);
      }
      return 0;
    } else {
      return copy_group(first, to, pitch);
    }
  }

 private:
  // 8 rows by vectors of 16 bytes: lane i copies word i % 16 of two rows at a time, and lanes 0 to 7 the 17th of a row
  // each.
  __device__ __forceinline__ unsigned copy_group(int first, Cell* to, int pitch) const {
    const int lane = threadIdx.x % 32, j = lane % kGroup;
    const uint64_t keep = keep_policy<kPolicies>();
    constexpr int kAtOnce = 32 / kWords;  // rows
    Cell* const own_cell = to + lane / kWords * pitch + lane % kWords * 4;
    const T* row;  // number j, which may have another word
    if (first >= 0 && first + kGroup <= whole_rows) {
      row = image.plane + (first + j) * image.stride;
      const T* at = image.plane + (first + lane / kWords) * image.stride;
#pragma unroll
      for (int i = 0; i < kGroup; i += kAtOnce, at += kAtOnce * image.stride)
        copy_word(own_cell + i * pitch, at, true, lane % kWords, keep);
      if (lane < kGroup) copy_word(to + j * pitch + 4 * kWords, row, true, kWords, keep);
    } else {
      const int mapped = image.map_of_lane(first);
      row = at(max(mapped, 0));
#pragma unroll 1
      for (int i = 0; i < kGroup; i += kAtOnce)
        copy_any_word(own_cell + i * pitch, __shfl_sync(0xffffffff, mapped, i + lane / kWords), lane % kWords, keep);
      if (lane < kGroup) copy_any_word(to + j * pitch + 4 * kWords, mapped, kWords, keep);
    }
    return or_of_lanes(unsigned(reinterpret_cast<uintptr_t>(row) & 15) << 4 * j);
  }
  // Out of words, as far behind them as row j is.
  __device__ __forceinline__ Quad quad(unsigned a, unsigned b, unsigned c, int j, unsigned behind) const {
    const unsigned bits = (behind >> 4 * j & 2) * 8;
    unsigned pairs[2] = {__funnelshift_r(a, b, bits), __funnelshift_r(b, c, bits)};
    if constexpr (kGathered) {
      pairs[0] = a, pairs[1] = b;
    } else {
      pairs[0] &= count > 1 ? ~0u : count > 0 ? 0xffffu : 0u;
      pairs[1] &= count > 3 ? ~0u : count > 2 ? 0xffffu : 0u;
    }
    Cells4<T> cells;
    memcpy(&cells, pairs, 8);
    return unpack<T>(cells);
  }
  static __device__ __forceinline__ void put(unsigned* words, const Cells4<T>& cells) { memcpy(words, &cells, 8); }
  // The warp's first column of a row.
  __device__ __forceinline__ const T* at(int row) const {
    const T* const at = image.at(row);
    return kPeers && row >= image.height ? at + before / 2 : at;
  }
  // The thread's columns of a row, one by one.
  __device__ __forceinline__ T element(int row, int v) const {
    return row < 0 || map[v] == INT_MIN ? outside : load_read_only(at(row) + map[v]);
  }
  __device__ __forceinline__ Cells4<T> gather(int row) const {
    return cells_of(element(row, 0), element(row, 1), element(row, 2), element(row, 3));
  }
  __device__ __forceinline__ Cells4<T> elements(int row) const {
    const T* const at = own_columns(this->at(row));
    Cells4<T> cells{};
#pragma unroll
    for (int v = 0; v < 4; ++v)
      if (v < count) cells.v[v] = load_read_only(at + v);
    return cells;
  }
  static __device__ __forceinline__ const T* own_columns(const T* row) { return row + 4 * (threadIdx.x % 32); }
  __device__ __forceinline__ void load_row(Leaving& to, int j, const T* row, bool present, uint64_t pass) const {
    hold(row);
    const int odd = int(reinterpret_cast<uintptr_t>(row) / 2) & 1;
    load_three_words<kPolicies>(to + j * kKept, word_of(row), present && count > 0, present && count > 2 - odd,
                                present && odd && count > 3, pass);
    to[kGroup * kKept] |= unsigned(odd) << (4 * j + 1);
  }
  // Word k of the row whose first column in this warp is at `row`: bytes from there.
  static __device__ __forceinline__ int word_at(const T* row, int k) {
    return 16 * k - int(reinterpret_cast<uintptr_t>(row) & 15);
  }
  __device__ __forceinline__ bool is_read(int at) const {
    const int begin = max(-before, 0);
    return begin < stop && at < stop && at + 16 > begin;
  }
  __device__ __forceinline__ void copy_word(Cell* to, const T* row, bool present, int k, uint64_t keep) const {
    const int at = word_at(row, k);
    const bool some = present && is_read(at);
    const uintptr_t image = reinterpret_cast<uintptr_t>(a.in) & ~uintptr_t(15);
    copy_word16<kPolicies>(to, some ? reinterpret_cast<const char*>(row) + at : reinterpret_cast<const char*>(image),
                           some, keep);
  }
  // Row -1 is one outside.
  __device__ __forceinline__ void copy_any_word(Cell* to, int row, int k, uint64_t keep) const {
    const T* const start = this->at(max(row, 0));
    const int at = word_at(start, k), row_end = a.in_w * kChannels<kSubtiles> * 2 - before;
    if (row >= whole_rows && is_read(at) && at + 16 > row_end)
      store_bytes(reinterpret_cast<char*>(to), reinterpret_cast<const char*>(start) + at, row_end - at);
    else copy_word(to, start, row >= 0, k, keep);
  }
};

}  // namespace torch_conv::box
