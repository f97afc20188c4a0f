// The whole operator API on one screen. Defaults are those of torch_conv.functional.
#include <string>
#include <utility>

#include "tensors/torch_api.h"

namespace {

// An operator NAME(Tensor input, ...) -> Tensor and its other forms (api/operator.h):
//
//   NAME_split(Tensor[] shards, ..., int dim=-2, int[]? wanted=None) -> Tensor[]   on an image in shards along `dim`:
//       the shards of the result, or those of them that are `wanted`
//   _NAME_query(str question, ..., Tensor? out=None) -> int[]   the answer to a question about a call that does not run
//   _NAME_split_query(str question, ...) -> int[]   the same for a call of NAME_split
void define(torch::stable::detail::StableLibrary& m, const std::string& schema) {
  m.def(schema.c_str());
  const auto replaced = [](std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  };
  const auto form = [&](const std::string& ending, std::string text) {
    text.insert(text.find_first_of(".("), ending);
    return text;
  };
  const std::string split = replaced(replaced(schema, "Tensor input", "Tensor[] shards"), ") -> Tensor",
                                     ", int dim=-2, int[]? wanted=None) -> Tensor[]");
  m.def(form("_split", split).c_str());
  const auto query = [&](const std::string& ending, const std::string& of, const std::string& results,
                         const std::string& numbers) {
    return "_" + form(ending, replaced(replaced(of, "(", "(str question, "), results, numbers));
  };
  m.def(query("_query", schema, ") -> Tensor", ", Tensor? out=None) -> int[]").c_str());
  m.def(query("_split_query", split, "-> Tensor[]", "-> int[]").c_str());
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
  // Whether filter2d makes a window of low rank as separable passes, for torch_conv.kernels.prepare.
  m.def("_filter2d_by_passes(Tensor input, Tensor kernel) -> bool");
  m.def("_filter2d_least_taps() -> int");
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
         "conv1d(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, "
         "int[1] dilation=1, SymInt groups=1, *, str padding_mode='zeros', str algorithm='auto', str? activation=None) "
         "-> Tensor");
  define(m,
         "conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] padding=0, "
         "int[2] dilation=1, SymInt groups=1, *, str padding_mode='zeros', str algorithm='auto', str? activation=None) "
         "-> Tensor");
  // padding as 'same' (even windows pad one more after than before, as torch) or 'valid'
  define(m,
         "conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, str padding='valid', "
         "int[1] dilation=1, SymInt groups=1, *, str padding_mode='zeros', str algorithm='auto', "
         "str? activation=None) -> Tensor");
  define(m,
         "conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, str padding='valid', "
         "int[2] dilation=1, SymInt groups=1, *, str padding_mode='zeros', str algorithm='auto', "
         "str? activation=None) -> Tensor");
  define(m,
         "conv3d(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, int[3] padding=0, "
         "int[3] dilation=1, SymInt groups=1, *, str padding_mode='zeros', str algorithm='auto', str? activation=None) "
         "-> Tensor");
  define(m,
         "conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, str padding='valid', "
         "int[3] dilation=1, SymInt groups=1, *, str padding_mode='zeros', str algorithm='auto', "
         "str? activation=None) -> Tensor");
  // What the functions call of the three with one number for all axes and zeros outside: _conv gives None where torch
  // is ahead, _conv_ours does not ask.
  m.def("_conv(Tensor input, Tensor weight, Tensor? bias, int numbers) -> Tensor?");
  m.def(
      "_conv_ours(Tensor input, Tensor weight, Tensor? bias, int axes, SymInt stride, SymInt padding, SymInt dilation, "
      "SymInt groups, str? activation=None) -> Tensor");
  // The gradients of depthwise convolutions of signals and images in their weight and bias, or nothing where our
  // kernels do not make them.
  const std::string weight_gradient =
      "(Tensor input, Tensor grad, SymInt[] kernel_size, SymInt[] stride, SymInt[] padding)";
  m.def(("_weight_gradient" + weight_gradient + " -> Tensor[]").c_str());
  m.def(("_weight_gradient_or_torch" + weight_gradient + " -> (Tensor, Tensor)").c_str());  // in Python
  m.def(("_weight_gradient_query(str question, " + weight_gradient.substr(1) + " -> int[]").c_str());
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
  // Causal convolutions of sequences. `_states` returns the last inputs too; `_states_out` writes them into a tensor.
  const std::string causal =
      "(Tensor x, Tensor weight, Tensor? bias=None, Tensor? seq_idx=None, Tensor? initial_states=None, "
      "str? activation=None";
  m.def(("causal_conv1d" + causal + ") -> Tensor").c_str());
  m.def(("causal_conv1d_states" + causal + ") -> (Tensor, Tensor)").c_str());
  m.def(("causal_conv1d_states_out" + causal + ", *, Tensor(a!) final_states_out) -> Tensor").c_str());
  const std::string update =
      ", Tensor weight, Tensor? bias=None, str? activation=None, Tensor? cache_seqlens=None, "
      "Tensor? conv_state_indices=None)";
  m.def(("causal_conv1d_update(Tensor x, Tensor(a!) conv_state" + update + " -> Tensor").c_str());
  for (const std::string name : {"_causal_conv1d_query", "_causal_conv1d_states_query"})
    m.def((name + "(str question, " + causal.substr(1) + ", Tensor? final_states_out=None) -> int[]").c_str());
  m.def(("_causal_conv1d_update_query(str question, Tensor x, Tensor conv_state" + update + " -> int[]").c_str());
  for (const auto& [name, block] : {std::pair{"ladder1d", "int[1] block=256"}, std::pair{"ladder2d", "int[2] block=16"},
                                    std::pair{"ladder3d", "int[3] block=8"}}) {
    const std::string arguments = std::string("(Tensor input, Tensor kernel, str variant='naive', ") + block;
    m.def((name + arguments + ") -> Tensor").c_str());
    m.def((std::string("_") + name + "_query(str question, " + arguments.substr(1) + ", Tensor? out=None) -> int[]")
              .c_str());
  }
  // Sums in float64 in scipy's order, stored as C converts them, for compat.scipy_ndimage on the CPU: of one pass after
  // the other along `dims` (of `twins` 1 or -1 the taps are even or odd), means alike, and of a window along all axes.
  m.def(
      "_stepwise_passes(Tensor input, Tensor[] taps, int[] twins, int[] dims, int[] anchors, int[] borders, "
      "float value, ScalarType output_dtype) -> Tensor");
  m.def(
      "_stepwise_means(Tensor input, int[] sizes, int[] dims, int[] anchors, int[] borders, float value, "
      "ScalarType output_dtype) -> Tensor");
  m.def(
      "_stepwise_window(Tensor input, Tensor window, int[] anchor, int border, float value, "
      "ScalarType output_dtype) -> Tensor");
  // Filters of images with sums in float64 whatever the image's dtype, for compat.cv2 on the CPU (api/float64.h).
  m.def(
      "_filter2d_in_float64(Tensor input, Tensor kernel, str border_type, int anchor_y, int anchor_x, "
      "Tensor(a!) out) -> ()");
  m.def(
      "_filter2d_separable_in_float64(Tensor input, Tensor kernel_x, Tensor kernel_y, str border_type, int anchor_y, "
      "int anchor_x, Tensor(a!) out) -> ()");
  m.def(
      "_box2d_in_float64(Tensor input, int height, int width, str border_type, bool normalized, int anchor_y, "
      "int anchor_x, Tensor(a!) out) -> ()");
  // Who computes a convolution, and why (dispatch/conv/router.cpp); channels a group that our kernels take at most; the
  // table of what is handed to torch, a sentence a row (dispatch/conv/handover.cpp).
  m.def(
      "_conv_route(str device, ScalarType dtype, int[] size, int[] strides, int[] weight, int[] stride, int[]? "
      "padding, int[] dilation, int groups, str padding_mode, int gradient, bool tangent, bool later) -> int[]");
  m.def("_conv_limits() -> int[]");
  m.def("_handover_reasons() -> int[]");
  // The geometry of shards (sharding/geometry.h), for torch_conv/sharding. A footprint is seven numbers (api/query.h).
  m.def("_shard_runs(int low, int high, int[] bounds, int border) -> int[]");
  m.def("_shard_piece(int first, int last, int rows, int[] footprint, int[] held) -> int[]");
  m.def("_shards_read(int[] sizes, int[] footprint) -> int[]");
  // The kernel store: compiles kernels (lines "file name") into a folder; what ptxas says of one; lines for `info`.
  m.def("_build_kernels(str folder, int capability, str[] kernels) -> str[]");
  m.def("_ptxas(int capability, str kernel) -> str");
  m.def("_store_report() -> str[]");
  // Rows of a shard into other ranks' symmetric memory, and a handshake of the ranks: the rows that they have written
  // to this one are there for the current stream's next work. `addresses` has the addresses (sharding/deliver.cpp).
  m.def("_deliver(Tensor local, int dim, Tensor(a!) addresses, int call, int timeout_ms) -> ()");
  // The same, then the launch graph of number `graph` on `given`, of which one is the shard. Empty: nothing has
  // happened, because the graph does not fit.
  m.def(
      "_deliver_and_repeat(Tensor[] given, int own, int graph, int dim, Tensor(a!) addresses, int call, int "
      "timeout_ms) "
      "-> Tensor[]");
  // Number of calls that were replayed (graph/graph_cache.h), for tests.
  m.def("_repeated_calls() -> int");
}
