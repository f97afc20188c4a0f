// Reads of one thread of a column warp: any 4 columns of the strip's image.
#pragma once

#include <climits>

#include "core/border.h"
#include "kernels/box/shared/numbered_rows.cuh"
#include "kernels/box/strips/common.cuh"

namespace torch_conv::box {

template <typename T>
__device__ __forceinline__ Quad unpack(const Cells4<T>& cells) {
  if constexpr (sizeof(T) == 4) return cells;
  else
    return {to_acc<float>(cells.v[0]), to_acc<float>(cells.v[1]), to_acc<float>(cells.v[2]), to_acc<float>(cells.v[3])};
}

template <typename T>
__device__ __forceinline__ Cells4<T> cells_of(T a, T b, T c, T d) {
  return {a, b, c, d};
}

// The words of 4 bytes that hold 4 unaligned elements of 16 bits; the first element starts at bit `bits`.
struct alignas(16) Words {
  unsigned word[3], bits;
};
template <typename T>
__device__ __forceinline__ Quad unpack(const Words& words) {
  const unsigned pairs[2] = {__funnelshift_r(words.word[0], words.word[1], words.bits),
                             __funnelshift_r(words.word[1], words.word[2], words.bits)};
  Cells4<T> cells;
  memcpy(&cells, pairs, sizeof(cells));
  return unpack<T>(cells);
}
__device__ __forceinline__ unsigned bits_behind_word(const void* p) {
  return unsigned(reinterpret_cast<uintptr_t>(p) & 3) * 8;
}
__device__ __forceinline__ const unsigned* word_of(const void* p) {
  return reinterpret_cast<const unsigned*>(reinterpret_cast<uintptr_t>(p) & ~uintptr_t(3));
}
// The last of 4 elements where memory may end with it: the word beyond is not read.
template <typename T>
__device__ __forceinline__ unsigned last_element(const T* from) {
  const T last = load_read_only(from + 3);
  unsigned word = 0;
  memcpy(&word, &last, sizeof(last));
  return word;
}

// 4 elements, or zeros, into registers. `ends`: they are the last ones of an image's rows.
template <typename T>
__device__ __forceinline__ void load_words(Words& words, const T* from, bool present, bool ends) {
  words = {{0, 0, 0}, bits_behind_word(from)};
  const unsigned* const at = word_of(from);
  if (present) words.word[0] = __ldg(at), words.word[1] = __ldg(at + 1);
  if (present && words.bits && !ends) words.word[2] = __ldg(at + 2);
  if (present && words.bits && ends) words.word[2] = last_element(from);
}
// Copies the words of load_words to shared memory asynchronously.
template <typename T>
__device__ __forceinline__ void copy_words(Words* to, const T* from, bool present, bool ends) {
  const unsigned bits = bits_behind_word(from);
  const unsigned* const at = word_of(from);
  async_copy<4>(&to->word[0], at, present ? 4 : 0);
  async_copy<4>(&to->word[1], at + 1, present ? 4 : 0);
  if (present && bits && ends) to->word[2] = last_element(from);
  else async_copy<4>(&to->word[2], at + 2, present && bits ? 4 : 0);
  to->bits = bits;
}

// The column of the image that column x of the extended image repeats, -1: it is not read. `end`: where the subtile's
// columns end; `width`: of the image's rows of C interleaved channels.
template <int C>
__device__ __forceinline__ int column_to_read(const Subtile& subtile, int x, int end, int width, Border border) {
  const bool inside = x >= 0 && x < width;
  return x < end && (inside || !subtile.mirrors) ? map_column(x, width, C, border) : -1;
}

// The rows that a subtile's windows read, by their numbers (NumberedRows).
template <typename T, bool kPeers>
struct SubtileRows {
  const T* plane;
  int64_t stride;
  int height;
  Border border;
  NumberedRows<kPeers> rows;

