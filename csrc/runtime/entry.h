// Kernels as files: those that were built ahead, and those that this user's programs have compiled.
#pragma once

#include <optional>
#include <string>

#include "runtime/compiler.h"

namespace torch_conv::cuda {

// What a file's code was made of: kernel, architecture, sources, flags, and of cached ones the compiler. Two files with
// the same description hold the same code.
std::string describe(const Kernel& kernel, int capability, const std::string& compiler);

// The file of a description in a folder.
std::string entry_path(const std::string& folder, const std::string& description);

// The code, or nothing where the file is missing, truncated, damaged or of another description.
// `own`: or another user's, or one that others may write to.
std::optional<Binary> read_entry(const std::string& path, const std::string& description, bool own = false);

// Written beside and renamed, so that no reader sees a part; false where the disk does not take it.
bool write_entry(const std::string& path, const std::string& description, const Binary& binary);

// The folder of kernels that were built ahead: beside this module.
const std::string& ahead_folder();

// The user's folder of compiled kernels, made where it is missing: TORCH_CONV_CACHE, else torch_conv/kernels under
// XDG_CACHE_HOME or ~/.cache. Empty where TORCH_CONV_CACHE is "0", where it cannot be made, or where others could write
// to it (`why` says which).
std::string cache_folder(std::string* why = nullptr);

}  // namespace torch_conv::cuda
