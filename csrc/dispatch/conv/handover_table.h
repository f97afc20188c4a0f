// The convolutions that algorithm 'auto' hands over to torch, with the times measured.
// benchmarks/handover_table.py compares the rows with their measurements.
#pragma once

#include "dispatch/conv/router.h"

namespace torch_conv::handover {

// Sets of bits. A convolution has one bit of each set.
constexpr int cpu = Convolution::cpu, cuda = Convolution::cuda;
enum Axes { signals = 1, images = 2, volumes = 4 };  // conv1d, conv2d, conv3d
enum Kind { depthwise = 1, single = 2, few = 4 };    // one input channel a group; one in all; several a group
enum Layout { channels_first = 1, channels_last = 2 };
enum Type { f32 = 1, f16 = 2, bf16 = 4, f64 = 8 };
enum Spacing { unit = 1, strided = 2, dilated = 4 };
enum PaddingMode { zeros = 1, other_borders = 2 };
// Shapes of images: 3x3, 5x5 and 7x7; kh x 1; 1 x kw; all else. Shapes of volumes: 3x3x3, 5x5x5 and 7x7x7; kd x 1 x 1;
// 1 x k x k; all else; other cubes.
enum Shape { odd = 1, column = 2, row = 4, other = 8, cube = 16 };
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

// A set or a span that a row leaves out is everything, but for `unit` and `zeros`.
struct Row {
  int device, axes = images, kind = depthwise, layout = all, type, spacing = unit, border = zeros, shape = all;
  Span window = {};      // the longest side; of a signal with the gaps of dilation
  Span outputs = {};     // channels a group
  Span channels = {};    // of the input
  Span side = {};        // of an image: the width, or 4 heights if that is less; of a signal: the length;
                         // of a volume: the longer side of its planes
  Span short_side = {};  // of a volume: the shorter side of its planes, or twice its depth if that is less
  int64_t multiple = 1;  // divides the input's channels
  Span values = {};      // of the image, with the output's channels
  Ratio measured;        // torch's time divided by ours
};

// No row has float16 on the CPU. torch 2.11 crashes on some of these calls where the processor has AMX.
constexpr int cpus = f32 | bf16, halves = f16 | bf16, floats = f32 | f16 | bf16;
// clang-format off
constexpr Row kTable[] = {
    // CUDA, signals. The kernels for other borders and for one channel have tiles of 24 or 32 rows. Their windows are up
    // to 31 numbers long with the gaps of dilation. Pieces of long rows fill these tiles (dispatch/long_rows.h).
    {.device = cuda, .axes = signals, .layout = channels_first, .type = floats, .border = other_borders,
     .measured = {0.39, 0.59, 0.77}},
    {.device = cuda, .axes = signals, .layout = channels_last, .type = floats, .border = other_borders,
     .measured = {0.26, 0.5, 0.92}},
    {.device = cuda, .axes = signals, .kind = few, .type = all, .spacing = all, .border = all,
     .measured = {0.06, 0.21, 0.84}},
    {.device = cuda, .axes = signals, .kind = single, .type = all, .spacing = all, .border = all, .outputs = from(2),
     .measured = {0.2, 0.32, 0.73}},
    {.device = cuda, .axes = signals, .kind = single, .type = f64, .spacing = all, .border = all, .outputs = just(1),
     .measured = {0.14, 0.35, 1.06}},
    {.device = cuda, .axes = signals, .kind = single, .type = floats, .spacing = strided, .border = all,
     .outputs = just(1), .measured = {0.27, 0.47, 0.77}},
    {.device = cuda, .axes = signals, .kind = single, .type = floats, .spacing = unit | dilated, .border = all,
     .window = from(32), .outputs = just(1), .measured = {0.17, 0.7, 2.17}},
    {.device = cuda, .axes = signals, .kind = single, .type = floats, .spacing = unit | dilated, .border = all,
     .outputs = just(1), .side = below(1 << 15), .measured = {0.48, 1.07, 1.86}},
    {.device = cuda, .axes = signals, .kind = single, .type = floats, .spacing = unit | dilated, .border = all,
     .window = below(12), .outputs = just(1), .values = below(1 << 19), .measured = {0.59, 0.65, 0.77}},
    {.device = cuda, .axes = signals, .kind = single, .type = floats, .spacing = unit | dilated, .border = all,
     .outputs = just(1), .values = below(1 << 18), .measured = {0.67, 0.69, 0.87}},

    // CUDA, depthwise. The kernels of filters serve other borders and float64; their tiles have 120 columns and more.
    {.device = cuda, .layout = channels_first, .type = halves, .border = other_borders, .shape = odd, .side = below(56),
     .measured = {0.49, 0.97, 0.97}},
    {.device = cuda, .layout = channels_first, .type = f64, .window = below(6), .measured = {0.11, 0.57, 0.88}},
    {.device = cuda, .layout = channels_first, .type = f64, .window = from(6), .side = below(28),
     .measured = {0.16, 0.19, 0.19}},
    {.device = cuda, .layout = channels_last, .type = f64, .window = from(8), .side = below(56),
     .measured = {0.18, 4.7, 4.7}},

    // CUDA, depthwise with zeros outside: small planes under large windows, images of one row, few interleaved channels.
    {.device = cuda, .layout = channels_first, .type = f32, .shape = other, .window = from(13), .side = below(8),
     .measured = {0.47, 0.65, 0.65}},
    {.device = cuda, .layout = channels_first, .type = f32, .shape = odd, .side = below(7),
     .measured = {0.44, 1.09, 1.09}},
    {.device = cuda, .layout = channels_last, .type = f32, .shape = odd, .window = just(3), .outputs = just(1),
     .channels = just(8), .measured = {0.77, 0.94, 0.94}},
    {.device = cuda, .layout = channels_last, .type = f32, .spacing = strided, .window = just(3), .outputs = just(1),
     .measured = {0.91, 0.97, 0.99}},
    {.device = cuda, .axes = signals, .layout = channels_last, .type = floats, .window = from(16), .channels = below(9),
     .measured = {0.72, 0.85, 0.85}},
    {.device = cuda, .axes = signals, .layout = channels_first, .type = f32, .window = from(16), .side = below(32),
     .measured = {0.78, 0.78, 0.78}},

    // CUDA, one channel.
    {.device = cuda, .kind = single, .type = f32, .window = below(4), .outputs = just(1), .side = below(57),
     .measured = {0.65, 0.84, 0.89}},
    {.device = cuda, .kind = single, .type = f64, .window = below(4), .outputs = just(1),
     .measured = {0.31, 0.37, 0.42}},
    {.device = cuda, .kind = single, .type = halves, .spacing = all, .window = below(4), .outputs = just(1),
     .side = below(57), .measured = {0.25, 0.75, 0.8}},
    {.device = cuda, .kind = single, .type = halves, .outputs = just(1), .side = below(56),
     .measured = {0.39, 1.65, 3.25}},
    {.device = cuda, .kind = single, .type = halves, .window = below(8), .outputs = just(1), .values = below(1 << 17),
     .measured = {0.8, 0.95, 0.95}},
    {.device = cuda, .kind = single, .type = halves, .spacing = all, .outputs = from(2), .side = below(112),
     .measured = {0.16, 0.68, 2.33}},
    {.device = cuda, .kind = single, .type = f32, .spacing = strided, .outputs = from(2), .side = below(112),
     .measured = {0.79, 0.91, 0.92}},
    {.device = cuda, .kind = single, .type = f32, .spacing = all, .outputs = from(17), .side = below(112),
     .measured = {0.38, 0.59, 0.9}},
    {.device = cuda, .kind = single, .type = f32, .spacing = all, .outputs = {2, 16}, .side = below(56),
     .measured = {0.77, 0.83, 2.02}},
    {.device = cuda, .kind = single, .type = f64, .outputs = from(2), .measured = {0.42, 0.97, 2.31}},

    // CUDA, a few channels.
    {.device = cuda, .kind = few, .type = f32, .outputs = just(1), .side = below(224), .measured = {0.24, 0.47, 1.08}},
    {.device = cuda, .kind = few, .type = halves, .outputs = just(1), .side = below(512),
     .measured = {0.23, 0.63, 1.38}},
    {.device = cuda, .kind = few, .type = halves, .window = below(4), .outputs = just(1),
     .measured = {0.8, 0.82, 0.87}},
    {.device = cuda, .kind = few, .layout = channels_first, .type = halves, .window = below(6), .outputs = just(2),
     .side = below(57), .measured = {0.36, 0.65, 0.65}},
    {.device = cuda, .kind = few, .layout = channels_first, .type = f32, .window = below(6), .outputs = just(2),
     .side = below(57), .measured = {0.36, 0.58, 0.58}},
    {.device = cuda, .kind = few, .type = f64, .outputs = just(1), .measured = {0.31, 0.59, 1.1}},
    {.device = cuda, .kind = few, .type = f64, .outputs = from(3), .side = below(57), .measured = {0.52, 0.69, 1.15}},
    {.device = cuda, .kind = few, .type = floats, .spacing = strided | dilated, .outputs = just(1),
     .measured = {0.16, 0.36, 2.25}},
    {.device = cuda, .kind = few, .type = floats, .spacing = all, .window = below(14), .outputs = from(3),
     .measured = {0.08, 0.34, 1.92}},
    {.device = cuda, .kind = few, .type = f32, .window = from(14), .outputs = from(3), .side = below(224),
     .measured = {0.29, 0.65, 0.65}},
    {.device = cuda, .kind = few, .type = halves, .window = from(14), .outputs = from(3), .side = below(1024),
     .measured = {0.15, 0.3, 0.34}},

    // CPU, signals. oneDNN's kernels take blocks of 16 channels, and windows up to 14.
    {.device = cpu, .axes = signals, .layout = channels_first, .type = cpus, .window = below(15), .outputs = just(1),
     .side = below(32), .multiple = 16, .values = from(60000), .measured = {0.58, 0.7, 0.72}},
    {.device = cpu, .axes = signals, .layout = channels_first, .type = f32, .spacing = unit | strided,
     .window = {5, 14}, .outputs = just(1), .side = {32, 511}, .multiple = 16, .values = from(500000),
     .measured = {0.86, 0.88, 0.9}},
    {.device = cpu, .axes = signals, .layout = channels_first, .type = cpus, .border = other_borders,
     .window = below(15), .outputs = just(1), .side = below(512), .multiple = 16, .values = from(60000),
     .measured = {0.72, 0.72, 0.72}},
    {.device = cpu, .axes = signals, .kind = single | few, .type = cpus, .outputs = from(8), .side = from(16384),
     .measured = {0.53, 0.82, 1.6}},

    // CPU, depthwise, channels first: windows that have no tile of their own.
    {.device = cpu, .layout = channels_first, .type = cpus, .window = {8, 14}, .outputs = just(1), .side = below(57),
     .multiple = 16, .values = from(20000), .measured = {0.26, 0.81, 1.08}},
    {.device = cpu, .layout = channels_first, .type = f32, .shape = column | row, .window = below(15),
     .outputs = just(1), .side = below(28), .multiple = 16, .values = from(20000), .measured = {0.6, 0.6, 0.6}},
    {.device = cpu, .layout = channels_first, .type = f32, .shape = other, .window = below(3), .outputs = just(1),
     .side = below(28), .multiple = 16, .values = from(20000), .measured = {0.76, 0.87, 0.87}},
    {.device = cpu, .layout = channels_first, .type = cpus, .border = other_borders, .window = below(15),
     .outputs = just(1), .side = below(56), .multiple = 16, .values = from(20000), .measured = {0.53, 0.77, 1.02}},
    {.device = cpu, .layout = channels_first, .type = cpus, .spacing = strided, .window = {6, 14}, .outputs = just(1),
     .side = below(57), .multiple = 16, .values = from(500000), .measured = {0.58, 0.76, 0.9}},
    {.device = cpu, .layout = channels_first, .type = cpus, .spacing = dilated, .window = below(15), .outputs = just(1),
     .side = below(56), .multiple = 16, .values = from(20000), .measured = {0.44, 0.78, 0.93}},
    {.device = cpu, .layout = channels_first, .type = f32, .spacing = dilated, .window = {6, 14}, .outputs = just(1),
     .side = from(56), .multiple = 16, .values = from(20000), .measured = {0.82, 0.88, 0.9}},

    // CPU, depthwise, channels last.
    {.device = cpu, .layout = channels_last, .type = f32, .window = {8, 12}, .outputs = just(1), .channels = from(8),
     .values = from(20000), .measured = {0.3, 0.68, 0.91}},
    {.device = cpu, .layout = channels_last, .type = f32, .window = just(13), .outputs = just(1), .channels = from(8),
     .side = from(224), .values = from(20000), .measured = {0.61, 0.95, 0.95}},
    {.device = cpu, .layout = channels_last, .type = f32, .window = just(13), .outputs = just(1), .channels = from(8),
     .side = below(8), .values = from(20000), .measured = {0.36, 0.36, 0.36}},
    {.device = cpu, .layout = channels_last, .type = f32, .window = from(14), .outputs = just(1), .channels = from(8),
     .values = from(20000), .measured = {0.25, 0.79, 1.03}},
    {.device = cpu, .layout = channels_last, .type = bf16, .window = {8, 12}, .outputs = just(1), .channels = from(8),
     .values = from(20000), .measured = {0.46, 0.66, 0.73}},
    {.device = cpu, .layout = channels_last, .type = f32, .shape = odd | other, .window = below(6), .outputs = just(1),
     .channels = from(8), .side = from(56), .values = from(1 << 20), .measured = {0.73, 0.96, 1.17}},
    {.device = cpu, .layout = channels_last, .type = f32, .shape = odd, .window = just(7), .outputs = just(1),
     .channels = from(8), .side = from(112), .values = from(1 << 20), .measured = {0.89, 0.99, 1}},
    {.device = cpu, .layout = channels_last, .type = f32, .shape = column, .window = below(8), .outputs = just(1),
     .channels = from(8), .side = from(56), .values = from(1 << 20), .measured = {0.84, 0.97, 0.97}},
    {.device = cpu, .layout = channels_last, .type = bf16, .shape = odd, .outputs = just(1), .channels = from(8),
     .side = from(512), .values = from(1 << 20), .measured = {0.68, 0.91, 0.99}},
    {.device = cpu, .layout = channels_last, .type = f32, .window = just(3), .outputs = from(2), .channels = from(8),
     .side = from(112), .values = from(1 << 20), .measured = {0.9, 0.9, 0.9}},
    {.device = cpu, .layout = channels_last, .type = cpus, .spacing = strided, .window = from(6), .outputs = just(1),
     .channels = from(8), .values = from(60000), .measured = {0.36, 0.58, 0.92}},
    {.device = cpu, .layout = channels_last, .type = cpus, .spacing = dilated, .outputs = just(1), .channels = from(8),
     .values = from(20000), .measured = {0.31, 0.62, 0.92}},
    {.device = cpu, .layout = channels_last, .type = cpus, .border = other_borders, .window = from(6),
     .outputs = just(1), .channels = from(16), .side = from(56), .values = from(20000), .measured = {0.66, 0.66, 0.66}},

    // CPU, volumes, depthwise. Our kernels filter them row by row, without tiles. Measured were planes of 7x7 to 112x112,
    // volumes at least 4 deep, and windows of cubes, 1x3x3 and 3x1x1.
    {.device = cpu, .axes = volumes, .layout = channels_last, .type = f32, .spacing = unit | strided, .shape = odd,
     .outputs = just(1), .channels = from(8), .short_side = from(7), .values = from(40000),
     .measured = {0.22, 0.54, 0.95}},
    {.device = cpu, .axes = volumes, .layout = channels_last, .type = f32, .shape = cube, .window = {8, 11},
     .outputs = just(1), .channels = from(8), .short_side = from(7), .values = from(100000),
     .measured = {0.14, 0.63, 0.81}},
    {.device = cpu, .axes = volumes, .layout = channels_last, .type = f32, .shape = cube, .window = just(2),
     .outputs = just(1), .channels = from(8), .short_side = from(7), .values = from(400000),
     .measured = {0.66, 0.79, 0.79}},
    {.device = cpu, .axes = volumes, .layout = channels_last, .type = f32, .shape = row, .window = just(3),
     .outputs = just(1), .channels = from(8), .short_side = from(7), .values = from(400000),
     .measured = {0.63, 0.72, 0.72}},
    {.device = cpu, .axes = volumes, .layout = channels_last, .type = f32, .shape = column | cube, .window = below(4),
     .outputs = just(1), .channels = from(8), .short_side = from(7), .values = from(1500000),
     .measured = {0.56, 0.59, 0.59}},
    {.device = cpu, .axes = volumes, .layout = channels_last, .type = bf16, .shape = odd | cube, .window = below(12),
     .outputs = just(1), .channels = from(8), .short_side = from(7), .values = from(100000),
     .measured = {0.18, 0.43, 0.81}},
    {.device = cpu, .axes = volumes, .layout = channels_last, .type = bf16, .shape = odd, .window = from(5),
     .outputs = just(1), .channels = from(8), .short_side = from(7), .values = from(40000),
     .measured = {0.54, 0.54, 0.54}},
    {.device = cpu, .axes = volumes, .layout = channels_last, .type = bf16, .shape = column | row, .window = just(3),
     .outputs = just(1), .channels = from(8), .short_side = from(7), .values = from(100000),
     .measured = {0.19, 0.63, 0.98}},
    {.device = cpu, .axes = volumes, .layout = channels_last, .type = bf16, .spacing = strided, .shape = odd,
     .outputs = just(1), .channels = from(8), .short_side = from(7), .values = from(100000),
     .measured = {0.28, 0.4, 0.8}},
    {.device = cpu, .axes = volumes, .layout = channels_first, .type = f32, .shape = odd, .outputs = just(1),
     .channels = from(32), .side = below(29), .short_side = from(7), .multiple = 16, .values = from(20000),
     .measured = {0.35, 0.67, 0.88}},
    {.device = cpu, .axes = volumes, .layout = channels_first, .type = bf16, .shape = odd, .outputs = just(1),
     .channels = from(8), .side = below(57), .short_side = from(7), .multiple = 4, .values = from(20000),
     .measured = {0.28, 0.52, 0.93}},
    {.device = cpu, .axes = volumes, .layout = channels_first, .type = bf16, .shape = cube, .window = just(2),
     .outputs = just(1), .channels = from(32), .side = below(29), .short_side = from(7), .multiple = 16,
     .values = from(100000), .measured = {0.57, 0.63, 0.63}},
    {.device = cpu, .axes = volumes, .layout = channels_first, .type = bf16, .shape = row, .window = just(3),
     .outputs = just(1), .channels = from(32), .side = below(29), .short_side = from(7), .multiple = 16,
     .values = from(100000), .measured = {0.66, 0.69, 0.69}},
    {.device = cpu, .axes = volumes, .layout = channels_first, .type = cpus, .spacing = strided, .shape = odd,
     .outputs = just(1), .channels = from(32), .side = below(57), .short_side = from(7), .multiple = 16,
     .values = from(100000), .measured = {0.26, 0.43, 0.89}},

    // CPU, one channel or a few to many.
    {.device = cpu, .kind = single, .type = cpus, .outputs = {8, 31}, .side = below(224), .values = from(40000),
     .measured = {0.67, 0.98, 1.42}},
    {.device = cpu, .kind = single, .type = cpus, .outputs = from(32), .side = below(512), .values = from(40000),
     .measured = {0.39, 0.88, 1.18}},
    {.device = cpu, .kind = single | few, .type = cpus, .spacing = strided, .outputs = from(5), .values = from(40000),
     .measured = {0.48, 0.6, 1.05}},
    {.device = cpu, .kind = few, .layout = channels_first, .type = bf16, .outputs = from(5), .side = below(112),
     .values = from(40000), .measured = {0.72, 0.9, 0.9}},
    {.device = cpu, .kind = few, .layout = channels_last, .type = f32, .window = below(6), .outputs = from(5),
     .values = from(40000), .measured = {0.69, 0.74, 0.9}},
    {.device = cpu, .kind = few, .layout = channels_last, .type = bf16, .outputs = from(5), .values = from(40000),
     .measured = {0.56, 0.78, 1}},
};
// clang-format on

}  // namespace torch_conv::handover
