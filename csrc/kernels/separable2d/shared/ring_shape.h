// Strips whose row results are a ring in shared memory, of RING and TYPED_RING. A number is a value of a row: of a
// plane, or of the interleaved channels of an HWC image.
#pragma once

#include "core/problem.h"

namespace torch_conv::separable2d {

constexpr int kRingReuse = 16;  // outputs of a thread in either pass
// Groups of threads in the column pass. us, one NVIDIA H200:
//
//                                4096^2 31x31   8192^2 15x15   21x21   31x31
//     2 groups of 128 threads            57.0            155     153     216
//     1 group of 256 (256 columns)       58.2            156     166     223
//     1 group of 128                     60.7            162     166     225
constexpr int kRingGroups = 2;
constexpr int kRingRows = kRingGroups * kRingReuse;  // of a box, and of outputs of a step
constexpr int kRingPiece = 8;  // rows of a bulk copy: the last boxes of a strip bring no more than it needs

// Numbers of a row of a strip: whole warps, and kRingReuse whole pixels a thread of the row pass. `pixel`: contiguous
// numbers of a pixel, 1 or the channels of HWC images.
constexpr int ring_width(int pixel) { return pixel == 3 ? 96 : 128; }
constexpr int ring_threads(int pixel) { return kRingGroups * ring_width(pixel); }
constexpr int ring_residents(int pixel) { return pixel == 3 ? 5 : 4; }  // blocks per multiprocessor: 64 registers
constexpr int ring_pitch(int pixel) { return ring_width(pixel) + 4; }
constexpr int ring_fill(int kh) { return (kh - 1 + kRingRows - 1) / kRingRows; }  // boxes before the first outputs
constexpr int ring_slots(int kh) { return (ring_fill(kh) + 1) * kRingGroups; }    // of kRingReuse row results
constexpr int ring_floats(int kh, int pixel) { return ring_slots(kh) * kRingReuse * ring_pitch(pixel); }

}  // namespace torch_conv::separable2d
