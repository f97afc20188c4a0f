// The plan of a launch, which a kernel family decides. `explain` prints the plan, and launches only read it.
#pragma once

#include <any>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <ostream>
#include <string>
#include <vector>

#include "core/problem.h"

namespace torch_conv {

// A kernel by name. The kernel store (runtime/store.h) finds the kernel, or compiles and loads it.
struct Kernel {
  const char* file;  // of csrc
  std::string name;  // without torch_conv::, with its template arguments: "direct2d::direct2d_reg<float, 3>"
};

// A template argument as text: a type, a number, or a struct of them.
struct TemplateArgument {
  std::string text;
  TemplateArgument(Dtype type) : text(type_name(type)) {}
  TemplateArgument(bool value) : text(value ? "true" : "false") {}
  TemplateArgument(int value) : text(std::to_string(value)) {}
  TemplateArgument(const char* words) : text(words) {}
  TemplateArgument(std::string words) : text(std::move(words)) {}
  // A struct by its fields in order, as the kernel's source spells it: "direct2d::TileShape{3, 3}".
  TemplateArgument(const char* type, std::initializer_list<TemplateArgument> fields)
      : text(type + ("{" + joined(fields) + "}")) {}

  static std::string joined(std::initializer_list<TemplateArgument> arguments) {
    std::string list;
    for (const TemplateArgument& argument : arguments) list += (list.empty() ? "" : ", ") + argument.text;
    return list;
  }
};

inline Kernel kernel_of(const char* file, std::string name, std::initializer_list<TemplateArgument> arguments) {
  return {file, arguments.size() ? name + "<" + TemplateArgument::joined(arguments) + ">" : name};
}

// The kernel's instance that may read neighbour shards: with its last template argument, kPeers, as true.
inline Kernel with_peers(Kernel kernel, bool peers) {
  if (peers) kernel.name.insert(kernel.name.size() - 1, ", true");
  return kernel;
}

// A variant that does not serve a problem or is slower, and the reason.
struct Refusal {
  const char *variant, *why;
};

// The `bits` of plans whose sums are chains. Plans on tensor cores name a variant.
constexpr const char* kChainBits = "chain";

struct Plan;
struct Site;  // runtime/launch.h

// Runs a plan: launches its kernels on a stream (CUDA), or runs its loops (CPU, which reads no site).
template <typename Problem>
using LaunchFunction = void (*)(const Problem&, const Plan&, const Site&);

struct Plan {
  const char* algorithm;                   // as in algorithm=: "direct", "separable", "box", ...
  const char* variant = nullptr;           // the kernel family's kernel or loop: "reg", "tile_tma", "general", ...
  const char* bits = kChainBits;           // plans of a problem with equal `bits` give the same bits
  const char* why = "";                    // one clause
  int tile_w = 0, tile_h = 0, tile_d = 0;  // output tile of one block (CUDA) or of one task (CPU); tile_d of volumes
  int boundary_d = 0;    // planes of a boundary strip of a volume, if it should be a launch of its own; else 0
  int threads = 0;       // per block (CUDA)
  int shared_bytes = 0;  // dynamic, per block (CUDA)
  int64_t blocks = 0;    // blocks of the grid (CUDA) or tasks (CPU)
  int launches = 1;
  int64_t scratch_bytes = 0;       // memory that the caller of run() allocates on the images' device
  double bytes = 0;                // one read of the input, one write of the output
  double flops = 0;                // two a tap
  std::vector<Kernel> kernels{};   // in the order of their launches (CUDA)
  bool cuda = false;               // set by `choose`; plans of the CPU have loops, not kernels
  std::any launch{};               // a LaunchFunction of the problem, if the plan has a variant
  std::any config{};               // a struct of the variant, for its launch
  std::vector<Refusal> refused{};  // variants before the chosen one
};

// Runs a plan with a variant. A CUDA plan without blocks has no outputs, and kernels have no tensor map of nothing.
template <typename Problem>
void run_plan(const Problem& p, const Plan& plan, const Site& site) {
  if (!plan.cuda || plan.blocks > 0) std::any_cast<LaunchFunction<Problem>>(plan.launch)(p, plan, site);
}

// The struct that a variant's `configure` left for its launch.
template <typename T>
const T& own_config(const Plan& plan) {
  return *std::any_cast<T>(&plan.config);
}

// Members that are 0 do not apply, for example threads of a CPU loop, and are not printed.
inline std::ostream& operator<<(std::ostream& os, const Plan& p) {
  os << p.algorithm << '/' << p.variant << " (" << p.why << ")";
  if (p.tile_w) os << "; tile " << p.tile_w << 'x' << p.tile_h;
  if (p.tile_w && p.tile_d) os << 'x' << p.tile_d;
  if (p.tile_w) os << ", " << p.blocks << (p.threads ? " blocks" : " tasks");
  if (p.threads) os << " of " << p.threads << " threads, shared memory " << p.shared_bytes << " B";
  os << "; launches " << p.launches;
  if (p.scratch_bytes) os << ", scratch " << p.scratch_bytes << " B";
  if (p.bytes) os << "; bytes " << int64_t(p.bytes) << ", flops " << int64_t(p.flops);
  const char* before = "; not ";
  for (const Refusal& r : p.refused) os << before << r.variant << ": " << r.why, before = ", not ";
  return os;
}

// The properties of a device that a plan may depend on. Tests fill in an Arch by hand, to plan for other GPUs.
struct Arch {
  int major, minor;  // compute capability
  int multiprocessors;
  int shared_bytes;         // largest opt-in shared memory of one block
  double bytes_per_second;  // datasheet memory bandwidth
  bool bulk_copy;           // bulk tensor copies (TMA) may be used: Hopper on, the driver has them, not forced off
  // Whether the kernel store can load this kernel. Null: the store can load every kernel.
  bool (*offers)(const Kernel&, const Arch&) = nullptr;
  const char* bits = nullptr;  // null, or Plan::bits: only variants with these bits serve
  bool any_speed = false;      // the first variant that serves is taken, whatever the tuning rules say
};

// A variant of a kernel family. A family's list has its preferred variants first.
template <typename Problem>
struct Candidate {
  const char* variant;
  // Null, or the reason why the variant cannot serve the problem.
  const char* (*refusal)(const Problem&, const Arch&);
  // Tuning rule: null, or the reason why a later candidate is faster. The rule is not called for a pinned variant.
  const char* (*is_slower)(const Problem&, const Arch&);
  // Fills the plan: why, tile, grid, kernels, config.
  void (*configure)(const Problem&, const Arch&, Plan&);
  LaunchFunction<Problem> launch;
  Sums sums = Sums::chain;  // `mma`: on tensor cores, for problems that `needs_mma`
  // The variant whose bits this one has. Null: its own. All variants of Sums::chain have the same bits.
  const char* bits_of = nullptr;

