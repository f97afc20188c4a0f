// Threads for the CPU kernels: the threads of torch's pool (tensors/torch_api.cpp).
#pragma once

#include <cstdint>
#include <functional>

namespace torch_conv {

// Calls f(begin, end) on disjoint ranges that cover [begin, end); a range holds at least `grain` items.
void parallel_for(int64_t begin, int64_t end, int64_t grain, const std::function<void(int64_t, int64_t)>& f);

// The number of threads that parallel_for may use.
int thread_count();

}  // namespace torch_conv
