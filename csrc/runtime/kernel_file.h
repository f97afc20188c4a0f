// Kernels as files: built ahead with the module, or compiled by this user's programs.
#pragma once

#include <optional>
#include <string>

#include "runtime/compiler.h"

namespace torch_conv::cuda {

// Kernel, architecture, sources, flags, and for cached files the compiler. Two files with the same description hold the
// same code.
std::string describe(const Kernel& kernel, int capability, const std::string& flags, const std::string& compiler);

// The file of a description in a folder.
std::string kernel_path(const std::string& folder, const std::string& description);

// The code, or nothing where the file is missing, truncated, damaged or of another description. `must_be_private`:
// also nothing for a file that another user owns or may write to.
std::optional<Binary> read_kernel(const std::string& path, const std::string& description,
                                  bool must_be_private = false);

// Writes a temporary file in the same folder and renames it, so that no reader sees a part. False: the disk is full or
// read-only.
bool write_kernel(const std::string& path, const std::string& description, const Binary& binary);

// Held by the only process that compiles a file. A second process waits for the first one, but for no longer than any
// compilation takes: the first may have been stopped. File systems without locks let all processes compile.
class CompilationLock {
 public:
  // The path is of the kernel's file; "": no lock. The wait ends early once `gives_up` returns true.
  CompilationLock(const std::string& path, bool (*gives_up)());
  ~CompilationLock();
  CompilationLock(const CompilationLock&) = delete;
  CompilationLock& operator=(const CompilationLock&) = delete;
  bool given_up() const { return given_up_; }

 private:
  std::string path_;
  int file_ = -1;
  bool held_ = false, given_up_ = false;
};

// The folder of kernels that were built ahead: `kernels`, in the folder of this module.
const std::string& ahead_folder();

// The user's folder of compiled kernels: TORCH_CONV_CACHE, else torch_conv/kernels under XDG_CACHE_HOME or ~/.cache.
// The function creates it. Empty, with the reason in `why`: TORCH_CONV_CACHE is "0", the folder cannot be created, or
// other users may write to it.
std::string cache_folder(std::string* why = nullptr);

}  // namespace torch_conv::cuda
