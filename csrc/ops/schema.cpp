// The whole operator API on one screen. Defaults are those of torch_conv.functional.
#include "torch_api.h"

STABLE_TORCH_LIBRARY(torch_conv, m) {
  m.def(
      "filter2d(Tensor input, Tensor kernel, str border_type='reflect', bool normalized=False, str padding='same', "
      "str behaviour='corr', *, float value=0.0, int[2]? anchor=None, int[2] stride=1, int[2] dilation=1, "
      "ScalarType? output_dtype=None, str algorithm='auto') -> Tensor");
  m.def(
      "filter2d_out(Tensor input, Tensor kernel, str border_type='reflect', bool normalized=False, "
      "str padding='same', str behaviour='corr', *, float value=0.0, int[2]? anchor=None, int[2] stride=1, "
      "int[2] dilation=1, str algorithm='auto', Tensor(a!) out) -> ()");
  m.def(
      "filter2d_separable(Tensor input, Tensor kernel_x, Tensor kernel_y, str border_type='reflect', "
      "bool normalized=False, str padding='same', *, float value=0.0, int[2]? anchor=None, "
      "int[2] stride=1, int[2] dilation=1, ScalarType? output_dtype=None, str algorithm='auto') -> Tensor");
  m.def(
      "filter2d_separable_out(Tensor input, Tensor kernel_x, Tensor kernel_y, str border_type='reflect', "
      "bool normalized=False, str padding='same', *, float value=0.0, int[2]? anchor=None, "
      "int[2] stride=1, int[2] dilation=1, str algorithm='auto', Tensor(a!) out) -> ()");
  m.def(
      "box2d(Tensor input, int[2] kernel_size, str border_type='reflect', bool normalized=True, str padding='same', "
      "*, float value=0.0, int[2]? anchor=None, ScalarType? output_dtype=None, str algorithm='auto') -> Tensor");
  m.def(
      "box2d_out(Tensor input, int[2] kernel_size, str border_type='reflect', bool normalized=True, "
      "str padding='same', *, float value=0.0, int[2]? anchor=None, str algorithm='auto', Tensor(a!) out) -> ()");
  m.def(
      "conv1d(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, int[1] dilation=1, "
      "int groups=1, *, str padding_mode='zeros', str algorithm='auto') -> Tensor");
  m.def(
      "conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] padding=0, int[2] dilation=1, "
      "int groups=1, *, str padding_mode='zeros', str algorithm='auto') -> Tensor");
  // padding as 'same' (even windows pad one more after than before, as torch) or 'valid'
  m.def(
      "conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, str padding='valid', "
      "int[1] dilation=1, int groups=1, *, str padding_mode='zeros', str algorithm='auto') -> Tensor");
  m.def(
      "conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, str padding='valid', "
      "int[2] dilation=1, int groups=1, *, str padding_mode='zeros', str algorithm='auto') -> Tensor");
  m.def(
      "conv3d(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, int[3] padding=0, int[3] dilation=1, "
      "int groups=1, *, str padding_mode='zeros', str algorithm='auto') -> Tensor");
  m.def(
      "conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, str padding='valid', "
      "int[3] dilation=1, int groups=1, *, str padding_mode='zeros', str algorithm='auto') -> Tensor");
  // Volumes: kornia's order of arguments and border.
  m.def(
      "filter3d(Tensor input, Tensor kernel, str border_type='replicate', bool normalized=False, "
      "str behaviour='corr', *, str padding='same', float value=0.0, int[3]? anchor=None, int[3] stride=1, "
      "int[3] dilation=1, ScalarType? output_dtype=None, str algorithm='auto') -> Tensor");
  m.def(
      "filter3d_out(Tensor input, Tensor kernel, str border_type='replicate', bool normalized=False, "
      "str behaviour='corr', *, str padding='same', float value=0.0, int[3]? anchor=None, int[3] stride=1, "
      "int[3] dilation=1, str algorithm='auto', Tensor(a!) out) -> ()");
  m.def(
      "filter3d_separable(Tensor input, Tensor kernel_x, Tensor kernel_y, Tensor kernel_z, "
      "str border_type='replicate', bool normalized=False, *, str padding='same', float value=0.0, "
      "int[3]? anchor=None, int[3] stride=1, int[3] dilation=1, ScalarType? output_dtype=None, "
      "str algorithm='auto') -> Tensor");
  m.def(
      "filter3d_separable_out(Tensor input, Tensor kernel_x, Tensor kernel_y, Tensor kernel_z, "
      "str border_type='replicate', bool normalized=False, *, str padding='same', float value=0.0, "
      "int[3]? anchor=None, int[3] stride=1, int[3] dilation=1, str algorithm='auto', Tensor(a!) out) -> ()");
  m.def(
      "box3d(Tensor input, int[3] kernel_size, str border_type='replicate', bool normalized=True, *, "
      "str padding='same', float value=0.0, int[3]? anchor=None, ScalarType? output_dtype=None, "
      "str algorithm='auto') -> Tensor");
  m.def(
      "box3d_out(Tensor input, int[3] kernel_size, str border_type='replicate', bool normalized=True, *, "
      "str padding='same', float value=0.0, int[3]? anchor=None, str algorithm='auto', Tensor(a!) out) -> ()");
  // Chains of filters in one launch. `mode` is `derivative` where there is an `out`: torch.compile takes no operator
  // that writes into an argument and has another one called mode (auto_functionalized_v2).
  m.def(
      "gradient2d(Tensor input, str mode='sobel', int order=1, bool normalized=True, *, str border_type='replicate', "
      "str padding='same', float value=0.0, ScalarType? output_dtype=None, str algorithm='auto') -> Tensor");
  m.def(
      "gradient2d_out(Tensor input, str derivative='sobel', int order=1, bool normalized=True, *, "
      "str border_type='replicate', str padding='same', float value=0.0, str algorithm='auto', Tensor(a!) out) -> ()");
  m.def(
      "sobel2d(Tensor input, bool normalized=True, float eps=1e-6, *, str border_type='replicate', "
      "str padding='same', float value=0.0, ScalarType? output_dtype=None, str algorithm='auto') -> Tensor");
  m.def(
      "sobel2d_out(Tensor input, bool normalized=True, float eps=1e-6, *, str border_type='replicate', "
      "str padding='same', float value=0.0, str algorithm='auto', Tensor(a!) out) -> ()");
  m.def(
      "gaussian_sobel2d(Tensor input, Tensor kernel_x, Tensor kernel_y, str border_type='reflect', *, "
      "str magnitude='l2', str padding='same', float value=0.0, ScalarType? output_dtype=None, "
      "str algorithm='auto') -> Tensor");
  m.def(
      "gaussian_sobel2d_out(Tensor input, Tensor kernel_x, Tensor kernel_y, str border_type='reflect', *, "
      "str magnitude='l2', str padding='same', float value=0.0, str algorithm='auto', Tensor(a!) out) -> ()");
  m.def(
      "separable_sum2d(Tensor input, Tensor[] kernels_x, Tensor[] kernels_y, str border_type='reflect', *, "
      "str padding='same', float value=0.0, ScalarType? output_dtype=None, str algorithm='auto') -> Tensor");
  m.def(
      "separable_sum2d_out(Tensor input, Tensor[] kernels_x, Tensor[] kernels_y, str border_type='reflect', *, "
      "str padding='same', float value=0.0, str algorithm='auto', Tensor(a!) out) -> ()");
  m.def(
      "unsharp_mask2d(Tensor input, Tensor kernel_x, Tensor kernel_y, str border_type='reflect', *, float amount=1.0, "
      "str padding='same', float value=0.0, ScalarType? output_dtype=None, str algorithm='auto') -> Tensor");
  m.def(
      "unsharp_mask2d_out(Tensor input, Tensor kernel_x, Tensor kernel_y, str border_type='reflect', *, "
      "float amount=1.0, str padding='same', float value=0.0, str algorithm='auto', Tensor(a!) out) -> ()");
  m.def(
      "structure_tensor2d(Tensor input, Tensor kernel_x, Tensor kernel_y, str border_type='reflect', *, "
      "str mode='sobel', str padding='same', float value=0.0, ScalarType? output_dtype=None, "
      "str algorithm='auto') -> Tensor");
  m.def(
      "structure_tensor2d_out(Tensor input, Tensor kernel_x, Tensor kernel_y, str border_type='reflect', *, "
      "str derivative='sobel', str padding='same', float value=0.0, str algorithm='auto', Tensor(a!) out) -> ()");
  m.def(
      "thin_edges2d(Tensor input, Tensor kernel_x, Tensor kernel_y, str border_type='reflect', *, str padding='same', "
      "float value=0.0, ScalarType? output_dtype=None, str algorithm='auto') -> Tensor");
  m.def(
      "thin_edges2d_out(Tensor input, Tensor kernel_x, Tensor kernel_y, str border_type='reflect', *, "
      "str padding='same', float value=0.0, str algorithm='auto', Tensor(a!) out) -> ()");
  m.def(
      "gaussian_gradient3d(Tensor input, Tensor kernel_x, Tensor kernel_y, Tensor kernel_z, "
      "str border_type='replicate', *, str mode='diff', str padding='same', float value=0.0, "
      "ScalarType? output_dtype=None, str algorithm='auto') -> Tensor");
  m.def(
      "gaussian_gradient3d_out(Tensor input, Tensor kernel_x, Tensor kernel_y, Tensor kernel_z, "
      "str border_type='replicate', *, str derivative='diff', str padding='same', float value=0.0, "
      "str algorithm='auto', Tensor(a!) out) -> ()");
  m.def("ladder2d(Tensor input, Tensor kernel, str variant='naive', int[2] block=16) -> Tensor");
  m.def("ladder3d(Tensor input, Tensor kernel, str variant='naive', int[3] block=8) -> Tensor");
  // Plan-only mode for torch_conv.explain: between the two calls, on the calling thread, rooms record what
  // they would do instead of doing it.
  m.def("_explain_begin() -> ()");
  m.def("_explain_end() -> str");
}