  constexpr const char* bits() const { return sums == Sums::chain ? kChainBits : bits_of ? bits_of : variant; }
};

// The plan of the first candidate that serves. `pinned`, unless it is "", names the only candidate. If none serves, the
// plan has no variant, and its `why` is the refusal of the last candidate.
template <typename Problem, size_t count>
Plan choose(const Candidate<Problem> (&candidates)[count], const Problem& p, const Arch& arch, const char* pinned,
            const Plan& base) {
  std::vector<Refusal> refused;
  bool needs_mma = false;
  if constexpr (requires { p.needs_mma(); }) needs_mma = p.needs_mma();
  for (const Candidate<Problem>& candidate : candidates) {
    if (*pinned && std::strcmp(pinned, candidate.variant) != 0) continue;
    if (arch.bits && std::strcmp(arch.bits, candidate.bits()) != 0) continue;
    const bool other_sums = needs_mma && candidate.sums != Sums::mma;
    if (other_sums && !*pinned && count > 1) continue;  // a plan reports only the refusals on tensor cores
    const char* no = other_sums ? "no tensor cores" : candidate.refusal(p, arch);
    if (!no && !*pinned && !arch.any_speed && candidate.is_slower) no = candidate.is_slower(p, arch);
    if (!no) {
      Plan plan = base;
      plan.variant = candidate.variant, plan.bits = candidate.bits();
      plan.cuda = true, plan.launch = candidate.launch;
      candidate.configure(p, arch, plan);
      bool offered = true;
      if (arch.offers)
        for (const Kernel& kernel : plan.kernels) offered = offered && arch.offers(kernel, arch);
      if (offered) {
        plan.refused = std::move(refused);
        return plan;
      }
      no = "its kernel is not built ahead and there is no compiler (NVRTC)";
    }
    // General variants of others are there for calls whose kernel is not compiled yet; plans do not speak of them.
    if (!candidate.bits_of || *pinned) refused.push_back({candidate.variant, no});
  }
  Plan none = base;
  if (!refused.empty()) none.why = refused.back().why;
  none.refused = std::move(refused);
  return none;
}

}  // namespace torch_conv
