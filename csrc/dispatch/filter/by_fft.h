// A filter of images by FFT: overlap-save on torch's transforms.
#pragma once

#include "dispatch/dispatch.h"
#include "dispatch/windows.h"

namespace torch_conv {

// `problem` is the problem of the direct kernel families; its taps are in `window`, on the images' device.
//
//   image --read--> tiles --rfft2--> spectra --times those of the windows--> --irfft2--> sums --write--> result
//
// On the CPU a window of one row or one column has tiles of one row, transformed along it.
//
// Sums of a tile that a NaN, an infinity or an overflow reached are computed again directly. The host never waits for
// the GPU. Memory is bounded by kFftWorkspace.
void run_by_fft(Call& call, const Target& target, const Direct& problem, const Window& window);

}  // namespace torch_conv
