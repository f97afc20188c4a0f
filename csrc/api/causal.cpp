// causal_conv1d and causal_conv1d_update: checks, then a problem of the causal kernel family.
#include "api/operator.h"
#include "dispatch/dispatch.h"
#include "graph/graph_cache.h"
#include "sharding/part.h"
#include "tensors/images.h"

namespace torch_conv {

namespace {

using OptionalTensor = std::optional<Tensor>;
using OptionalString = std::optional<std::string>;

bool silu_of(const char* op, const OptionalString& activation) {
  check(!activation || *activation == "silu" || *activation == "swish", op,
        "activation must be None, 'silu' or 'swish', got '", activation.value_or(""), "'");
  return activation.has_value();
}

Dtype float_dtype(const char* op, const char* argument, const Tensor& t) {
  const auto dtype = dtype_or_none(t.scalar_type());
  if (!dtype || is_integer(*dtype))
    refuse(op, argument, " must have dtype float32, float16, bfloat16 or float64, got ", dtype_text(t.scalar_type()));
  return *dtype;
}

void check_like(const char* op, const char* argument, const Tensor& t, const Tensor& x, const Sizes& sizes,
                ScalarType dtype) {
  if (sizes_of(t) != sizes)
    refuse(op, argument, " must have shape ", shape_text(sizes), ", got ", shape_text(sizes_of(t)));
  if (t.scalar_type() != dtype)
    refuse(op, argument, " must have dtype ", dtype_text(dtype), ", got ", dtype_text(t.scalar_type()));
  if (!same_device(t, x)) refuse(op, argument, " must be on ", device_text(x), ", got ", device_text(t));
}

void check_disjoint(const char* op, const char* written, const Tensor& t, const char* read, const Tensor& other) {
  check(!overlap(t, other), op, written, " must not overlap ", read);
}

// Checks x, weight and bias. x is (B, D, L), or with `step` also (B, D).
void check_operands(const char* op, const Tensor& x, const Tensor& weight, const OptionalTensor& bias, bool step) {
  check(x.dim() == 3 || (step && x.dim() == 2), op, "x must have ", step ? "2 or 3" : "3", " dimensions, got ",
        x.dim());
  check(weight.dim() == 2, op, "weight must have 2 dimensions, got ", weight.dim());
  if (weight.size(0) != x.size(1) || weight.size(1) < 1)
    refuse(op, "weight must have shape (", x.size(1), ", k) with k at least 1, got ", shape_text(sizes_of(weight)));
  const Dtype x_dtype = float_dtype(op, "x", x), weight_dtype = float_dtype(op, "weight", weight);
  if ((x_dtype == Dtype::f64) != (weight_dtype == Dtype::f64))
    refuse(op, "weight must have dtype ", x_dtype == Dtype::f64 ? "float64" : "float32, float16 or bfloat16",
           " beside x of dtype ", name_of(x_dtype), ", got ", name_of(weight_dtype));
  if (!same_device(weight, x)) refuse(op, "weight must be on ", device_text(x), ", got ", device_text(weight));
  if (bias) check_like(op, "bias", *bias, x, {x.size(1)}, weight.scalar_type());
}

OptionalTensor dense(const Call& call, const OptionalTensor& t) {
  return t ? OptionalTensor(dense(call, *t)) : std::nullopt;
}

// A tensor (B, D, L), or (B, D) as one step.
Signal signal_of(const Tensor& t) { return {t.data_ptr(), t.stride(0), t.stride(1), t.dim() == 3 ? t.stride(2) : 1}; }
Signal signal_of(const OptionalTensor& t) { return t ? signal_of(*t) : Signal{}; }
template <typename T>
const T* data_of(const OptionalTensor& t) {
  return t ? static_cast<const T*>(t->data_ptr()) : nullptr;
}

bool channels_last(const Tensor& x) { return x.dim() == 3 && x.stride(1) == 1 && x.stride(2) > 1; }

// A fresh (B, D, last) in the order of x: channels innermost where they are in x.
Tensor fresh(const Call& call, const Tensor& x, int64_t last) {
  const int64_t n = x.size(0), c = x.size(1);
  if (x.dim() == 2) return allocate(call, x, {n, c}, x.scalar_type());
  if (!channels_last(x)) return allocate(call, x, {n, c, last}, x.scalar_type());
  return allocate(call, x, {n, c, last}, {c * last, 1, c}, x.scalar_type());
}

// The outputs, and the last inputs if `returns_states`.
std::vector<Tensor> convolve(Call& call, const Tensor& x, const Tensor& weight, const OptionalTensor& bias,
                             const OptionalTensor& seq_idx, const OptionalTensor& initial_states,
                             const OptionalString& activation, bool returns_states) {
  const char* op = call.op;
  const bool silu = silu_of(op, activation);
  check_operands(op, x, weight, bias, false);
  const int64_t n = x.size(0), c = x.size(1), l = x.size(2), k = weight.size(1);
  const Sizes states{n, c, k - 1};
  if (seq_idx) {
    check_like(op, "seq_idx", *seq_idx, x, {n, l}, ScalarType::Int);
    check(!initial_states, op, "initial_states must be None where seq_idx is given");
    check(!returns_states, op, "return_final_states must be False where seq_idx is given");
  }
  if (initial_states) check_like(op, "initial_states", *initial_states, x, states, x.scalar_type());
  if (call.out) {
    check_like(op, "final_states_out", *call.out, x, states, x.scalar_type());
    check(!overlaps_itself(*call.out), op, "final_states_out must not overlap itself, got strides ",
          shape_text(strides_of(*call.out)));
    check_disjoint(op, "final_states_out", *call.out, "x", x);
    check_disjoint(op, "final_states_out", *call.out, "weight", weight);
    if (bias) check_disjoint(op, "final_states_out", *call.out, "bias", *bias);
    if (initial_states) check_disjoint(op, "final_states_out", *call.out, "initial_states", *initial_states);
  }
  const Tensor out = fresh(call, x, l);
  std::vector<Tensor> results{out};
  if (returns_states) results.push_back(call.out ? *call.out : fresh(call, x, k - 1));
  const bool after = returns_states && n * c * (k - 1) > 0;
  if (out.numel() == 0 && !after) return results;

  const Tensor taps = dense(call, weight);
  const OptionalTensor offsets = dense(call, bias), numbers = dense(call, seq_idx);
  const Target target(call, x);
  run(call, target,
      CausalConv{.dtype = *dtype_or_none(x.scalar_type()),
                 .weights = *dtype_or_none(weight.scalar_type()),
                 .n = n,
                 .c = c,
                 .l = l,
                 .k = k,
                 .x = signal_of(x),
                 .out = signal_of(out),
                 .before = k > 1 ? signal_of(initial_states) : Signal{},
                 .after = after ? signal_of(results[1]) : Signal{},
                 .weight = taps.data_ptr(),
                 .bias = data_of<void>(offsets),
                 .sequences = data_of<int32_t>(numbers),
                 .silu = silu});
  return results;
}

std::vector<Tensor> update(Call& call, const Tensor& x, const Tensor& conv_state, const Tensor& weight,
                           const OptionalTensor& bias, const OptionalString& activation,
                           const OptionalTensor& cache_seqlens, const OptionalTensor& conv_state_indices) {
  const char* op = call.op;
  const bool silu = silu_of(op, activation);
  check_operands(op, x, weight, bias, true);
  const int64_t n = x.size(0), c = x.size(1), l = x.dim() == 3 ? x.size(2) : 1, k = weight.size(1);
  check(conv_state.dim() == 3, op, "conv_state must have 3 dimensions, got ", conv_state.dim());
  const int64_t rows = conv_state_indices ? conv_state.size(0) : n, size = conv_state.size(2);
  check_like(op, "conv_state", conv_state, x, {rows, c, size}, x.scalar_type());
  check(size >= k - 1, op, "conv_state must have at least ", k - 1, " elements a channel, got ", size);
  if (cache_seqlens) check_like(op, "cache_seqlens", *cache_seqlens, x, {n}, ScalarType::Int);
  if (conv_state_indices) check_like(op, "conv_state_indices", *conv_state_indices, x, {n}, ScalarType::Int);
  check(!overlaps_itself(conv_state), op, "conv_state must not overlap itself, got strides ",
        shape_text(strides_of(conv_state)));
  check_disjoint(op, "conv_state", conv_state, "x", x);
  check_disjoint(op, "conv_state", conv_state, "weight", weight);
  if (bias) check_disjoint(op, "conv_state", conv_state, "bias", *bias);
  const Tensor out = fresh(call, x, l);
  if (out.numel() == 0) return {out};

  const Tensor taps = dense(call, weight);
  const OptionalTensor offsets = dense(call, bias), used = dense(call, cache_seqlens);
  const OptionalTensor indices = dense(call, conv_state_indices);
  const Target target(call, x);
  run(call, target,
      CausalUpdate{.dtype = *dtype_or_none(x.scalar_type()),
                   .weights = *dtype_or_none(weight.scalar_type()),
                   .n = n,
                   .c = c,
                   .l = l,
                   .k = k,
                   .states = conv_state.size(0),
                   .state_l = size,
                   .x = signal_of(x),
                   .out = signal_of(out),
                   .state = size > 0 ? signal_of(conv_state) : Signal{},
                   .weight = taps.data_ptr(),
                   .bias = data_of<void>(offsets),
                   .used = data_of<int32_t>(used),
                   .rows = data_of<int32_t>(indices),
                   .silu = silu});
  return {out};
}

// Replays the recorded graph of a call, or calls `first`. `call.out` is the caller's tensor that the call writes; it
// must not overlap any other argument.
template <typename F, typename... Args>
std::vector<Tensor> repeat(const char* name, Call& call, const F& first, const Tensor& x, const Args&... args) {
  if (!repeatable(call, x)) return first(call, x, args...);
  Signature signature = signature_of(name, Signature::Form::image, call);
  signature.add(x), (signature.add(args), ...);
  return run_recorded(call, signature, [&] { return first(call, x, args...); });
}

Tensor causal_conv1d(Tensor x, Tensor weight, OptionalTensor bias, OptionalTensor seq_idx,
                     OptionalTensor initial_states, OptionalString activation) {
  Call call{"causal_conv1d"};
  return repeat("causal_conv1d", call, convolve, x, weight, bias, seq_idx, initial_states, activation, false)[0];
}

std::tuple<Tensor, Tensor> causal_conv1d_states(Tensor x, Tensor weight, OptionalTensor bias, OptionalTensor seq_idx,
                                                OptionalTensor initial_states, OptionalString activation) {
  Call call{"causal_conv1d"};
  auto results = repeat("causal_conv1d", call, convolve, x, weight, bias, seq_idx, initial_states, activation, true);
  return {results[0], results[1]};
}

Tensor causal_conv1d_states_out(Tensor x, Tensor weight, OptionalTensor bias, OptionalTensor seq_idx,
                                OptionalTensor initial_states, OptionalString activation, Tensor final_states_out) {
  Call call{.op = "causal_conv1d", .out = final_states_out};
  return repeat("causal_conv1d", call, convolve, x, weight, bias, seq_idx, initial_states, activation, true)[0];
}

Tensor causal_conv1d_update(Tensor x, Tensor conv_state, Tensor weight, OptionalTensor bias, OptionalString activation,
                            OptionalTensor cache_seqlens, OptionalTensor conv_state_indices) {
  Call call{.op = "causal_conv1d_update", .out = conv_state};
  const auto first = [&](Call& call, const Tensor& x, const auto&... args) {
    return update(call, x, conv_state, args...);
  };
  return repeat(call.op, call, first, x, weight, bias, activation, cache_seqlens, conv_state_indices)[0];
}

template <bool returns_states>
Sizes conv_query(std::string question, Tensor x, Tensor weight, OptionalTensor bias, OptionalTensor seq_idx,
                 OptionalTensor initial_states, OptionalString activation, OptionalTensor final_states_out) {
  return answer("causal_conv1d", question, [&](Call& call) {
    call.out = final_states_out;
    convolve(call, x, weight, bias, seq_idx, initial_states, activation, returns_states);
  });
}

Sizes update_query(std::string question, Tensor x, Tensor conv_state, Tensor weight, OptionalTensor bias,
                   OptionalString activation, OptionalTensor cache_seqlens, OptionalTensor conv_state_indices) {
  return answer("causal_conv1d_update", question, [&](Call& call) {
    update(call, x, conv_state, weight, bias, activation, cache_seqlens, conv_state_indices);
  });
}

void register_operators(torch::stable::detail::StableLibrary& m) {
  m.impl("causal_conv1d", boxed<&causal_conv1d, "causal_conv1d">);
  m.impl("causal_conv1d_states", boxed<&causal_conv1d_states, "causal_conv1d">);
  m.impl("causal_conv1d_states_out", boxed<&causal_conv1d_states_out, "causal_conv1d">);
  m.impl("causal_conv1d_update", boxed<&causal_conv1d_update, "causal_conv1d_update">);
  register_for_lazy_bits("causal_conv1d_states_out",
                         boxed_for_lazy_bits<&causal_conv1d_states_out, "causal_conv1d", 6>);
  register_for_lazy_bits("causal_conv1d_update",
                         boxed_for_lazy_bits<&causal_conv1d_update, "causal_conv1d_update", 1, true>);
  m.impl("_causal_conv1d_query", boxed<&conv_query<false>, "causal_conv1d">);
  m.impl("_causal_conv1d_states_query", boxed<&conv_query<true>, "causal_conv1d">);
  m.impl("_causal_conv1d_update_query", boxed<&update_query, "causal_conv1d_update">);
}

}  // namespace

// `_states` returns the last inputs too; `_states_out` writes them into a tensor.
STABLE_TORCH_LIBRARY_FRAGMENT(torch_conv, m) {
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
}

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CPU, m) { register_operators(m); }
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) { register_operators(m); }

}  // namespace torch_conv
