#include "runtime/compiler.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "runtime/background.h"
#include "runtime/driver.h"
#include "runtime/sources.h"

namespace torch_conv::cuda {

namespace {

struct Nvrtc {
  using Program = struct ProgramHandle*;
  int (*version)(int*, int*);
  int (*create)(Program*, const char* source, const char* name, int headers, const char* const* texts,
                const char* const* names);
  int (*destroy)(Program*);
  int (*add_name)(Program, const char*);
  int (*compile)(Program, int count, const char* const* options);
  int (*log_size)(Program, size_t*);
  int (*log)(Program, char*);
  int (*code_size)(Program, size_t*);
  int (*code)(Program, char*);
  int (*ptx_size)(Program, size_t*);
  int (*ptx)(Program, char*);
  int (*capability_count)(int*);
  int (*capabilities)(int*);
  int (*lowered)(Program, const char*, const char**);
  std::string release;  // empty: not found
  std::vector<int> compiles_for;
};

// The folder of the loaded torch. pip installs NVIDIA's packages into the same parent folder.
std::string folder_of_torch() {
  Dl_info info{};
  void* symbol = dlsym(RTLD_DEFAULT, "aoti_torch_get_device_type");
  if (!symbol || !dladdr(symbol, &info) || !info.dli_fname) return "";
  const std::string file = info.dli_fname;
  return file.substr(0, file.find_last_of('/'));
}

// The driver runs code of compilers up to its own major version. Without a driver, every compiler suits.
bool suits_driver(int major) {
  int version = 0;
  const Driver* driver = find_driver();
  return !driver || driver->version(&version) != kSuccess || major <= version / 1000;
}

void* open_library() {
  struct Candidate {
    int major;
    const char *name, *from_torch;  // from_torch: relative to torch's folder
  };
  static constexpr Candidate candidates[] = {
      {13, "libnvrtc.so.13", "/../../nvidia/cu13/lib/libnvrtc.so.13"},
      {12, "libnvrtc.so.12", "/../../nvidia/cuda_nvrtc/lib/libnvrtc.so.12"},
  };
  const std::string torch = folder_of_torch();
  // The library that the process has loaded, then the one in torch's packages, then the one on the loader's path.
  for (const int step : {0, 1, 2})
    for (const Candidate& c : candidates) {
      if (!suits_driver(c.major) || (step == 1 && torch.empty())) continue;
      const std::string name = step == 1 ? torch + c.from_torch : c.name;
      if (void* library = dlopen(name.c_str(), step == 0 ? RTLD_LAZY | RTLD_NOLOAD : RTLD_LAZY)) return library;
    }
  return nullptr;
}

Nvrtc load() {
  Nvrtc n{};
  void* library = open_library();
  if (!library) return n;
  bool complete = true;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    complete = complete && function;
  };
  find(n.version, "nvrtcVersion");
  find(n.create, "nvrtcCreateProgram");
  find(n.destroy, "nvrtcDestroyProgram");
  find(n.add_name, "nvrtcAddNameExpression");
  find(n.compile, "nvrtcCompileProgram");
  find(n.log_size, "nvrtcGetProgramLogSize");
  find(n.log, "nvrtcGetProgramLog");
  find(n.code_size, "nvrtcGetCUBINSize");
  find(n.code, "nvrtcGetCUBIN");
  find(n.ptx_size, "nvrtcGetPTXSize");
  find(n.ptx, "nvrtcGetPTX");
  find(n.capability_count, "nvrtcGetNumSupportedArchs");
  find(n.capabilities, "nvrtcGetSupportedArchs");
  find(n.lowered, "nvrtcGetLoweredName");
  int major = 0, minor = 0, count = 0;
  if (!complete || n.version(&major, &minor) != 0 || n.capability_count(&count) != 0) return n;
  std::vector<int> capabilities(count);
  if (n.capabilities(capabilities.data()) != 0) return n;
  std::erase_if(capabilities, [](int capability) { return capability < kLeastCapability; });
  std::sort(capabilities.begin(), capabilities.end());
  n.compiles_for = capabilities;
  n.release = std::to_string(major) + "." + std::to_string(minor);
  return n;
}

const Nvrtc& nvrtc() {
  static const Nvrtc found = load();
  return found;
}

// The first error of a log, or its first line.
std::string first_error(const std::string& log) {
  std::istringstream lines(log);
  std::string line, first;
  while (std::getline(lines, line)) {
    if (line.find("error") != line.npos) return line;
    if (first.empty()) first = line;
  }
  return first;
}

struct Program {
  Nvrtc::Program handle = nullptr;
  ~Program() {
    if (handle) nvrtc().destroy(&handle);
  }
};

}  // namespace

