#include "runtime/store.h"

#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>

#include "core/fork_mutex.h"
#include "runtime/background.h"
#include "runtime/compiler.h"
#include "runtime/driver.h"
#include "runtime/kernel_file.h"
#include "runtime/sources.h"

namespace torch_conv::cuda {

namespace {

// The origin of a kernel's code.
enum class Origin { ahead, cache, compiled };

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

Result load_binary(const Binary& binary, KernelFunction* function) {
  Library library = nullptr;
  const Result status = driver().load_library(&library, binary.code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  return status == kSuccess ? driver().get_kernel(function, library, binary.symbol.c_str()) : status;
}

// The file of a kernel in the user's cache.
struct CachedFile {
  std::string description, path;  // path "": no cache

  CachedFile(const Kernel& kernel, int capability)
      : description(describe(kernel, capability, compile_flags(), compiler_version())) {
    const std::string folder = cache_folder();
    if (!folder.empty()) path = kernel_path(folder, description);
  }
  std::optional<Binary> read() const { return path.empty() ? std::nullopt : read_kernel(path, description, true); }
};

// A compilation with all that it reads from the environment, which threads in the background must not read.
struct CompileTask {
  Kernel kernel;
  Target target;
  std::string flags;
  CachedFile file;

  CompileTask(const Kernel& kernel, int capability)
      : kernel(kernel), target(target_of(kernel, capability)), flags(compile_flags()), file(kernel, capability) {}

  // Another process may have compiled the kernel meanwhile, unless the driver takes no code from the cache. No result:
  // `gives_up` ended the wait for that process.
  std::optional<std::pair<Binary, Origin>> run(bool driver_takes_cached, bool (*gives_up)()) const {
    const CompilationLock lock(file.path, gives_up);
    if (lock.given_up()) return std::nullopt;
    if (auto found = driver_takes_cached ? file.read() : std::nullopt) return {{std::move(*found), Origin::cache}};
    Binary binary = compile(kernel, target, flags);
    if (!file.path.empty()) write_kernel(file.path, file.description, binary);  // may fail: compiled again next time
    return {{std::move(binary), Origin::compiled}};
  }
};

// A kernel of one architecture in this process.
//
//     unknown --> found (built ahead, or from the cache) -----------------------------> loaded
//     unknown --> absent --> queued, if compiled in the background --> compiling --> found
//                   ^-------- the compilation failed, or the driver took no code ------'
class StoredKernel {
 public:
  // `kernel` names its file in the table of sources, which lives as long as the process.
  StoredKernel(const Kernel& kernel, int capability) : kernel_(kernel), capability_(capability) {}

  const LoadedKernel& load() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return state_ != State::compiling || process_ != getpid(); });
      look_up();
      if (state_ == State::loaded) return *loaded_;
      if (state_ == State::found) take();
      else compile(lock);
    }
  }

  bool is_ready() {
    const std::lock_guard lock(mutex_);
    look_up();
    return state_ == State::found || state_ == State::loaded;
  }

  // False: the kernel is not ready, and no thread compiles it.
  bool compile_in_background() {
    const std::lock_guard lock(mutex_);
    look_up();
    if (state_ != State::absent) return true;
    if (failed_ || compiler_version().empty()) return false;
    const bool accepted = run_in_background([this, task = CompileTask(kernel_, capability_)] {
      std::unique_lock lock(mutex_);
      if (state_ != State::queued) return;  // load() did not wait for this thread
      try {
        compile(lock, task, background_stops);
      } catch (const std::exception& error) {
        failed_ = true;
        std::fprintf(stderr, "%s; calls use slower kernels instead\n", error.what());
      }
    });
    if (accepted) state_ = State::queued, process_ = getpid();
    return accepted;
  }

  // The origin, if the kernel is loaded and no other thread is at work on it.
  std::optional<Origin> loaded_from() {
    const std::unique_lock free(mutex_, std::try_to_lock);
    return free && state_ == State::loaded ? std::optional(origin_) : std::nullopt;
  }

 private:
  enum class State { unknown, absent, queued, compiling, found, loaded };

  void find(std::optional<Binary> binary, Origin origin) {
    if (!binary) return;
    binary_ = std::move(*binary), origin_ = origin, state_ = State::found;
  }

  // A child of fork() has none of the threads that compile for its parent.
  void look_up() {
    const bool at_work = state_ == State::queued || state_ == State::compiling;
    if (at_work && process_ != getpid()) state_ = State::absent;
    if (state_ != State::unknown) return;
    state_ = State::absent;
    for (const int lower : built_ahead_for(capability_)) {
      const std::string description = describe(kernel_, lower, compile_flags(), "");
      if (state_ == State::absent)
        find(read_kernel(kernel_path(folder_ahead(lower), description), description), Origin::ahead);
    }
    look_in_cache();
  }

  // compiler_version() loads the compiler, which takes a millisecond or more.
  void look_in_cache() {
    if (state_ == State::absent && !compiler_version().empty())
      find(CachedFile(kernel_, capability_).read(), Origin::cache);
  }

  // The driver may be too old for the code of another compiler; then the next origin is tried. After any other error,
  // as of memory, the next call tries the same code again.
  void take() {
    KernelFunction function = nullptr;
    const Result status = load_binary(binary_, &function);
    if (status == kSuccess) {
      loaded_ = std::make_unique<LoadedKernel>(kernel_.name, function);
      binary_ = {}, state_ = State::loaded;
      return;
    }
    const bool has_next = origin_ != Origin::compiled && is_of_code(status) && !compiler_version().empty();
    if (!has_next) fail(status, ("loading kernel " + kernel_.name).c_str());
    state_ = State::absent;
    if (origin_ == Origin::ahead) look_in_cache();
    else driver_takes_cached_ = false;
  }

  void compile(std::unique_lock<std::mutex>& lock) {
    compile(lock, CompileTask(kernel_, capability_), [] { return false; });
  }

  void compile(std::unique_lock<std::mutex>& lock, const CompileTask& task, bool (*gives_up)()) {
    state_ = State::compiling, process_ = getpid();
    lock.unlock();
    std::optional<std::pair<Binary, Origin>> result;
    std::exception_ptr error;
    try {
      result = task.run(driver_takes_cached_, gives_up);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    state_ = State::absent;
    if (result) find(std::move(result->first), result->second);
    changed_.notify_all();
    if (error) std::rethrow_exception(error);
  }

  const Kernel kernel_;
  const int capability_;
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::unknown;
  pid_t process_ = 0;  // whose thread has or will have this kernel at work
  Binary binary_;
  Origin origin_{};
  std::unique_ptr<LoadedKernel> loaded_;
  bool driver_takes_cached_ = true;
  bool failed_ = false;  // in the background
};