  // The rows of the strip's subtile `number`; `first`: elements from the image's start to the plane.
  template <int kSubtiles>
  static __device__ SubtileRows of(const StripArgs& a, const Strip<kSubtiles>& strip, int number, int64_t first) {
    const unsigned item = strip.first + number;
    return {static_cast<const T*>(a.in) + first, a.in_stride_h, a.in_h, a.border,
            NumberedRows<kPeers>::of(a.peers, item / a.tiles, a.channels)};
  }
  // Whether the 8 rows from `first` on are inside the plane.
  __device__ __forceinline__ bool hold(int first) const { return first >= 0 && first + kGroup <= height; }
  // The border maps 8 rows from `first` on. A lane maps row lane % 8; other lanes get it by a shuffle.
  __device__ __forceinline__ int map_of_lane(int first) const {
    return rows.map(first + int(threadIdx.x % kGroup), height, border);
  }
  // All 8. All lanes of a warp.
  __device__ __forceinline__ void map(int first, int (&to)[kGroup]) const {
    const int mapped = map_of_lane(first);
#pragma unroll
    for (int j = 0; j < kGroup; ++j) to[j] = __shfl_sync(0xffffffff, mapped, j);
  }
  // The start of row number `row`.
  __device__ __forceinline__ const T* at(int row) const { return rows.at(plane, stride, row, height); }
  // Whether memory may end with this row.
  __device__ __forceinline__ bool is_last(int row) const { return row >= height - 1; }
};

// Four neighbouring columns of a strip, for rows that start on whole vectors, and for neighbouring tiles, whose columns
// are in several planes. The other cases are in spread.cuh and unaligned.cuh.
//
// kAnywhere: warps at the image's edges have separate code, which keeps the code of the others short. Without it every
// lane's columns are contiguous in the image, or all are outside and 0. Unaligned 16-bit elements come in words of 4
// bytes, which the thread shifts.
template <typename T, int kSubtiles, bool kVectors, bool kPolicies, bool kAnywhere, bool kPeers>
struct StripColumns {
  static_assert(kVectors || kSubtiles == 0);
  static constexpr bool kWords = sizeof(T) == 2 && !kVectors;
  using Cells = std::conditional_t<kWords, Words, Cells4<T>>;  // a row's elements in the thread's registers
  using Cell = Cells;
  using Leaving = Cells[kGroup];
  static_assert(32 * sizeof(Cells) == warp_row_bytes(sizeof(T), kVectors, kSubtiles == 0));

  SubtileRows<T, kPeers> image;
  int map[4];       // elements from the start of the image's row, -1: not read, the value is `outside`
  bool whole;       // contiguous
  bool is_partial;  // neither that nor all outside, with zeros
  bool ends;        // the image's rows end with them
  T outside;
  Policies l2;

  __device__ StripColumns(const StripArgs& a, const Strip<kSubtiles>& strip)
      : StripColumns(a, strip, strip.number(a, threadIdx.x)) {}
  __device__ StripColumns(const StripArgs& a, const Strip<kSubtiles>& strip, int number)
      : image(SubtileRows<T, kPeers>::of(a, strip, number, strip.subtile(number).in)), l2(policies<kPolicies>()) {
    constexpr int C = kChannels<kSubtiles>;
    const Subtile& subtile = strip.subtile(number);
    const int first = subtile.begin<kSubtiles>(a) * C - (C > 1 ? a.shift : 0) + 4 * int(threadIdx.x) - number * a.pitch;
    const int end = subtile.valid > 0 ? subtile.end(a) * C : INT_MIN;
    whole = first >= 0 && first + 4 <= a.in_w * C && first < end;
    ends = first + 4 == a.in_w * C;
    bool any = false;
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      map[v] = whole ? first + v : column_to_read<C>(subtile, first + v, end, a.in_w * C, a.border);
      any = any || map[v] >= 0;
    }
    outside = from_acc<T>(float(a.outside));
    is_partial = a.outside != 0 || (any && !whole);
  }

  static __device__ __forceinline__ int first_cell() { return threadIdx.x; }
  __device__ __forceinline__ void lanes_meet() const {}
  __device__ __forceinline__ Quad entering(const Cells* cell, int, unsigned) const { return unpack<T>(*cell); }
  __device__ __forceinline__ Quad leaving(const Leaving& from, int j) const { return unpack<T>(from[j]); }

  __device__ __forceinline__ T element(int row, int v) const {
    return row < 0 || map[v] < 0 ? outside : load_read_only(image.at(row) + map[v]);
  }
  __device__ __forceinline__ Cells4<T> gather(int row) const {
    return cells_of(element(row, 0), element(row, 1), element(row, 2), element(row, 3));
  }
  static __device__ __forceinline__ Cells kept(const Cells4<T>& cells) {
    Cells kept{};
    memcpy(&kept, &cells, sizeof(cells));
    return kept;
  }
  // The thread's columns of the row at `start`, or zeros. `last`: memory may end with the row.
  __device__ __forceinline__ void load_one(Cells& to, const T* start, bool present, bool last) const {
    const T* const from = start + max(map[0], 0);
    if constexpr (kVectors) {
      load_cells4<T, kPolicies>(to, from, present, l2.pass);
    } else if constexpr (kWords) {
      load_words(to, from, present, ends && last);
    } else {
      to = {};
      if (present) to = {__ldg(from), __ldg(from + 1), __ldg(from + 2), __ldg(from + 3)};
    }
  }

