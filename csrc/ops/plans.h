// Plans that are found again: a call whose problem differs from an earlier one by nothing but the memory it works on is
// neither planned nor are its kernels looked up.
#pragma once

#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/rooms.h"
#include "cuda/store.h"

namespace torch_conv {

// All that a plan may depend on, as numbers. Of memory that is its alignment, of windows on the host for fused chains
// (whose plans know some taps by heart) the taps themselves.
class PlanKey {
 public:
  explicit PlanKey(const void* room, const Arch& arch) {
    add(int64_t(reinterpret_cast<uintptr_t>(room)), arch.major, arch.minor, arch.multiprocessors, arch.bulk_copy);
  }

  void of(const Direct& p) {
    add_image(p.in), add_image(p.out), add_taps(p.taps), add_place(p.place);
    add(p.kd, p.kh, p.kw, p.groups, p.bias != nullptr);
    add_beside(p.beside);
  }
  void of(const Separable& p) {
    add_image(p.in), add_image(p.out), add_place(p.place);
    for (const Taps* taps : {&p.taps_x, &p.taps_y, &p.taps_z}) add_taps(*taps);
    add(p.kd, p.kh, p.kw);
    add_beside(p.beside);
  }
  void of(const Box& p) {
    add_image(p.in), add_image(p.out), add_place(p.place);
    add(p.kd, p.kh, p.kw), add_number(p.scale);
  }
  void of(const BoxDepth& p) {
    add_image(p.sums), add_image(p.out), add_place(p.place);
    add(int64_t(p.source), p.kd, p.kh, p.kw, p.plane_h, p.plane_w), add_number(p.scale), add_number(p.outside);
  }
  void of(const Combine& p) {
    for (int i = 0; i < p.windows; ++i) add_image(p.sums[i]);
    add_image(p.centre), add_image(p.out);
    add(p.windows, p.stride_output, int64_t(p.point), p.margin_y, p.margin_x), add_number(p.number);
  }
  void of(const Fused& p) {
    add_image(p.in), add_image(p.out), add_number(p.value);
    add(p.stride_output, p.count, int64_t(p.border), p.valid, p.stride, p.wanted);
    const int64_t size = acc_bytes(p.in.dtype);
    for (int i = 0; i < p.count; ++i) {
      const Stage& s = p.stages[i];
      add(s.windows, s.kd, s.kh, s.kw, int64_t(s.point)), add_number(s.number);
      for (int w = 0; w < s.windows; ++w) {
        add_taps(s.taps_x[w]), add_taps(s.taps_y[w]), add_taps(s.taps_z[w]);
        if (s.kh == 3 && s.kw == 3)  // the sizes of which plans know windows by heart
          add_values(s.taps_x[w], 3 * size), add_values(s.taps_y[w], 3 * size), add_values(s.taps_z[w], s.kd * size);
        // Which windows are the same one.
        add(s.taps_x[w].data == s.taps_x[0].data, s.taps_y[w].data == s.taps_y[0].data);
      }
    }
  }

  const std::string& bytes() const { return bytes_; }

 private:
  template <typename... Numbers>
  void add(Numbers... numbers) {
    const int64_t all[] = {int64_t(numbers)...};
    bytes_.append(reinterpret_cast<const char*>(all), sizeof(all));
  }
  void add_number(double number) { bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number)); }
  void add_image(const Image& x) {
    constexpr uintptr_t kAlignment = 128;  // no room asks for more
    add(x.data != nullptr, reinterpret_cast<uintptr_t>(x.data) % kAlignment, int64_t(x.dtype), x.n, x.c, x.d, x.h, x.w,
        x.stride_n, x.stride_c, x.stride_d, x.stride_h, x.stride_w);
  }
  void add_beside(const Beside& b) {
    for (const Image* x : {&b.above, &b.below})
      if (x->data) add_image(*x);
      else add(0);
  }
  void add_taps(const Taps& t) { add(t.on_host, t.stride_n, t.stride_c, t.stride_ci); }
  void add_values(const Taps& t, int64_t bytes) {
    if (t.on_host && t.data && t.stride_n == 0 && t.stride_c == 0)
      bytes_.append(static_cast<const char*>(t.data), bytes);
  }
  void add_place(const Placement& s) {
    add(s.pad_z, s.pad_y, s.pad_x, s.stride_z, s.stride_y, s.stride_x, s.dilation_z, s.dilation_y, s.dilation_x,
        int64_t(s.border), s.normalized);
    add_number(s.value);
  }

  std::string bytes_;
};

// A plan with its kernels loaded.
struct Planned {
  Plan plan;
  std::vector<const LoadedKernel*> kernels;
};

// A few hundred plans; when it is full some other one goes.
class PlanCache {
 public:
  std::shared_ptr<const Planned> find(const PlanKey& key) {
    const std::lock_guard lock(mutex_);
    const auto found = plans_.find(key.bytes());
    return found == plans_.end() ? nullptr : found->second;
  }
  void keep(const PlanKey& key, std::shared_ptr<const Planned> planned) {
    const std::lock_guard lock(mutex_);
    if (plans_.size() >= kMost) plans_.erase(plans_.begin());
    plans_[key.bytes()] = std::move(planned);
  }

 private:
  static constexpr size_t kMost = 512;
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Planned>> plans_;
};

}  // namespace torch_conv
