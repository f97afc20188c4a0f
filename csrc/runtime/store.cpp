#include "runtime/store.h"

#include <algorithm>
#include <climits>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>

#include "core/fork_mutex.h"
#include "runtime/compiler.h"
#include "runtime/context.h"
#include "runtime/driver.h"
#include "runtime/kernel_file.h"

namespace torch_conv {

void LoadedKernel::allow_shared(int bytes) const {
  // Kernels may use 48 KiB without an attribute; their static barriers count, too.
  constexpr int kAllowed = 47 * 1024;
  if (bytes <= kAllowed) return;
  bytes = std::max(bytes, 48 * 1024 + 1);
  const int device = cuda::current_device();
  std::atomic<int>& allowed = allowed_[device % kDevices];
  if (device < kDevices && allowed.load(std::memory_order_acquire) >= bytes) return;
  const std::lock_guard lock(allowing_);  // threads never lower the limit
  if (device < kDevices && allowed.load(std::memory_order_acquire) >= bytes) return;
  cuda::check(cuda::driver().set_kernel_attribute(cuda::kMaxDynamicSharedSize, bytes,
                                                  static_cast<cuda::KernelFunction>(function_), device),
              ("asking for shared memory for kernel " + name_).c_str());
  allowed.store(bytes, std::memory_order_release);
}

void LoadedKernel::launch(int64_t grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                          unsigned block_z, int shared_bytes, void* stream, void** parameters) const {
  if (grid_x == 0) return;
  if (grid_x > INT_MAX)
    throw std::runtime_error("torch_conv: kernel " + name_ + " would need more than 2^31 - 1 blocks");
  allow_shared(shared_bytes);
  const cuda::Result status = cuda::driver().launch(static_cast<cuda::KernelFunction>(function_), unsigned(grid_x),
                                                    grid_y, grid_z, block_x, block_y, block_z, unsigned(shared_bytes),
                                                    static_cast<cuda::Stream>(stream), parameters, nullptr);
  if (status != cuda::kSuccess) cuda::fail(status, ("launching kernel " + name_).c_str());
}

namespace cuda {

namespace {

// A kernel of one architecture in this process. Threads that load the same kernel wait for the first of them.
struct CachedKernel {
  std::mutex mutex;
  std::unique_ptr<LoadedKernel> loaded;
  Origin origin{};
};

// CachedKernel has a std::mutex: fork() would wait for a compiler, and a forked child cannot use CUDA.
ForkMutex cache_mutex;
std::map<std::pair<int, std::string>, CachedKernel>& kernel_cache() {
  static auto* all = new std::map<std::pair<int, std::string>, CachedKernel>;  // never destroyed
  return *all;
}

int capability_of(const Arch& arch) { return 10 * arch.major + arch.minor; }

std::string folder_ahead(int capability) { return ahead_folder() + "/sm_" + std::to_string(capability); }

// The capabilities whose code built ahead runs on the GPU, the nearest first: the same major and a lower minor.
std::vector<int> built_ahead_for(int capability) {
  std::vector<int> found;
  std::error_code error;  // a folder that cannot be read counts as none
  for (int lower = capability; lower >= capability / 10 * 10; --lower)
    if (std::filesystem::exists(folder_ahead(lower), error)) found.push_back(lower);
  return found;
}

std::optional<Binary> find_ahead(const Kernel& kernel, int capability) {
  for (const int lower : built_ahead_for(capability)) {
    const std::string description = describe(kernel, lower, "");
    if (auto found = read_kernel(kernel_path(folder_ahead(lower), description), description)) return found;
  }
  return std::nullopt;
}

KernelFunction load_binary(const Kernel& kernel, const Binary& binary) {
  Library library = nullptr;
  KernelFunction function = nullptr;
  const std::string action = "loading kernel " + kernel.name;
  check(driver().load_library(&library, binary.code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), action.c_str());
  check(driver().get_kernel(&function, library, binary.symbol.c_str()), action.c_str());
  return function;
}

void fill(CachedKernel& cached, const Kernel& kernel, int capability) {
  const auto keep = [&](const Binary& binary, Origin origin) {
    cached.loaded = std::make_unique<LoadedKernel>(kernel.name, load_binary(kernel, binary));
    cached.origin = origin;
  };
  // Code of another compiler may be too new for this driver. False: the next origin is tried.
  const auto try_to_keep = [&](const std::optional<Binary>& binary, Origin origin) {
    if (!binary) return false;
    try {
      keep(*binary, origin);
      return true;
    } catch (const std::runtime_error&) {
      if (compiler_version().empty()) throw;
      return false;
    }
  };
  if (try_to_keep(find_ahead(kernel, capability), Origin::ahead)) return;
  const std::string description = describe(kernel, capability, compiler_version()), folder = cache_folder();
  const std::string path = folder.empty() ? "" : kernel_path(folder, description);
  if (!path.empty() && try_to_keep(read_kernel(path, description, true), Origin::cache)) return;
  const Binary binary = compile(kernel, capability);
  if (!path.empty()) write_kernel(path, description, binary);  // may fail: then the next process compiles again
  keep(binary, Origin::compiled);
}

CachedKernel& cache_entry(const Kernel& kernel, int capability) {
  const std::lock_guard lock(cache_mutex);
  return kernel_cache()[{capability, kernel.name}];
}

}  // namespace

const LoadedKernel& load(const Kernel& kernel, const Arch& arch) {
  CachedKernel& cached = cache_entry(kernel, capability_of(arch));
  const std::lock_guard lock(cached.mutex);
  if (!cached.loaded) fill(cached, kernel, capability_of(arch));
  return *cached.loaded;
}

bool offers(const Kernel& kernel, const Arch& arch) {
  {
    CachedKernel& cached = cache_entry(kernel, capability_of(arch));
    if (const std::unique_lock free(cached.mutex, std::try_to_lock); free && cached.loaded) return true;
  }
  // compiler_version() loads the compiler, which takes a millisecond or more of the first call, so the call comes last.
  return find_ahead(kernel, capability_of(arch)).has_value() || !compiler_version().empty();
}

std::vector<std::string> build_ahead(const std::string& folder, int capability, const std::vector<Kernel>& kernels) {
  const std::string arch_folder = folder + "/sm_" + std::to_string(capability);
  std::filesystem::create_directories(arch_folder);
  std::vector<std::string> files;
  for (const Kernel& kernel : kernels) {
    const std::string description = describe(kernel, capability, ""), path = kernel_path(arch_folder, description);
    files.push_back(path);
    if (read_kernel(path, description)) continue;
    if (!write_kernel(path, description, compile(kernel, capability)))
      throw std::runtime_error("torch_conv: " + path + " cannot be written");
  }
  return files;
}

namespace {

std::string compiler_line() {
  if (compiler_version().empty()) return "compiler: none (NVRTC was not found)";
  std::string list;
  for (const int capability : compiled_capabilities()) list += (list.empty() ? "" : ", ") + capability_text(capability);
  return "compiler: NVRTC " + compiler_version() + ", for compute capability " + list;
}

std::string origins_line(int capability) {
  const std::vector<int> ahead = built_ahead_for(capability);
  const std::optional<Target> target = target_for(capability);
  std::string line = "compute capability " + capability_text(capability) + ": kernels ";
  if (!ahead.empty()) line += "built ahead for sm_" + std::to_string(ahead[0]) + (target ? ", all others " : "");
  if (target)
    line += (target->ptx ? "compiled by the driver from PTX for compute_" : "compiled for sm_") +
            std::to_string(target->capability);
  return ahead.empty() && !target ? line + "cannot run" : line;
}

}  // namespace

std::vector<std::string> store_report(const std::vector<int64_t>& capabilities) {
  static const char* const kOrigins[] = {"built ahead", "from the cache", "compiled"};
  std::string why;
  const std::string cache = cache_folder(&why);
  std::vector<std::string> lines{compiler_line(), "cache: " + (cache.empty() ? "none (" + why + ")" : cache)};
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(ahead_folder(), error)) {
    const auto files = std::filesystem::directory_iterator(entry.path(), error);
    lines.push_back("built ahead: " + std::to_string(std::distance(begin(files), end(files))) + " kernels for " +
                    entry.path().filename().string());
  }
  for (const int64_t capability : capabilities) lines.push_back(origins_line(int(capability)));
  const std::lock_guard lock(cache_mutex);
  for (auto& [key, cached] : kernel_cache())  // without kernels that another thread is loading
    if (const std::unique_lock free(cached.mutex, std::try_to_lock); free && cached.loaded)
      lines.push_back("loaded: " + key.second + ", " + kOrigins[int(cached.origin)]);
  return lines;
}

}  // namespace cuda

}  // namespace torch_conv
