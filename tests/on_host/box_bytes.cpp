// box_bytes as its plans launch it, on the host: exactly rounded means and clamped sums, nothing written beside the
// output, and nothing read beside the image but what words of its bytes hold. Also of an image that is cut along h,
// shard by shard.
#include <cstring>
#include <map>
#include <random>
#include <string>

#include "cuda.h"
#include "guarded.h"
#include "report.h"
using std::fmaf;
#undef __shared__
#define __shared__
#include "kernels/box/bytes/kernel.cuh"
#include "kernels/box/plan.h"

namespace torch_conv::box {
alignas(128) unsigned char shared[1 << 17];
}

using namespace torch_conv;
using namespace torch_conv::box;

namespace {

enum class Layout { dense, padded, unaligned };
using Layout::padded, Layout::unaligned;

struct Case {
  int64_t h, w, kh, kw, pad_y, pad_x;
  Border border = Border::constant;
  double value = 0;
  bool mean = true;
  Layout in = Layout::dense, out = Layout::dense;
  int64_t lost_h = 0, lost_w = 0;  // rows and columns that the output lacks
  int most = 256;                  // pixels are below
  int hwc = 1;                     // interleaved channels
  std::vector<int64_t> shards{};   // their rows
};

Case of_hwc(int channels, Case k) {
  k.hwc = channels;
  return k;
}

Case in_shards(std::vector<int64_t> rows, Case k) {
  k.shards = rows;
  return k;
}

const Case kCases[] = {
    {40, 1120, 15, 15, 7, 7, Border::reflect},
    {33, 1117, 15, 15, 7, 7, Border::reflect},
    {40, 1120, 15, 15, 7, 7, Border::circular},
    {21, 1117, 15, 15, 7, 7, Border::circular},
    {21, 64, 15, 15, 7, 7, Border::reflect, 0, true, unaligned},
    {21, 64, 15, 15, 7, 7, Border::reflect, 0, true, padded, unaligned},
    {21, 61, 15, 15, 7, 7, Border::constant, 255, true, padded, padded},
    {21, 61, 15, 15, 7, 7, Border::constant, 3, true, unaligned},
    {37, 130, 15, 15, 0, 0, Border::constant, 0, true, Layout::dense, Layout::dense, 14, 14},
    {21, 70, 15, 15, 20, 3, Border::replicate},
    {21, 1100, 16, 31, 15, 0, Border::symmetric},
    {21, 1101, 16, 31, 15, 0, Border::symmetric},
    {40, 96, 9, 33, 4, 32, Border::replicate},
    {19, 70, 1, 64, 0, 31, Border::circular},
    {19, 64, 33, 1, 16, 0, Border::reflect},
    {19, 67, 1, 1, 0, 0, Border::reflect},
    {9, 1030, 4, 6, 2, 3, Border::constant, 0, true, Layout::dense, Layout::dense, 0, 0, 2},
    {40, 64, 257, 256, 128, 127, Border::reflect},
    {40, 64, 257, 256, 128, 127, Border::reflect, 0, true, Layout::dense, Layout::dense, 0, 32},
    {12, 72, 20, 255, 10, 127, Border::reflect},
    {12, 40, 20, 255, 10, 127, Border::symmetric},
    {12, 48, 20, 255, 10, 127, Border::circular},
    of_hwc(3, {12, 24, 12, 100, 4, 32, Border::reflect}),
    {210, 240, 200, 200, 100, 100, Border::reflect, 0, true, Layout::dense, Layout::dense, 0, 0, 2},
    {17, 400, 255, 255, 127, 127, Border::constant, 1, true, Layout::dense, Layout::dense, 0, 0, 2},
    {12, 1100, 257, 255, 128, 127, Border::symmetric},
    {12, 64, 255, 258, 128, 200, Border::constant, 255},
    {12, 700, 20, 500, 10, 400, Border::replicate},
    {30, 132, 12, 7, 11, 0, Border::skip},
    {30, 131, 12, 7, 5, 3, Border::skip, 0, false},
    {30, 131, 12, 7, 5, 3, Border::zero_output},
    {30, 160, 12, 7, 5, 3, Border::zero_output, 0, true, padded, padded},
    {3, 5, 45, 37, 22, 18, Border::reflect},
    {3, 5, 45, 37, 22, 18, Border::skip},
    {1, 3, 9, 9, 4, 4, Border::symmetric},
    {30, 99, 3, 3, 1, 1, Border::reflect, 0, false, Layout::dense, Layout::dense, 0, 0, 40},
    {9, 200, 190, 190, 90, 90, Border::skip},
    {9, 320, 5, 65, 2, 32, Border::reflect},
    {9, 331, 5, 65, 2, 32, Border::reflect},
    {9, 320, 5, 129, 2, 64, Border::constant, 9},
    of_hwc(3, {40, 400, 15, 15, 7, 7, Border::reflect}),
    of_hwc(3, {40, 401, 15, 15, 7, 7, Border::symmetric}),
    of_hwc(3, {21, 352, 15, 15, 7, 7, Border::circular}),
    of_hwc(3, {21, 351, 16, 31, 15, 0, Border::replicate}),
    of_hwc(4, {21, 300, 9, 33, 4, 32, Border::constant, 200}),
    of_hwc(2, {21, 300, 9, 65, 4, 32, Border::skip}),
    of_hwc(3, {21, 300, 12, 100, 4, 32, Border::zero_output}),
    of_hwc(3, {21, 400, 12, 7, 11, 0, Border::skip}),
    of_hwc(3, {5, 3, 45, 37, 22, 18, Border::reflect}),
    of_hwc(3, {21, 64, 15, 15, 7, 7, Border::reflect, 0, true, padded, unaligned}),
    in_shards({17, 15, 16}, {48, 1120, 15, 15, 7, 7, Border::reflect}),
    in_shards({9, 7, 16}, {32, 1120, 15, 15, 7, 7, Border::circular}),
    in_shards({17, 15}, {32, 64, 15, 15, 7, 7, Border::constant, 255, true, padded, unaligned}),
    in_shards({20, 17, 23}, {60, 120, 15, 15, 0, 7, Border::constant, 0, true, padded, padded, 14}),
    in_shards({12, 13, 14}, {39, 160, 12, 7, 11, 0, Border::skip}),
    in_shards({12, 13, 14}, {39, 160, 12, 7, 5, 3, Border::zero_output, 0, true, padded, padded}),
    in_shards({110, 100, 105}, {315, 240, 200, 200, 100, 100, Border::symmetric, 0, true, padded}),
    in_shards({17, 15, 16}, of_hwc(3, {48, 352, 15, 15, 7, 7, Border::replicate})),
};

#define KERNEL(...) \
  { "box::box_bytes<box::BytePolicy{" #__VA_ARGS__ "}>", box_bytes<BytePolicy{__VA_ARGS__}> }
#define KERNEL_OF_SHARDS(...) \
  { "box::box_bytes<box::BytePolicy{" #__VA_ARGS__ "}, true>", box_bytes<BytePolicy{__VA_ARGS__}, true> }
#define WHOLE(h, c, split, rounding, finish, ...) \
  KERNEL(h, c, split, box::Rounding::rounding, box::Finish::finish, __VA_ARGS__)
#define SHARDS(h, c, split, rounding, finish, ...) \
  KERNEL_OF_SHARDS(h, c, split, box::Rounding::rounding, box::Finish::finish, __VA_ARGS__)
const std::map<std::string, void (*)(ByteArgs)> kKernels = {
    WHOLE(1, 1, 0, once, scale, false, false),
    WHOLE(1, 1, 0, once, scale, true, true),
    WHOLE(100, 3, 0, twice, interior, false, false),
    WHOLE(100, 3, 0, twice, scale, true, false),
    WHOLE(129, 1, 0, once, scale, true, true),
    WHOLE(15, 1, 0, once, scale, false, false),
    WHOLE(15, 1, 0, once, scale, true, false),
    SHARDS(15, 1, 0, once, scale, true, false),
    WHOLE(15, 1, 1, once, scale, false, true),
    WHOLE(15, 1, 1, once, scale, true, true),
    SHARDS(15, 1, 1, once, scale, true, true),
    WHOLE(15, 3, 0, once, scale, false, false),
    WHOLE(15, 3, 0, once, scale, true, false),
    WHOLE(15, 3, 3, once, scale, true, true),
    SHARDS(15, 3, 3, once, scale, true, true),
    WHOLE(190, 1, 0, twice_centred, mean_inside, true, false),
    WHOLE(200, 1, 5, twice_centred, scale, true, true),
    SHARDS(200, 1, 5, twice_centred, scale, true, true),
    WHOLE(255, 1, 0, once_centred, scale, false, false),
    WHOLE(255, 1, 0, twice, scale, false, false),
    WHOLE(255, 1, 0, twice, scale, true, false),
    WHOLE(255, 1, 1, once_centred, scale, true, true),
    WHOLE(255, 1, 1, twice, scale, true, true),
    WHOLE(256, 1, 0, twice_centred, scale, true, true),
    WHOLE(258, 1, 7, twice_centred, scale, true, true),
    WHOLE(3, 1, 0, clamp, scale, false, false),
    WHOLE(31, 1, 0, twice, scale, false, false),
    WHOLE(31, 3, 0, twice, scale, false, false),
    WHOLE(33, 1, 0, once, scale, true, true),
    WHOLE(33, 4, 0, once, scale, true, true),
    WHOLE(37, 1, 0, once, mean_inside, false, false),
    WHOLE(37, 1, 0, once, scale, false, false),
    WHOLE(37, 3, 0, once, scale, false, false),
    WHOLE(500, 1, 0, twice, scale, false, false),
    WHOLE(6, 1, 0, twice, scale, false, false),
    WHOLE(64, 1, 0, once, scale, false, false),
    WHOLE(65, 1, 0, once, scale, false, false),
    WHOLE(65, 1, 0, once, scale, true, true),
    WHOLE(65, 2, 0, once, mean_inside, true, false),
    WHOLE(7, 1, 0, clamp, scale, false, false),
    WHOLE(7, 1, 0, twice, interior, false, false),
    WHOLE(7, 1, 0, twice, mean_inside, false, false),
    SHARDS(7, 1, 2, twice, mean_inside, true, true),
    WHOLE(7, 1, 5, twice, interior, true, true),
    SHARDS(7, 1, 5, twice, interior, true, true),
    WHOLE(7, 3, 6, twice, mean_inside, true, true),
    WHOLE(9, 1, 0, once, scale, false, false),
};

constexpr int64_t kN = 1, kSpare = 256;

struct Memory {
  std::vector<uint8_t> bytes;
  Image image;
  // `more`: vectors between rows.
  Memory(int64_t h, int64_t pixels, Layout layout, int hwc, int64_t more = 0) {
    const int64_t w = pixels * hwc, planes = hwc > 1 ? 1 : 2;
    const int64_t pitch = layout == padded ? round_up(w + 3, 16) + 16 : layout == unaligned ? w + 3 : w + 8 * more;
    // Kernels may read memory before an image, up to a whole word. They may read nothing behind its last row.
    const int64_t lead = layout == unaligned ? 3 : 0, rows = planes * h;
    bytes.assign(kSpare + lead + rows * pitch + kSpare, 0x55);
    uint8_t* const start =
        reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(bytes.data()) + kSpare - 1) / 64 * 64) + lead;
    if (hwc > 1) image = {start, Dtype::u8, kN, hwc, 1, h, pixels, h * pitch, 1, 0, pitch, hwc};
    else image = {start, Dtype::u8, kN, planes, 1, h, w, planes * h * pitch, h * pitch, 0, pitch, 1};
  }
};

uint8_t& pixel(const Image& x, int64_t c, int64_t y, int64_t at) {
  return static_cast<uint8_t*>(x.data)[c * x.stride_c + y * x.stride_h + at * x.stride_w];
}

int64_t inside(int64_t first, int64_t k, int64_t length) {
  return std::max<int64_t>(0, std::min(first + k, length) - std::max<int64_t>(first, 0));
}

// Exact means by prefix sums of the extended image's rows.
std::vector<uint8_t> expected(const Box& p) {
  const Placement& s = p.place;
  std::vector<uint8_t> result;
  for (int64_t c = 0; c < p.out.c; ++c) {
    const int64_t height = p.out.h + p.kh - 1, width = p.out.w + p.kw - 1;
    std::vector<int64_t> sums((height + 1) * (width + 1));
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x) {
        const int64_t row = map_index(y - s.pad_y, p.in.h, s.border), column = map_index(x - s.pad_x, p.in.w, s.border);
        const int64_t outside = s.border == Border::constant ? int64_t(s.value) : 0;
        const int64_t v = row < 0 || column < 0 ? outside : pixel(p.in, c, row, column);
        int64_t* const at = &sums[(y + 1) * (width + 1) + x + 1];
        *at = v + at[-1] + at[-width - 1] - at[-width - 2];
      }
    for (int64_t y = 0; y < p.out.h; ++y)
      for (int64_t x = 0; x < p.out.w; ++x) {
        const int64_t* const at = &sums[y * (width + 1) + x];
        int64_t sum = at[p.kh * (width + 1) + p.kw] - at[p.kw] - at[p.kh * (width + 1)] + at[0];
        const int64_t count = inside(y - s.pad_y, p.kh, p.in.h) * inside(x - s.pad_x, p.kw, p.in.w);
        int64_t area = p.scale == 1 ? 1 : p.kh * p.kw;
        if (s.border == Border::skip && s.normalized) area = std::max<int64_t>(count, 1);
        if (s.border == Border::zero_output && count < p.kh * p.kw) sum = 0;
        int64_t mean = sum / area;
        const int64_t rest = 2 * (sum - mean * area);
        mean += rest > area || (rest == area && mean % 2 == 1);
        result.push_back(uint8_t(std::min<int64_t>(mean, 255)));
      }
  }
  return result;
}

