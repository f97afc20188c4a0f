// The whole operator API on one screen. Defaults are those of torch_conv.functional.
#include <string>

#include "torch_api.h"

namespace {

// An operator NAME(Tensor input, ...) -> Tensor and its form on an image in shards along `dim`,
// NAME_split(Tensor[] shards, ..., int dim=-2, int[]? wanted=None) -> Tensor[]: the shards of the result, or those
// of them that are `wanted`.
void define(torch::stable::detail::StableLibrary& m, const std::string& schema) {
  m.def(schema.c_str());
  std::string split = schema;
  const auto replace = [&](const std::string& from, const std::string& to) {
    split.replace(split.find(from), from.size(), to);
  };
  split.insert(split.find_first_of(".("), "_split");
  replace("Tensor input", "Tensor[] shards");
  replace(") -> Tensor", ", int dim=-2, int[]? wanted=None) -> Tensor[]");
  m.def(split.c_str());
}

}  // namespace

STABLE_TORCH_LIBRARY(torch_conv, m) {
  define(m,
         "filter2d(Tensor input, Tensor kernel, str border_type='reflect', bool normalized=False, str padding='same', "
         "str behaviour='corr', *, float value=0.0, int[2]? anchor=None, int[2] stride=1, int[2] dilation=1, "
         "ScalarType? output_dtype=None, str algorithm='auto') -> Tensor");
  m.def(
      "filter2d_out(Tensor input, Tensor kernel, str border_type='reflect', bool normalized=False, "
      "str padding='same', str behaviour='corr', *, float value=0.0, int[2]? anchor=None, int[2] stride=1, "
      "int[2] dilation=1, str algorithm='auto', Tensor(a!) out) -> ()");
  define(m,
         "filter2d_separable(Tensor input, Tensor kernel_x, Tensor kernel_y, str border_type='reflect', "
         "bool normalized=False, str padding='same', *, float value=0.0, int[2]? anchor=None, "
         "int[2] stride=1, int[2] dilation=1, ScalarType? output_dtype=None, str algorithm='auto') -> Tensor");
  m.def(
      "filter2d_separable_out(Tensor input, Tensor kernel_x, Tensor kernel_y, str border_type='reflect', "
      "bool normalized=False, str padding='same', *, float value=0.0, int[2]? anchor=None, "
      "int[2] stride=1, int[2] dilation=1, str algorithm='auto', Tensor(a!) out) -> ()");
  define(m,
         "box2d(Tensor input, int[2] kernel_size, str border_type='reflect', bool normalized=True, str padding='same', "
         "*, float value=0.0, int[2]? anchor=None, ScalarType? output_dtype=None, str algorithm='auto') -> Tensor");
  m.def(
      "box2d_out(Tensor input, int[2] kernel_size, str border_type='reflect', bool normalized=True, "
      "str padding='same', *, float value=0.0, int[2]? anchor=None, str algorithm='auto', Tensor(a!) out) -> ()");
  define(m,
         "conv1d(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, int[1] dilation=1, "
         "int groups=1, *, str padding_mode='zeros', str algorithm='auto') -> Tensor");
  define(m,
         "conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] padding=0, int[2] dilation=1, "
         "int groups=1, *, str padding_mode='zeros', str algorithm='auto') -> Tensor");
  // padding as 'same' (even windows pad one more after than before, as torch) or 'valid'
  define(m,
         "conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, str padding='valid', "
         "int[1] dilation=1, int groups=1, *, str padding_mode='zeros', str algorithm='auto') -> Tensor");
  define(m,
         "conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, str padding='valid', "
         "int[2] dilation=1, int groups=1, *, str padding_mode='zeros', str algorithm='auto') -> Tensor");
  define(m,
         "conv3d(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, int[3] padding=0, int[3] dilation=1, "
         "int groups=1, *, str padding_mode='zeros', str algorithm='auto') -> Tensor");
  define(m,
         "conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, str padding='valid', "
         "int[3] dilation=1, int groups=1, *, str padding_mode='zeros', str algorithm='auto') -> Tensor");
  // Volumes: kornia's order of arguments and border.
  define(m,
         "filter3d(Tensor input, Tensor kernel, str border_type='replicate', bool normalized=False, "
         "str behaviour='corr', *, str padding='same', float value=0.0, int[3]? anchor=None, int[3] stride=1, "
         "int[3] dilation=1, ScalarType? output_dtype=None, str algorithm='auto') -> Tensor");
  m.def(
      "filter3d_out(Tensor input, Tensor kernel, str border_type='replicate', bool normalized=False, "
      "str behaviour='corr', *, str padding='same', float value=0.0, int[3]? anchor=None, int[3] stride=1, "
      "int[3] dilation=1, str algorithm='auto', Tensor(a!) out) -> ()");
  define(m,
         "filter3d_separable(Tensor input, Tensor kernel_x, Tensor kernel_y, Tensor kernel_z, "
         "str border_type='replicate', bool normalized=False, *, str padding='same', float value=0.0, "
         "int[3]? anchor=None, int[3] stride=1, int[3] dilation=1, ScalarType? output_dtype=None, "
         "str algorithm='auto') -> Tensor");
  m.def(
      "filter3d_separable_out(Tensor input, Tensor kernel_x, Tensor kernel_y, Tensor kernel_z, "
      "str border_type='replicate', bool normalized=False, *, str padding='same', float value=0.0, "
      "int[3]? anchor=None, int[3] stride=1, int[3] dilation=1, str algorithm='auto', Tensor(a!) out) -> ()");
  define(m,
         "box3d(Tensor input, int[3] kernel_size, str border_type='replicate', bool normalized=True, *, "
         "str padding='same', float value=0.0, int[3]? anchor=None, ScalarType? output_dtype=None, "
         "str algorithm='auto') -> Tensor");
  m.def(
      "box3d_out(Tensor input, int[3] kernel_size, str border_type='replicate', bool normalized=True, *, "
      "str padding='same', float value=0.0, int[3]? anchor=None, str algorithm='auto', Tensor(a!) out) -> ()");
  // Chains of filters in one launch. `mode` is `derivative` where there is an `out`: torch.compile takes no operator
  // that writes into an argument and has another one called mode (auto_functionalized_v2).
  define(
      m,
      "gradient2d(Tensor input, str mode='sobel', int order=1, bool normalized=True, *, str border_type='replicate', "
      "str padding='same', float value=0.0, ScalarType? output_dtype=None, str algorithm='auto') -> Tensor");
  m.def(
      "gradient2d_out(Tensor input, str derivative='sobel', int order=1, bool normalized=True, *, "
      "str border_type='replicate', str padding='same', float value=0.0, str algorithm='auto', Tensor(a!) out) -> ()");
  define(m,
         "sobel2d(Tensor input, bool normalized=True, float eps=1e-6, *, str border_type='replicate', "
         "str padding='same', float value=0.0, ScalarType? output_dtype=None, str algorithm='auto') -> Tensor");
  m.def(
      "sobel2d_out(Tensor input, bool normalized=True, float eps=1e-6, *, str border_type='replicate', "
      "str padding='same', float value=0.0, str algorithm='auto', Tensor(a!) out) -> ()");
  define(m,
         "gaussian_sobel2d(Tensor input, Tensor kernel_x, Tensor kernel_y, str border_type='reflect', *, "
         "str magnitude='l2', str padding='same', float value=0.0, ScalarType? output_dtype=None, "
         "str algorithm='auto') -> Tensor");
  m.def(
      "gaussian_sobel2d_out(Tensor input, Tensor kernel_x, Tensor kernel_y, str border_type='reflect', *, "
      "str magnitude='l2', str padding='same', float value=0.0, str algorithm='auto', Tensor(a!) out) -> ()");
  define(m,
         "separable_sum2d(Tensor input, Tensor[] kernels_x, Tensor[] kernels_y, str border_type='reflect', *, "
         "str padding='same', float value=0.0, ScalarType? output_dtype=None, str algorithm='auto') -> Tensor");
  m.def(
      "separable_sum2d_out(Tensor input, Tensor[] kernels_x, Tensor[] kernels_y, str border_type='reflect', *, "
      "str padding='same', float value=0.0, str algorithm='auto', Tensor(a!) out) -> ()");
  define(
      m,
      "unsharp_mask2d(Tensor input, Tensor kernel_x, Tensor kernel_y, str border_type='reflect', *, float amount=1.0, "
      "str padding='same', float value=0.0, ScalarType? output_dtype=None, str algorithm='auto') -> Tensor");
  m.def(
      "unsharp_mask2d_out(Tensor input, Tensor kernel_x, Tensor kernel_y, str border_type='reflect', *, "
      "float amount=1.0, str padding='same', float value=0.0, str algorithm='auto', Tensor(a!) out) -> ()");
  define(m,
         "structure_tensor2d(Tensor input, Tensor kernel_x, Tensor kernel_y, str border_type='reflect', *, "
         "str mode='sobel', str padding='same', float value=0.0, ScalarType? output_dtype=None, "
         "str algorithm='auto') -> Tensor");
  m.def(
      "structure_tensor2d_out(Tensor input, Tensor kernel_x, Tensor kernel_y, str border_type='reflect', *, "
      "str derivative='sobel', str padding='same', float value=0.0, str algorithm='auto', Tensor(a!) out) -> ()");
  define(
      m,
      "thin_edges2d(Tensor input, Tensor kernel_x, Tensor kernel_y, str border_type='reflect', *, str padding='same', "
      "float value=0.0, ScalarType? output_dtype=None, str algorithm='auto') -> Tensor");
  m.def(
      "thin_edges2d_out(Tensor input, Tensor kernel_x, Tensor kernel_y, str border_type='reflect', *, "
      "str padding='same', float value=0.0, str algorithm='auto', Tensor(a!) out) -> ()");
  define(m,
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
  // Between these two, on the calling thread, an operator checks its arguments and says how far its outputs reach: for
  // each axis d, h, w the pad, length, stride and middle (ops/part.h) and the number of outputs; then the border.
  m.def("_reach_begin() -> ()");
  m.def("_reach_end() -> int[]");
}
