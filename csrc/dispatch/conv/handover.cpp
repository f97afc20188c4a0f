#include "dispatch/conv/handover.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "tensors/boxed.h"
#include "tensors/torch_api.h"

namespace torch_conv {

namespace {

// Sets of bits; a convolution is one of each.
constexpr int cpu = Convolution::cpu, cuda = Convolution::cuda;
enum Axes { lines = 1, planes = 2, volumes = 4 };  // conv1d, conv2d, conv3d
enum Kind { depthwise = 1, image = 2, bank = 4 };  // one input channel a group; one in all; several a group
enum Layout { first = 1, last = 2 };               // where the channels are
enum Type { f32 = 1, f16 = 2, bf16 = 4, f64 = 8 };
enum Steps { unit = 1, strided = 2, dilated = 4 };
enum Outside { zeros = 1, others = 2 };
// Of planes 3x3, 5x5, 7x7; kh x 1; 1 x kw; all else. Of volumes 3x3x3, 5x5x5, 7x7x7; kd x 1 x 1; 1 x k x k; all else;
// and cubes of other sides.
enum Shape { odd = 1, column = 2, line = 4, other = 8, cube = 16 };
constexpr int all = 15;

struct Span {
  int64_t low = 1, high = int64_t(1) << 40;
};
constexpr Span from(int64_t low) { return {.low = low}; }
constexpr Span below(int64_t high) { return {.high = high - 1}; }
constexpr Span just(int64_t value) { return {value, value}; }

struct Ratio {
  double least, mostly, most;
};

// What is handed over. What a row leaves out is every value, but steps of 1 and zeros outside.
struct Row {
  int on, axes = planes, kind = depthwise, layout = all, type, steps = unit, outside = zeros, shape = all;
  Span window = {};      // its longest side; of a signal's with the gaps of dilation
  Span outs = {};        // output channels a group
  Span channels = {};    // of the input
  Span side = {};        // of a plane: its width, or 4 times its height if that is less; a signal's length;
                         // of a volume the longer side of its planes
  Span least = {};       // of a volume: the shorter side of its planes, or twice its depth if that is less
  int64_t multiple = 1;  // of which the channels are one
  Span values = {};      // of the image, if its channels were the output's
  Ratio measured;        // torch's time over ours
};

// float16 on the CPU is no row's: torch 2.11 crashes on some of its calls where the processor has AMX.
constexpr int cpus = f32 | bf16, halves = f16 | bf16, floats = f32 | f16 | bf16;
// clang-format off
constexpr Row kTable[] = {
    // CUDA, signals: the kernels of other borders and of one channel have tiles of 24 or 32 rows. Long rows are cut into
    // pieces that fill them (dispatch/long_rows.cpp), windows up to 31 numbers long with their gaps have such tiles at all.
    {.on = cuda, .axes = lines, .layout = first, .type = floats, .outside = others, .measured = {0.39, 0.59, 0.77}},
    {.on = cuda, .axes = lines, .layout = last, .type = floats, .outside = others, .measured = {0.26, 0.5, 0.92}},
    {.on = cuda, .axes = lines, .kind = bank, .type = all, .steps = all, .outside = all, .measured = {0.06, 0.21, 0.84}},
    {.on = cuda, .axes = lines, .kind = image, .type = all, .steps = all, .outside = all, .outs = from(2), .measured = {0.2, 0.32, 0.73}},
    {.on = cuda, .axes = lines, .kind = image, .type = f64, .steps = all, .outside = all, .outs = just(1), .measured = {0.14, 0.35, 1.06}},
    {.on = cuda, .axes = lines, .kind = image, .type = floats, .steps = strided, .outside = all,
     .outs = just(1), .measured = {0.27, 0.47, 0.77}},
    {.on = cuda, .axes = lines, .kind = image, .type = floats, .steps = unit | dilated, .outside = all,
     .window = from(32), .outs = just(1), .measured = {0.17, 0.7, 2.17}},
    {.on = cuda, .axes = lines, .kind = image, .type = floats, .steps = unit | dilated, .outside = all,
     .outs = just(1), .side = below(1 << 15), .measured = {0.48, 1.07, 1.86}},
    {.on = cuda, .axes = lines, .kind = image, .type = floats, .steps = unit | dilated, .outside = all,
     .window = below(12), .outs = just(1), .values = below(1 << 19), .measured = {0.59, 0.65, 0.77}},
    {.on = cuda, .axes = lines, .kind = image, .type = floats, .steps = unit | dilated, .outside = all,
     .outs = just(1), .values = below(1 << 18), .measured = {0.67, 0.69, 0.87}},

    // CUDA, depthwise: other borders and float64 have the kernels of filters, whose tiles have 120 columns and more.
    {.on = cuda, .layout = first, .type = halves, .outside = others, .shape = odd,
     .side = below(56), .measured = {0.49, 0.97, 0.97}},
    {.on = cuda, .layout = first, .type = f64, .window = below(6), .measured = {0.11, 0.57, 0.88}},
    {.on = cuda, .layout = first, .type = f64, .window = from(6), .side = below(28), .measured = {0.16, 0.19, 0.19}},
    {.on = cuda, .layout = last, .type = f64, .window = from(8), .side = below(56), .measured = {0.18, 4.7, 4.7}},

    // CUDA, depthwise with zeros outside: small planes under large windows, images of one row, few channels innermost.
    {.on = cuda, .layout = first, .type = f32, .shape = other, .window = from(13), .side = below(8), .measured = {0.47, 0.65, 0.65}},
    {.on = cuda, .layout = first, .type = f32, .shape = odd, .side = below(7), .measured = {0.44, 1.09, 1.09}},
    {.on = cuda, .layout = last, .type = f32, .shape = odd, .window = just(3), .outs = just(1), .channels = just(8), .measured = {0.77, 0.94, 0.94}},
    {.on = cuda, .layout = last, .type = f32, .steps = strided, .window = just(3), .outs = just(1), .measured = {0.91, 0.97, 0.99}},
    {.on = cuda, .axes = lines, .layout = last, .type = floats, .window = from(16), .channels = below(9), .measured = {0.72, 0.85, 0.85}},
    {.on = cuda, .axes = lines, .layout = first, .type = f32, .window = from(16), .side = below(32), .measured = {0.78, 0.78, 0.78}},

    // CUDA, one channel.
    {.on = cuda, .kind = image, .type = f32, .window = below(4), .outs = just(1), .side = below(57), .measured = {0.65, 0.84, 0.89}},
    {.on = cuda, .kind = image, .type = f64, .window = below(4), .outs = just(1), .measured = {0.31, 0.37, 0.42}},
    {.on = cuda, .kind = image, .type = halves, .steps = all,
     .window = below(4), .outs = just(1), .side = below(57), .measured = {0.25, 0.75, 0.8}},
    {.on = cuda, .kind = image, .type = halves, .outs = just(1), .side = below(56), .measured = {0.39, 1.65, 3.25}},
    {.on = cuda, .kind = image, .type = halves,
     .window = below(8), .outs = just(1), .values = below(1 << 17), .measured = {0.8, 0.95, 0.95}},
    {.on = cuda, .kind = image, .type = halves, .steps = all, .outs = from(2), .side = below(112), .measured = {0.16, 0.68, 2.33}},
    {.on = cuda, .kind = image, .type = f32, .steps = strided, .outs = from(2), .side = below(112), .measured = {0.79, 0.91, 0.92}},
    {.on = cuda, .kind = image, .type = f32, .steps = all, .outs = from(17), .side = below(112), .measured = {0.38, 0.59, 0.9}},
    {.on = cuda, .kind = image, .type = f32, .steps = all, .outs = {2, 16}, .side = below(56), .measured = {0.77, 0.83, 2.02}},
    {.on = cuda, .kind = image, .type = f64, .outs = from(2), .measured = {0.42, 0.97, 2.31}},

    // CUDA, a few channels.
    {.on = cuda, .kind = bank, .type = f32, .outs = just(1), .side = below(224), .measured = {0.24, 0.47, 1.08}},
    {.on = cuda, .kind = bank, .type = halves, .outs = just(1), .side = below(512), .measured = {0.23, 0.63, 1.38}},
    {.on = cuda, .kind = bank, .type = halves, .window = below(4), .outs = just(1), .measured = {0.8, 0.82, 0.87}},
    {.on = cuda, .kind = bank, .layout = first, .type = halves,
     .window = below(6), .outs = just(2), .side = below(57), .measured = {0.36, 0.65, 0.65}},
    {.on = cuda, .kind = bank, .layout = first, .type = f32,
     .window = below(6), .outs = just(2), .side = below(57), .measured = {0.36, 0.58, 0.58}},
    {.on = cuda, .kind = bank, .type = f64, .outs = just(1), .measured = {0.31, 0.59, 1.1}},
    {.on = cuda, .kind = bank, .type = f64, .outs = from(3), .side = below(57), .measured = {0.52, 0.69, 1.15}},
    {.on = cuda, .kind = bank, .type = floats, .steps = strided | dilated, .outs = just(1), .measured = {0.16, 0.36, 2.25}},
    {.on = cuda, .kind = bank, .type = floats, .steps = all, .window = below(14), .outs = from(3), .measured = {0.08, 0.34, 1.92}},
    {.on = cuda, .kind = bank, .type = f32,
     .window = from(14), .outs = from(3), .side = below(224), .measured = {0.29, 0.65, 0.65}},
    {.on = cuda, .kind = bank, .type = halves,
     .window = from(14), .outs = from(3), .side = below(1024), .measured = {0.15, 0.3, 0.34}},

    // CPU, signals: oneDNN's kernels take blocks of 16 channels, and windows up to 14.
    {.on = cpu, .axes = lines, .layout = first, .type = cpus,
     .window = below(15), .outs = just(1), .side = below(32), .multiple = 16, .values = from(60000), .measured = {0.58, 0.7, 0.72}},
    {.on = cpu, .axes = lines, .layout = first, .type = f32, .steps = unit | strided,
     .window = {5, 14}, .outs = just(1), .side = {32, 511}, .multiple = 16, .values = from(500000), .measured = {0.86, 0.88, 0.9}},
    {.on = cpu, .axes = lines, .layout = first, .type = cpus, .outside = others,
     .window = below(15), .outs = just(1), .side = below(512), .multiple = 16, .values = from(60000), .measured = {0.72, 0.72, 0.72}},
    {.on = cpu, .axes = lines, .kind = image | bank, .type = cpus,
     .outs = from(8), .side = from(16384), .measured = {0.53, 0.82, 1.6}},

    // CPU, depthwise, channels first: windows that have no tile of their own.
    {.on = cpu, .layout = first, .type = cpus,
     .window = {8, 14}, .outs = just(1), .side = below(57), .multiple = 16, .values = from(20000), .measured = {0.26, 0.81, 1.08}},
    {.on = cpu, .layout = first, .type = f32, .shape = column | line,
     .window = below(15), .outs = just(1), .side = below(28), .multiple = 16, .values = from(20000), .measured = {0.6, 0.6, 0.6}},
    {.on = cpu, .layout = first, .type = f32, .shape = other,
     .window = below(3), .outs = just(1), .side = below(28), .multiple = 16, .values = from(20000), .measured = {0.76, 0.87, 0.87}},
    {.on = cpu, .layout = first, .type = cpus, .outside = others,
     .window = below(15), .outs = just(1), .side = below(56), .multiple = 16, .values = from(20000), .measured = {0.53, 0.77, 1.02}},
    {.on = cpu, .layout = first, .type = cpus, .steps = strided,
     .window = {6, 14}, .outs = just(1), .side = below(57), .multiple = 16, .values = from(500000), .measured = {0.58, 0.76, 0.9}},
    {.on = cpu, .layout = first, .type = cpus, .steps = dilated,
     .window = below(15), .outs = just(1), .side = below(56), .multiple = 16, .values = from(20000), .measured = {0.44, 0.78, 0.93}},
    {.on = cpu, .layout = first, .type = f32, .steps = dilated,
     .window = {6, 14}, .outs = just(1), .side = from(56), .multiple = 16, .values = from(20000), .measured = {0.82, 0.88, 0.9}},

    // CPU, depthwise, channels last.
    {.on = cpu, .layout = last, .type = f32,
     .window = {8, 12}, .outs = just(1), .channels = from(8), .values = from(20000), .measured = {0.3, 0.68, 0.91}},
    {.on = cpu, .layout = last, .type = f32,
     .window = just(13), .outs = just(1), .channels = from(8), .side = from(224), .values = from(20000), .measured = {0.61, 0.95, 0.95}},
    {.on = cpu, .layout = last, .type = f32,
     .window = just(13), .outs = just(1), .channels = from(8), .side = below(8), .values = from(20000), .measured = {0.36, 0.36, 0.36}},
    {.on = cpu, .layout = last, .type = f32,
     .window = from(14), .outs = just(1), .channels = from(8), .values = from(20000), .measured = {0.25, 0.79, 1.03}},
    {.on = cpu, .layout = last, .type = bf16,
     .window = {8, 12}, .outs = just(1), .channels = from(8), .values = from(20000), .measured = {0.46, 0.66, 0.73}},
    {.on = cpu, .layout = last, .type = f32, .shape = odd | other,
     .window = below(6), .outs = just(1), .channels = from(8), .side = from(56), .values = from(1 << 20), .measured = {0.73, 0.96, 1.17}},
    {.on = cpu, .layout = last, .type = f32, .shape = odd,
     .window = just(7), .outs = just(1), .channels = from(8), .side = from(112), .values = from(1 << 20), .measured = {0.89, 0.99, 1}},
    {.on = cpu, .layout = last, .type = f32, .shape = column,
     .window = below(8), .outs = just(1), .channels = from(8), .side = from(56), .values = from(1 << 20), .measured = {0.84, 0.97, 0.97}},
    {.on = cpu, .layout = last, .type = bf16, .shape = odd,
     .outs = just(1), .channels = from(8), .side = from(512), .values = from(1 << 20), .measured = {0.68, 0.91, 0.99}},
    {.on = cpu, .layout = last, .type = f32, .window = just(3), .outs = from(2), .channels = from(8), .side = from(112), .values = from(1 << 20), .measured = {0.9, 0.9, 0.9}},
    {.on = cpu, .layout = last, .type = cpus, .steps = strided,
     .window = from(6), .outs = just(1), .channels = from(8), .values = from(60000), .measured = {0.36, 0.58, 0.92}},
    {.on = cpu, .layout = last, .type = cpus, .steps = dilated,
     .outs = just(1), .channels = from(8), .values = from(20000), .measured = {0.31, 0.62, 0.92}},
    {.on = cpu, .layout = last, .type = cpus, .outside = others,
     .window = from(6), .outs = just(1), .channels = from(16), .side = from(56), .values = from(20000), .measured = {0.66, 0.66, 0.66}},

    // CPU, volumes, depthwise: ours go row by row there, without tiles. The planes measured were of 7x7 to 112x112, the
    // volumes at least 4 deep, and the windows cubes, 1x3x3 and 3x1x1.
    {.on = cpu, .axes = volumes, .layout = last, .type = f32, .steps = unit | strided, .shape = odd,
     .outs = just(1), .channels = from(8), .least = from(7), .values = from(40000), .measured = {0.22, 0.54, 0.95}},
    {.on = cpu, .axes = volumes, .layout = last, .type = f32, .shape = cube,
     .window = {8, 11}, .outs = just(1), .channels = from(8), .least = from(7), .values = from(100000), .measured = {0.14, 0.63, 0.81}},
    {.on = cpu, .axes = volumes, .layout = last, .type = f32, .shape = cube,
     .window = just(2), .outs = just(1), .channels = from(8), .least = from(7), .values = from(400000), .measured = {0.66, 0.79, 0.79}},
    {.on = cpu, .axes = volumes, .layout = last, .type = f32, .shape = line,
     .window = just(3), .outs = just(1), .channels = from(8), .least = from(7), .values = from(400000), .measured = {0.63, 0.72, 0.72}},
    {.on = cpu, .axes = volumes, .layout = last, .type = f32, .shape = column | cube,
     .window = below(4), .outs = just(1), .channels = from(8), .least = from(7), .values = from(1500000), .measured = {0.56, 0.59, 0.59}},
    {.on = cpu, .axes = volumes, .layout = last, .type = bf16, .shape = odd | cube,
     .window = below(12), .outs = just(1), .channels = from(8), .least = from(7), .values = from(100000), .measured = {0.18, 0.43, 0.81}},
    {.on = cpu, .axes = volumes, .layout = last, .type = bf16, .shape = odd,
     .window = from(5), .outs = just(1), .channels = from(8), .least = from(7), .values = from(40000), .measured = {0.54, 0.54, 0.54}},
    {.on = cpu, .axes = volumes, .layout = last, .type = bf16, .shape = column | line,
     .window = just(3), .outs = just(1), .channels = from(8), .least = from(7), .values = from(100000), .measured = {0.19, 0.63, 0.98}},
    {.on = cpu, .axes = volumes, .layout = last, .type = bf16, .steps = strided, .shape = odd,
     .outs = just(1), .channels = from(8), .least = from(7), .values = from(100000), .measured = {0.28, 0.4, 0.8}},
    {.on = cpu, .axes = volumes, .layout = first, .type = f32, .shape = odd,
     .outs = just(1), .channels = from(32), .side = below(29), .least = from(7), .multiple = 16, .values = from(20000), .measured = {0.35, 0.67, 0.88}},
    {.on = cpu, .axes = volumes, .layout = first, .type = bf16, .shape = odd,
     .outs = just(1), .channels = from(8), .side = below(57), .least = from(7), .multiple = 4, .values = from(20000), .measured = {0.28, 0.52, 0.93}},
    {.on = cpu, .axes = volumes, .layout = first, .type = bf16, .shape = cube,
     .window = just(2), .outs = just(1), .channels = from(32), .side = below(29), .least = from(7), .multiple = 16, .values = from(100000), .measured = {0.57, 0.63, 0.63}},
    {.on = cpu, .axes = volumes, .layout = first, .type = bf16, .shape = line,
     .window = just(3), .outs = just(1), .channels = from(32), .side = below(29), .least = from(7), .multiple = 16, .values = from(100000), .measured = {0.66, 0.69, 0.69}},
    {.on = cpu, .axes = volumes, .layout = first, .type = cpus, .steps = strided, .shape = odd,
     .outs = just(1), .channels = from(32), .side = below(57), .least = from(7), .multiple = 16, .values = from(100000), .measured = {0.26, 0.43, 0.89}},

    // CPU, one channel or a few to many.
    {.on = cpu, .kind = image, .type = cpus,
     .outs = {8, 31}, .side = below(224), .values = from(40000), .measured = {0.67, 0.98, 1.42}},
    {.on = cpu, .kind = image, .type = cpus,
     .outs = from(32), .side = below(512), .values = from(40000), .measured = {0.39, 0.88, 1.18}},
    {.on = cpu, .kind = image | bank, .type = cpus, .steps = strided,
     .outs = from(5), .values = from(40000), .measured = {0.48, 0.6, 1.05}},
    {.on = cpu, .kind = bank, .layout = first, .type = bf16,
     .outs = from(5), .side = below(112), .values = from(40000), .measured = {0.72, 0.9, 0.9}},
    {.on = cpu, .kind = bank, .layout = last, .type = f32,
     .window = below(6), .outs = from(5), .values = from(40000), .measured = {0.69, 0.74, 0.9}},
    {.on = cpu, .kind = bank, .layout = last, .type = bf16,
     .outs = from(5), .values = from(40000), .measured = {0.56, 0.78, 1}},
};
// clang-format on

// A row, or a convolution: a set of it has one bit, and a span one value, or all where that is unknown.
struct Numbers {
  int kinds[8];
  Span spans[6];
  int64_t multiple;
};
constexpr Numbers numbers_of(const Row& r) {
  return {{r.on, r.axes, r.kind, r.layout, r.type, r.steps, r.outside, r.shape},
          {r.window, r.outs, r.channels, r.side, r.least, r.values},
          r.multiple};
}

int shape_of(int axes, int64_t kd, int64_t kh, int64_t kw) {
  if (axes == 3) {
    if (kh != kw) return other;
    if (kd == kw) return kw == 3 || kw == 5 || kw == 7 ? odd : cube;
    return kd == 1 ? line : kw == 1 ? column : other;
  }
  if (kh == kw && (kw == 3 || kw == 5 || kw == 7)) return odd;
  if (kw == 1 && kh > 1) return column;
  return kh == 1 && kw > 1 ? line : other;
}

int type_of(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Float: return f32;
    case ScalarType::Half: return f16;
    case ScalarType::BFloat16: return bf16;
    case ScalarType::Double: return f64;
    default: return 0;  // no kernel of ours takes it
  }
}

bool above_1(const Sizes& options) {
  return std::any_of(options.begin(), options.end(), [](int64_t n) { return n > 1 || n == kUnknown; });
}

Numbers numbers_of(const Convolution& c) {
  const int axes = c.axes();
  const size_t dims = c.size.size();
  const auto from_end = [&](const Sizes& values, int i) { return i <= axes ? values[values.size() - i] : 1; };
  const int64_t kd = from_end(c.weight, 3), kh = from_end(c.weight, 2), kw = from_end(c.weight, 1);
  const int64_t d = from_end(c.size, 3), h = from_end(c.size, 2), w = from_end(c.size, 1);
  const bool known = !any_unknown(c.size);
  Span window = just(std::max({kd, kh, kw})), outs, side, least, values;
  if (axes == 1 && above_1(c.dilation))
    window = c.dilation[0] == kUnknown ? from(2 * kw - 1) : just((kw - 1) * c.dilation[0] + 1);
  if (c.weight[0] != kUnknown) outs = just(c.weight[0] / c.groups);
  if (known) {
    side = just(axes == 1 ? w : axes == 2 ? std::min(w, 4 * h) : std::max(w, h));
    least = just(axes == 3 ? std::min({w, h, 2 * d}) : 1);
    const int64_t n = int(dims) == axes + 2 ? c.size[0] : 1;
    if (c.weight[0] != kUnknown) values = just(n * c.weight[0] * d * h * w);
  }
  const bool channels_last = c.strides[dims - axes - 1] == 1 && c.strides[dims - 1] != 1;
  const int64_t channels = c.weight[1] * c.groups;
  return {{c.device, 1 << (axes - 1),
           c.weight[1] > 1 ? bank
           : c.groups > 1  ? depthwise
                           : image,
           channels_last ? last : first, type_of(c.dtype),
           above_1(c.stride)     ? strided
           : above_1(c.dilation) ? dilated
                                 : unit,
           c.padding_mode == "zeros" ? zeros : others, shape_of(axes, kd, kh, kw)},
          {window, outs, just(channels), side, least, values},
          channels};
}

enum class Holds { no, maybe, yes };

Holds holds(const Numbers& row, const Numbers& c) {
  for (size_t i = 0; i < std::size(row.kinds); ++i)
    if (!(row.kinds[i] & c.kinds[i])) return Holds::no;
  if (c.multiple % row.multiple != 0) return Holds::no;
  Holds found = Holds::yes;
  for (size_t i = 0; i < std::size(row.spans); ++i) {
    const Span &of_row = row.spans[i], &of_c = c.spans[i];
    if (of_c.high < of_row.low || of_c.low > of_row.high) return Holds::no;
    if (of_c.low < of_row.low || of_c.high > of_row.high) found = Holds::maybe;
  }
  return found;
}

// The names of a set's bits; "" for all of them, and for the first alone if that goes without saying.
std::string names(int set, std::initializer_list<const char*> of, bool plain_first = false) {
  if (set == (1 << of.size()) - 1 || set == all || (plain_first && set == 1)) return "";
  std::string text;
  int bit = 1;
  for (const char* name : of) {
    if (set & bit) text += (text.empty() ? "" : " or ") + std::string(name);
    bit *= 2;
  }
  return text;
}

std::string range_text(const std::string& what, const Span& span) {
  const Span every;
  const std::string low = std::to_string(span.low), high = std::to_string(span.high);
  if (span.low == span.high) return what + " " + low;
  if (span.low > every.low && span.high < every.high) return what + " " + low + " to " + high;
  if (span.low > every.low) return what + " from " + low;
  return span.high < every.high ? what + " up to " + high : "";
}

std::string sentence_of(const Row& r) {
  const Ratio& m = r.measured;
  std::ostringstream text;
  text << "it takes " << m.least << " to " << m.most << " of our kernels' time, mostly " << m.mostly << " (";
  for (const std::string& part : {
           names(r.kind, {"depthwise", "one channel", "few channels"}),
           names(r.layout, {"channels first", "channels last"}),
           names(r.type, {"float32", "float16", "bfloat16", "float64"}),
           names(r.steps, {"steps of 1", "strided", "dilated"}, true),
           names(r.outside, {"zeros outside", "other borders"}, true),
           r.axes == volumes
               ? names(r.shape, {"3x3x3, 5x5x5 and 7x7x7", "kx1x1", "1xkxk", "other windows", "cubes of other sides"})
               : names(r.shape, {"3x3, 5x5 and 7x7", "columns", "lines", "other windows"}),
           range_text("windows", r.window),
           range_text("outputs a group", r.outs),
           range_text("channels", r.channels),
           r.multiple > 1 ? "channels a multiple of " + std::to_string(r.multiple) : "",
           range_text(r.axes == lines ? "lengths" : "sides", r.side),
           range_text("shorter sides, and twice the depths,", r.least),
           range_text("values", r.values),
       })
    if (!part.empty()) text << part << "; ";
  text << "measured on " << (r.on == cuda ? "one NVIDIA H100" : "two threads of an AMD EPYC") << ")";
  return text.str();
}

const std::vector<std::string>& sentences() {
  static const std::vector<std::string> all_rows = [] {
    std::vector<std::string> made;
    for (const Row& row : kTable) made.push_back(sentence_of(row));
    return made;
  }();
  return all_rows;
}

// The reasons of all rows, a line each, byte by byte (api/query.h says why).
Sizes reasons() {
  Sizes text;
  for (const std::string& sentence : sentences()) {
    text.insert(text.end(), sentence.begin(), sentence.end());
    text.push_back('\n');
  }
  return text;
}

}  // namespace

int64_t handed_over(const Convolution& conv) {
  if (conv.groups == kUnknown) return kUnknown;
  const Numbers c = numbers_of(conv);
  for (size_t i = 0; i < std::size(kTable); ++i) {
    const Holds found = holds(numbers_of(kTable[i]), c);
    if (found != Holds::no) return found == Holds::yes ? int64_t(i) : kUnknown;
  }
  return -1;
}

const std::string& handover_reason(int64_t row) { return sentences()[row]; }

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CompositeExplicitAutograd, m) {
  m.impl("_handover_reasons", boxed<&reasons, "_handover_reasons">);
}

}  // namespace torch_conv