Box box_of(const Case& k, const Image& in, const Image& out) {
  return {.in = in,
          .out = out,
          .kh = k.kh,
          .kw = k.kw,
          .scale = k.mean ? 1 / double(k.kh * k.kw) : 1,
          .place = {.pad_y = k.pad_y,
                    .pad_x = k.pad_x,
                    .border = k.border,
                    .value = k.value,
                    .normalized = k.mean && k.border == Border::skip},
          .whole_h = k.h,
          .whole_w = k.w};
}

// Filters `p` into `to`, which are the outputs of the whole image from row `first` on, `want` those of all `h` rows.
bool check_outputs(const Case& k, const Box& p, Memory& to, const std::vector<uint8_t>& want, int64_t h,
                   int64_t first) {
  const std::vector<uint8_t> blank = to.bytes;
  const Arch arch{.major = 9, .minor = 0, .multiprocessors = 2, .shared_bytes = 232448, .bulk_copy = true};
  const Plan planned = plan_cuda(p, arch, "bytes");
  std::string wrong = planned.variant ? "" : planned.why;
  const std::string name = planned.variant ? planned.kernels[0].name : "";
  const auto kernel = kKernels.find(name);
  if (wrong.empty() && kernel == kKernels.end()) wrong = "no kernel " + name;
  if (wrong.empty()) {
    wrong =
        on_host::launch_within(shared, planned, kernel->second, byte_args(p, planned, own_config<ByteShape>(planned)));
    on_host::each_pixel(p.out, [&](int64_t, int64_t c, int64_t y, int64_t x) {
      uint8_t& got = pixel(p.out, c, y, x);
      const size_t i = (c * h + first + y) * p.out.w + x;
      if (got != want[i] && wrong.empty()) wrong = on_host::difference({c, y, x}, got, want[i]);
      got = blank[&got - to.bytes.data()];
    });
    // All other bytes are as before.
    if (wrong.empty() && to.bytes != blank) wrong = "something beside the output was written";
  }
  return on_host::report(wrong, "%s %lldx%lld in %lldx%lld %s, %lld rows from %lld on", name.c_str(), (long long)k.kh,
                         (long long)k.kw, (long long)k.h, (long long)k.w, name_of(k.border), (long long)p.out.h,
                         (long long)first);
}