CompileMode compile_mode() {
  const char *mode = std::getenv("TORCH_CONV_COMPILE"), *off = std::getenv("TORCH_CONV_NO_NVRTC");
  const std::string_view asked = mode ? mode : "";
  if (asked == "never" || (asked.empty() && off && off == std::string_view("1"))) return CompileMode::never;
  if (asked.empty() || asked == "background") return background_threads(), CompileMode::background;
  if (asked == "wait") return CompileMode::wait;
  throw std::runtime_error("torch_conv: TORCH_CONV_COMPILE must be 'background', 'wait' or 'never', got '" +
                           std::string(asked) + "'");
}

const std::string& compiler_version(std::string* why) {
  static const std::string none;
  const bool never = compile_mode() == CompileMode::never;
  const char* mode = std::getenv("TORCH_CONV_COMPILE");
  const char* setting = mode && *mode ? "TORCH_CONV_COMPILE is never" : "TORCH_CONV_NO_NVRTC is 1";
  if (why) *why = never ? setting : "NVRTC was not found";
  return never ? none : nvrtc().release;
}

const std::vector<int>& compiled_capabilities() {
  static const std::vector<int> none;
  return compile_mode() == CompileMode::never ? none : nvrtc().compiles_for;
}

std::optional<Target> target_for(int capability) {
  const std::vector<int>& all = compiled_capabilities();
  const auto above = std::upper_bound(all.begin(), all.end(), capability);
  if (above == all.begin()) return std::nullopt;
  const int nearest = *(above - 1);
  return Target{nearest, nearest / 10 != capability / 10};
}

std::string capability_text(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

std::string compile_flags() {
  // Functions without an annotation are device functions, so that headers for host and kernels need no macros.
  std::string flags = "--std=c++20 -default-device";
  if (const char* more = std::getenv("TORCH_CONV_NVRTC_FLAGS"); more && *more) flags += std::string(" ") + more;
  return flags;
}

namespace {

[[noreturn]] void fail(const Kernel& kernel, const std::string& why) {
  throw std::runtime_error("torch_conv: kernel " + kernel.name + " cannot be compiled: " + why);
}

}  // namespace

Target target_of(const Kernel& kernel, int capability) {
  std::string why;
  if (compiler_version(&why).empty()) fail(kernel, why);
  const std::optional<Target> target = target_for(capability);
  if (!target) fail(kernel, "compute capability " + capability_text(capability) + " is too low");
  return *target;
}

Binary compile(const Kernel& kernel, const Target& target, const std::string& flags, std::string* report) {
  const Nvrtc& n = nvrtc();
  std::vector<const char*> names, texts;
  for (const SourceFile* file : sources_of(kernel.file)) names.push_back(file->name), texts.push_back(file->text);
  // NVRTC looks up names and their arguments at global scope.
  const std::string source = "#include \"" + std::string(kernel.file) + "\"\nusing namespace torch_conv;\n";
  const std::string& name = kernel.name;
  Program program;
  if (n.create(&program.handle, source.c_str(), "kernel.cu", int(names.size()), texts.data(), names.data()) != 0 ||
      n.add_name(program.handle, name.c_str()) != 0)
    fail(kernel, "NVRTC takes no program");

  std::vector<std::string> options{std::string("--gpu-architecture=") + (target.ptx ? "compute_" : "sm_") +
                                   std::to_string(target.capability)};
  std::istringstream words(flags);
  for (std::string word; words >> word;) options.push_back(word);
  if (report) options.push_back("--ptxas-options=-v");
  std::vector<const char*> pointers;
  for (const std::string& option : options) pointers.push_back(option.c_str());
  const int status = n.compile(program.handle, int(pointers.size()), pointers.data());
  size_t size = 0;
  n.log_size(program.handle, &size);
  std::string log(size, '\0');
  if (size > 0) n.log(program.handle, log.data());
  if (status != 0) fail(kernel, first_error(log));
  if (report) *report = log;

  const char* symbol = nullptr;
  Binary binary;
  const auto size_of_code = target.ptx ? n.ptx_size : n.code_size;
  if (n.lowered(program.handle, name.c_str(), &symbol) != 0 || size_of_code(program.handle, &size) != 0)
    fail(kernel, "NVRTC gives no code");
  binary.symbol = symbol;
  binary.code.resize(size);
  if ((target.ptx ? n.ptx : n.code)(program.handle, binary.code.data()) != 0) fail(kernel, "NVRTC gives no code");
  return binary;
}

}  // namespace torch_conv::cuda