// StoredKernel has a std::mutex: fork() would wait for a driver that loads, and a forked child cannot use CUDA.
ForkMutex stored_mutex;
std::map<std::pair<int, std::string>, StoredKernel>& stored_kernels() {
  static auto* all = new std::map<std::pair<int, std::string>, StoredKernel>;  // never destroyed
  return *all;
}

StoredKernel& stored(const Kernel& kernel, const Arch& arch) {
  const int capability = capability_of(arch);
  const std::pair key(capability, kernel.name);
  {
    const std::lock_guard lock(stored_mutex);
    if (const auto found = stored_kernels().find(key); found != stored_kernels().end()) return found->second;
  }
  const Kernel lasting{sources_of(kernel.file)[0]->name, kernel.name};
  const std::lock_guard lock(stored_mutex);
  return stored_kernels().try_emplace(key, lasting, capability).first->second;
}

}  // namespace

const LoadedKernel& load(const Kernel& kernel, const Arch& arch) { return stored(kernel, arch).load(); }

bool is_ready(const Kernel& kernel, const Arch& arch) { return stored(kernel, arch).is_ready(); }

bool offers(const Kernel& kernel, const Arch& arch) { return is_ready(kernel, arch) || !compiler_version().empty(); }

bool compile_in_background(const Kernel& kernel, const Arch& arch) {
  return stored(kernel, arch).compile_in_background();
}

std::vector<std::string> build_ahead(const std::string& folder, int capability, const std::vector<Kernel>& kernels) {
  const std::string arch_folder = folder + "/sm_" + std::to_string(capability);
  std::filesystem::create_directories(arch_folder);
  std::vector<std::string> files;
  for (const Kernel& kernel : kernels) {
    const std::string flags = compile_flags(), description = describe(kernel, capability, flags, "");
    const std::string path = kernel_path(arch_folder, description);
    files.push_back(path);
    if (read_kernel(path, description)) continue;
    if (!write_kernel(path, description, compile(kernel, target_of(kernel, capability), flags)))
      throw std::runtime_error("torch_conv: " + path + " cannot be written");
  }
  return files;
}

namespace {

std::string compiler_line() {
  std::string why;
  if (compiler_version(&why).empty()) return "compiler: none (" + why + ")";
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
  if (const int tasks = tasks_in_background())
    lines.push_back("compiling: " + std::to_string(tasks) + (tasks == 1 ? " kernel" : " kernels"));
  const std::lock_guard lock(stored_mutex);
  for (auto& [key, kernel] : stored_kernels())
    if (const auto origin = kernel.loaded_from())
      lines.push_back("loaded: " + key.second + ", " + kOrigins[int(*origin)]);
  return lines;
}

}  // namespace torch_conv::cuda