bool check(const Case& k) {
  std::mt19937 make(1);
  Memory from(k.h, k.w, k.in, k.hwc), to(k.h - k.lost_h, k.w - k.lost_w, k.out, k.hwc);
  for (uint8_t& byte : from.bytes) byte = uint8_t(make() % k.most);
  const Box whole = box_of(k, from.image, to.image);
  const std::vector<uint8_t> want = expected(whole);
  const int64_t h = to.image.h;
  if (k.shards.empty()) return check_outputs(k, whole, to, want, h, 0);
  std::vector<Memory> shards;
  std::vector<int64_t> starts{0};
  for (const int64_t rows : k.shards) {
    shards.emplace_back(rows, k.w, k.in, k.hwc, int64_t(shards.size()));
    const Image& part = shards.back().image;
    on_host::each_pixel(part, [&](int64_t, int64_t c, int64_t y, int64_t x) {
      pixel(part, c, y, x) = pixel(from.image, c, starts.back() + y, x);
    });
    starts.push_back(starts.back() + rows);
  }
  bool right = true;
  const size_t count = shards.size();
  const bool circular = k.border == Border::circular;
  for (size_t i = 0; i < count; ++i) {
    const auto outputs_before = [&](int64_t row) { return std::clamp<int64_t>(row - k.lost_h / 2, 0, h); };
    const int64_t first = outputs_before(starts[i]), end = outputs_before(starts[i + 1]);
    Memory part(end - first, k.w - k.lost_w, k.out, k.hwc);
    Box p = box_of(k, shards[i].image, part.image);
    p.place.pad_y = k.pad_y + starts[i] - first;
    if (i > 0 || circular) p.peers.above = shards[(i + count - 1) % count].image;
    if (i + 1 < count || circular) p.peers.below = shards[(i + 1) % count].image;
    right = check_outputs(k, p, part, want, h, first) && right;
  }
  return right;
}

}  // namespace

int main() { return on_host::status_of(kCases, check); }
