// CausalConv and CausalUpdate + Arch -> Plan: which kernel serves the problem. Pure.
#pragma once

#include "core/refusals.h"
#include "kernels/causal/params.h"
#include "kernels/causal/room.h"

namespace torch_conv::causal {

void launch_general(const CausalConv& p, const Plan& plan, const Site& site);
void launch_rows(const CausalConv& p, const Plan& plan, const Site& site);
void launch_channels(const CausalConv& p, const Plan& plan, const Site& site);

struct Config {
  void (*launch)(const CausalConv& p, const Plan& plan, const Site& site);
};

// Channels lie innermost in memory.
inline bool channels_inner(const Signal& s, int64_t channels) { return s.stride_c == 1 && channels > 1; }
inline bool on(const void* data, int64_t bytes) { return reinterpret_cast<uintptr_t>(data) % bytes == 0; }
// What the kernels for widths 2 to 4 ask for; widths are template arguments there.
inline const char* narrow_refusal(const CausalConv& p) {
  if (p.dtype == Dtype::f64) return "float64";
  if (p.k < 2 || p.k > 4) return "a width other than 2, 3 and 4";
  if (p.l == 0) return "no inputs";
  if (!below(int64_t(1) << 32,
             {p.x.stride_n, p.x.stride_c, p.x.stride_l, p.out.stride_n, p.out.stride_c, p.out.stride_l}))
    return "strides of 2^32 elements";
  return below(kMostSide, {p.l, p.c}) ? nullptr : "2^30 channels or steps";
}

// Whether rows of x and of out lie alike on vectors of 16 bytes, and are whole.
inline Lie lie_of(const CausalConv& p) {
  const int64_t size = size_of(p.dtype);
  const auto on_vectors = [&](int64_t address, int64_t stride_n, int64_t stride_c) {
    return address % 16 == 0 && (p.n == 1 || stride_n * size % 16 == 0) && (p.c == 1 || stride_c * size % 16 == 0);
  };
  const int64_t x = reinterpret_cast<intptr_t>(p.x.data), out = reinterpret_cast<intptr_t>(p.out.data);
  if (!on_vectors(x - out, p.x.stride_n - p.out.stride_n, p.x.stride_c - p.out.stride_c)) return Lie::apart;
  return on_vectors(out, p.out.stride_n, p.out.stride_c) && p.l * size % 16 == 0 ? Lie::whole : Lie::alike;
}

// How the vectors of a row are dealt out: `lanes` of a warp take `deep` vectors each, one behind the other. Whole warps
// for every row took 8.1 us over bf16 4x4096x128 with silu, groups of 16 lanes 4.6 (copy 4.0); over 4x4096x32 8.0 and
// 2.6 (2.2), over 4x4096x1134 34.2 and 28.9 (21.0); one NVIDIA H200.
struct Deal {
  int deep, lanes;
  int64_t groups;  // of lanes, a row
};
inline Deal deal_of(const CausalConv& p) {
  const int64_t vector = 16 / size_of(p.dtype), before = lie_of(p) == Lie::whole ? 0 : vector - 1;
  const int64_t vectors = ceil_div(p.l + before, vector);
  if (vectors <= 32) {
    int lanes = 1;
    while (lanes < vectors) lanes *= 2;
    return {1, lanes, 1};
  }
  // Fewer lanes where they leave less of their vectors idle.
  Deal best{2, 32, ceil_div(vectors, 64)};
  for (int lanes = 16; lanes >= 8; lanes /= 2) {
    const int64_t groups = ceil_div(vectors, 2 * lanes);
    if (groups * lanes * 10 < best.groups * best.lanes * 9) best = {2, lanes, groups};
  }
  return best;
}
inline const char* argument_of(Lie lie) {
  return lie == Lie::whole ? "causal::Lie::whole" : lie == Lie::alike ? "causal::Lie::alike" : "causal::Lie::apart";
}

inline const char* rows_refusal(const CausalConv& p, const Arch&) {
  if (const char* no = narrow_refusal(p)) return no;
  if (p.sequences) return "packed sequences";
  if (p.x.stride_l != 1 || p.out.stride_l != 1) return "elements of a row do not lie side by side";
  const Deal deal = deal_of(p);
  const int64_t groups = p.n * p.c * deal.groups;
  return below(kLargestGrid, {groups, groups * deal.lanes / 2}) ? nullptr : "2^32 threads";
}

inline void configure_rows(const CausalConv& p, const Arch&, Plan& plan) {
  plan.why = "lanes take vectors of one row, neighbours by shuffle";
  const Deal deal = deal_of(p);
  plan.tile_w = deal.deep * deal.lanes * (16 / size_of(p.dtype));
  plan.tile_h = kRowsWarps * 32 / deal.lanes;
  plan.threads = kRowsWarps * 32;
  plan.blocks = ceil_div(p.n * p.c * deal.groups * deal.lanes, plan.threads);
  plan.kernels = {kernel_of("kernels/causal/kernel_rows.cuh", "causal::causal_rows",
                            {p.dtype, p.weights, int(p.k), p.silu, argument_of(lie_of(p)), deal.deep})};
  plan.config = Config{launch_rows};
}

inline int64_t blocks_across(const CausalConv& p) { return ceil_div(p.c, 32 * kChannels); }
inline int64_t blocks_along(const CausalConv& p) { return ceil_div(p.l, kSteps * kChannelsWarps); }

inline const char* channels_refusal(const CausalConv& p, const Arch&) {
  if (const char* no = narrow_refusal(p)) return no;
  if (!channels_inner(p.x, p.c) || !channels_inner(p.out, p.c)) return "channels do not lie side by side";
  if (p.c % kChannels != 0) return "channels no multiple of 4";
  const int64_t bytes = kChannels * size_of(p.dtype);
  const Signal& b = p.before;  // what stands before is read in vectors too
  if (b.data && (b.stride_c != 1 || !on(b.data, bytes) || b.stride_n % kChannels != 0 || b.stride_l % kChannels != 0))
    return "initial states of another layout";
  const auto whole = [&](const Signal& s) {
    return on(s.data, bytes) && (p.n == 1 || s.stride_n % kChannels == 0) && (p.l == 1 || s.stride_l % kChannels == 0);
  };
  if (!whole(p.x) || !whole(p.out)) return "steps do not start on whole vectors";
  if (!on(p.weight, 8) || !on(p.bias, 8)) return "taps or bias do not start on 8 bytes";
  return below(kLargestGrid, {p.n * blocks_across(p) * blocks_along(p)}) ? nullptr : "2^31 blocks";
}

inline void configure_channels(const CausalConv& p, const Arch&, Plan& plan) {
  plan.why = "a lane takes 4 channels over 8 steps";
  plan.tile_w = 32 * kChannels;
  plan.tile_h = kSteps * kChannelsWarps;
  plan.threads = kChannelsWarps * 32;
  plan.blocks = p.n * blocks_across(p) * blocks_along(p);
  plan.kernels = {kernel_of("kernels/causal/kernel_channels.cuh", "causal::causal_channels",
                            {p.dtype, p.weights, int(p.k), p.silu, p.sequences != nullptr})};
  plan.config = Config{launch_channels};
}

inline const char* general_refusal(const CausalConv&, const Arch&) { return nullptr; }

inline int64_t general_threads(const CausalConv& p) { return p.n * p.c * ceil_div(p.l, 4); }
inline int64_t general_all(const CausalConv& p) {
  return general_threads(p) + (p.after.data ? p.n * p.c * (p.k - 1) : 0);
}

inline void configure_general(const CausalConv& p, const Arch&, Plan& plan) {
  plan.why = "any width, dtype, layout, states and sequences";
  plan.tile_w = 4;
  plan.tile_h = 1;
  plan.threads = 256;
  plan.blocks = ceil_div(general_all(p), plan.threads);
  plan.kernels = {kernel_of("kernels/causal/kernel_general.cuh", "causal::causal_general", {p.dtype, p.weights})};
  plan.config = Config{launch_general};
}

constexpr Candidate<CausalConv> kCandidates[] = {
    {"channels", channels_refusal, nullptr, configure_channels},
    {"rows", rows_refusal, nullptr, configure_rows},
    {"general", general_refusal, nullptr, configure_general},
};

inline int64_t update_blocks(const CausalUpdate& p) { return p.n * ceil_div(p.c, 128); }

inline const char* update_general_refusal(const CausalUpdate& p, const Arch&) {
  return below(kLargestGrid, {update_blocks(p)}) ? nullptr : "2^31 blocks";
}
inline const char* update_refusal(const CausalUpdate& p, const Arch& arch) {
  return p.k > 4 ? "a width above 4" : update_general_refusal(p, arch);
}

inline void configure_update_general(const CausalUpdate& p, const Arch&, Plan& plan) {
  plan.why = "a thread a channel, any width";
  plan.tile_w = 128;
  plan.tile_h = 1;
  plan.threads = 128;
  plan.blocks = update_blocks(p);
  plan.kernels = {kernel_of("kernels/causal/kernel_update.cuh", "causal::causal_update_general", {p.dtype, p.weights})};
}
inline void configure_update(const CausalUpdate& p, const Arch& arch, Plan& plan) {
  configure_update_general(p, arch, plan);
  plan.why = "a thread a channel, one trip to memory";
  plan.kernels = {kernel_of("kernels/causal/kernel_update.cuh", "causal::causal_update",
                            {p.dtype, p.weights, int(p.k), p.silu, p.used != nullptr})};
}

// Four channels of a state as words: their elements side by side (`dense`), or one element of all of them.
inline bool dense_channels(const CausalUpdate& p) {
  return p.state.stride_l == 1 && p.state.stride_c == p.state_l && (p.state_l == p.k - 1 || p.state_l == p.k) &&
         on(p.state.data, 16) && p.state.stride_n * size_of(p.dtype) % 16 == 0;
}

inline const char* step_refusal(const CausalUpdate& p, const Arch&) {
  if (p.dtype == Dtype::f64) return "float64";
  if (p.k < 2 || p.k > 4) return "a width other than 2, 3 and 4";
  if (p.l != 1 || p.used) return "several steps, or a ring";
  const int64_t bytes = 4 * size_of(p.dtype);
  const auto whole = [&](const Signal& s) { return on(s.data, bytes) && s.stride_n % 4 == 0; };
  if (p.c % 4 != 0 || p.x.stride_c != 1 || p.out.stride_c != 1 || !whole(p.x) || !whole(p.out) || !whole(p.state))
    return "no whole vectors of channels";
  if (!on(p.weight, 8) || !on(p.bias, 8)) return "taps or bias do not start on 8 bytes";
  const bool inner = p.state.stride_c == 1 && p.state.stride_l % 4 == 0 && p.state_l == p.k - 1;
  if (!inner && !dense_channels(p)) return "a state of another layout";
  if (!below(kMostSide, {p.c})) return "2^30 channels";
  return below(kLargestGrid, {p.n * ceil_div(p.c, 4 * kStepThreads)}) ? nullptr : "2^31 blocks";
}

// bf16, k = 4, silu, a step of 256 x 8192 channels on one NVIDIA H200: 13.0 us with states of 3 elements, 14.6 of 4,
// 12.5 with channels innermost, where UPDATE takes 38; at 1 x 2048 both take 1.8.
inline void configure_step(const CausalUpdate& p, const Arch&, Plan& plan) {
  plan.why = "a lane takes 4 channels over one step";
  plan.tile_w = 4 * kStepThreads;
  plan.tile_h = 1;
  plan.threads = kStepThreads;
  plan.blocks = p.n * ceil_div(p.c, 4 * kStepThreads);
  const bool dense = dense_channels(p);
  plan.kernels = {kernel_of("kernels/causal/kernel_step.cuh", "causal::causal_step",
                            {p.dtype, p.weights, int(p.k), p.silu, dense ? int(p.state_l) : 0})};
}

constexpr Candidate<CausalUpdate> kUpdateCandidates[] = {
    {"step", step_refusal, nullptr, configure_step},
    {"update", update_refusal, nullptr, configure_update},
    {"general", update_general_refusal, nullptr, configure_update_general},
};

}  // namespace torch_conv::causal
