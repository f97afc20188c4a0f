#include "ops/rooms.h"

#include <cstdlib>
#include <cstring>
#include <tuple>

#include "ops/checks.h"

namespace torch_conv {

namespace {

const CudaRooms* installed_cuda_rooms = nullptr;

// explain(): while on, this thread's calls record their plans instead of running.
thread_local bool explaining = false;
thread_local std::string explanation;

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Records the plan in explain mode; true means: do not run.
bool only_explain(const char* op, const Place& place, const Plan& plan) {
  if (!explaining) return false;
  std::ostringstream line;
  line << op << ": " << plan;
  if (place.cuda()) line << "; floor " << plan.bytes / place.arch().bytes_per_second * 1e6 << " us";
  explanation += line.str() + "\n";
  return true;
}

}  // namespace

bool explain_mode() { return explaining; }

bool explain_note(const char* op, const char* what) {
  if (explaining) explanation += std::string(op) + ": " + what + "\n";
  return explaining;
}

const CudaRooms* cuda_rooms() { return installed_cuda_rooms; }

Place::Place(const char* op, const Tensor& input) : cuda_(input.is_cuda()) {
  if (!cuda_) {
    check(input.is_cpu(), op, "input must be on cpu or cuda, got ", device_text(input));
    return;
  }
  check(installed_cuda_rooms != nullptr, op, "input is on ", device_text(input),
        ", but this build of torch_conv has no CUDA part");
  const int device = input.get_device_index();
  arch_ = installed_cuda_rooms->arch(device);
  // Tests force the plain path of GPUs before Hopper on any GPU.
  if (std::strcmp(environment("TORCH_CONV_NO_TMA"), "1") == 0) arch_.bulk_copy = false;
  stream_ = installed_cuda_rooms->enter(device, &previous_);
}

Place::~Place() {
  if (cuda_) installed_cuda_rooms->leave(previous_);
}

namespace {

// Which doors serve which problem.
auto doors(const Direct2d&) {
  return std::tuple{&direct2d::plan_cpu, &direct2d::run_cpu, &CudaRooms::direct2d_plan, &CudaRooms::direct2d_run};
}
auto doors(const Separable2d&) {
  return std::tuple{&separable2d::plan_cpu, &separable2d::run_cpu, &CudaRooms::separable2d_plan,
                    &CudaRooms::separable2d_run};
}
auto doors(const Box2d&) {
  return std::tuple{&box::plan_cpu, &box::run_cpu, &CudaRooms::box_plan, &CudaRooms::box_run};
}

template <typename Problem>
void run_problem(const char* op, const Place& place, const Tensor& like, const Problem& p) {
  const auto [plan_cpu, run_cpu, plan_cuda, run_cuda] = doors(p);
  const char* pinned = environment("TORCH_CONV_VARIANT");
  const CudaRooms* rooms = place.cuda() ? cuda_rooms() : nullptr;
  const Plan plan = rooms ? (rooms->*plan_cuda)(p, place.arch(), pinned) : plan_cpu(p, pinned);
  check(plan.variant != nullptr || *pinned == 0, op, "variant '", pinned, "' cannot serve this call");
  check(plan.variant != nullptr, op, "no kernel serves this call: ", plan.why);
  if (only_explain(op, place, plan)) return;
  if (!rooms) return run_cpu(p, plan);
  std::optional<Tensor> scratch;
  if (plan.scratch_bytes > 0) scratch = empty_contiguous(like, {plan.scratch_bytes}, ScalarType::Byte);
  (rooms->*run_cuda)(p, plan, scratch ? scratch->data_ptr() : nullptr, place.stream());
}

}  // namespace

void run(const char* op, const Place& place, const Tensor& like, const Direct2d& p) { run_problem(op, place, like, p); }
void run(const char* op, const Place& place, const Tensor& like, const Separable2d& p) {
  run_problem(op, place, like, p);
}
void run(const char* op, const Place& place, const Tensor& like, const Box2d& p) { run_problem(op, place, like, p); }

void run(const char* op, const Place& place, const Ladder2d& p, ladder::Variant variant) {
  const double pixels = double(p.planes) * double(p.h) * double(p.w);
  const Plan plan{.algorithm = "ladder",
                  .variant = "textbook",
                  .why = "the caller's choice",
                  .bytes = 8 * pixels,
                  .flops = 2.0 * p.k * p.k * pixels};
  if (only_explain(op, place, plan)) return;
  if (place.cuda()) cuda_rooms()->ladder2d_run(p, variant, place.stream());
  else ladder::run_cpu(p, variant);
}

namespace {

void explain_begin() {
  explaining = true;
  explanation.clear();
}

std::string explain_end() {
  explaining = false;
  return std::move(explanation);
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CompositeExplicitAutograd, m) {
  m.impl("_explain_begin", TORCH_BOX(&explain_begin));
  m.impl("_explain_end", TORCH_BOX(&explain_end));
}

}  // namespace torch_conv

// Called by torch_conv/_library.py (or a C++ program) with torch_conv_cuda_rooms() of the module _cuda.
extern "C" __attribute__((visibility("default"))) void torch_conv_install_cuda(const void* rooms) {
  torch_conv::installed_cuda_rooms = static_cast<const torch_conv::CudaRooms*>(rooms);
}