  // 8 rows into registers.
  __device__ __forceinline__ void load(int first, Leaving& to) const {
    if constexpr (!kAnywhere) {
      if (image.hold(first)) {
#pragma unroll
        for (int j = 0; j < kGroup; ++j)
          load_one(to[j], image.plane + (first + j) * image.stride, whole, first + j == image.height - 1);
        return;
      }
    }
    int rows[kGroup];
    image.map(first, rows);
#pragma unroll
    for (int j = 0; j < kGroup; ++j) {
      if constexpr (kAnywhere) to[j] = kept(gather(rows[j]));
      else load_one(to[j], image.at(max(rows[j], 0)), whole && rows[j] >= 0, image.is_last(rows[j]));
    }
  }

  // Entering rows are copied into shared memory asynchronously. A thread reads only its own copies. Rows of the image
  // can be copied one by one between other work.
  struct CopyRows {
    const T* from;
    bool one_by_one;
  };
  __device__ __forceinline__ CopyRows rows(int first) const {
    return {image.plane + first * image.stride, kVectors && !kAnywhere && image.hold(first)};
  }
  __device__ __forceinline__ void copy_one(CopyRows& rows, Cells* to) const {
    if constexpr (kVectors) copy_cells4<T, kPolicies>(to, rows.from + max(map[0], 0), whole, l2.keep);
    rows.from += image.stride;
  }
  // Copies the elements of `load_one`.
  __device__ __forceinline__ void copy_own(Cells* to, const T* start, bool present, bool last) const {
    const T* const from = start + max(map[0], 0);
    if constexpr (kVectors) {
      copy_cells4<T, kPolicies>(to, from, present, l2.keep);
    } else if constexpr (kWords) {
      copy_words(to, from, present, ends && last);
    } else {
#pragma unroll
      for (int v = 0; v < 4; ++v) async_copy<4>(&to->x + v, from + v, present ? 4 : 0);
    }
  }
  // 4 rows, -1: outside, of any columns.
  __device__ __forceinline__ void copy_anywhere(const int (&rows)[4], Cells* to, int pitch) const {
    if (whole) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (rows[i] >= 0) copy_own(to + i * pitch, image.at(rows[i]), true, image.is_last(rows[i]));
        else to[i * pitch] = kept(gather(-1));
      }
    } else if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const int row = rows[i / 4], column = map[i % 4];
        float* const cell = &to[i / 4 * pitch].x + i % 4;
        if (row >= 0 && column >= 0) async_copy<4>(cell, image.at(row) + column);
        else *cell = outside;
      }
    } else {
      // Single elements of 16 bits are waited for: those of all rows. (One row after the other, an image whose last
      // columns are not four took three times as long: float16 16x3x1080x1917 15x15 464 us, one NVIDIA H100.)
      Cells4<T> cells[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) cells[i] = gather(rows[i]);
#pragma unroll
      for (int i = 0; i < 4; ++i) to[i * pitch] = kept(cells[i]);
    }
  }
  // Any rows.
  __device__ __forceinline__ unsigned copy(int first, Cells* to, int pitch) const {
    if constexpr (kAnywhere) {
      const int mapped = image.map_of_lane(first);
#pragma unroll 1
      for (int j = 0; j < kGroup; j += 4, to += 4 * pitch) {
        int rows[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) rows[i] = __shfl_sync(0xffffffff, mapped, j + i);
        copy_anywhere(rows, to, pitch);
      }
    } else if (kVectors && image.hold(first)) {
      CopyRows coming = rows(first);
#pragma unroll
      for (int j = 0; j < kGroup; ++j) copy_one(coming, to + j * pitch);
    } else {
      int rows[kGroup];
      image.map(first, rows);
#pragma unroll
      for (int j = 0; j < kGroup; ++j)
        copy_own(to + j * pitch, image.at(max(rows[j], 0)), whole && rows[j] >= 0, image.is_last(rows[j]));
    }
    return 0;
  }
};

}  // namespace torch_conv::box
