#include "runtime/kernel_file.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "runtime/compress.h"
#include "runtime/sources.h"

namespace torch_conv::cuda {

namespace {

// A file: the description and the symbol, each ended by a 0; the compressed code; the hash of all these bytes.
std::string pack(const std::string& description, const Binary& binary) {
  std::string bytes = description + '\0' + binary.symbol + '\0' + compress(binary.code);
  return bytes + hex(hash_of(bytes));
}

// Kernels from the folder run in this process, so no other user may write to the folder.
bool is_private(const struct stat& s) { return s.st_uid == geteuid() && (s.st_mode & (S_IWGRP | S_IWOTH)) == 0; }

// Bytes. A damaged file may have any size; the largest kernel takes less than 1 MiB.
constexpr off_t kLargestFile = 64 << 20;

std::string environment_or(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

}  // namespace

std::string describe(const Kernel& kernel, int capability, const std::string& flags, const std::string& compiler) {
  uint64_t sources = kHashStart;
  for (const SourceFile* file : sources_of(kernel.file))
    sources = hash_of(hex(file->hash), hash_of(file->name, sources));
  return "torch_conv compressed kernel\n" + kernel.name + "\nsm_" + std::to_string(capability) + "\n" + hex(sources) +
         "\n" + flags + "\n" + compiler;
}

std::string kernel_path(const std::string& folder, const std::string& description) {
  return folder + "/" + hex(hash_of(description)) + ".kernel";
}

std::optional<Binary> read_kernel(const std::string& path, const std::string& description, bool must_be_private) {
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return std::nullopt;
  struct stat s {};
  std::string bytes;
  if (fstat(file, &s) == 0 && S_ISREG(s.st_mode) && s.st_size <= kLargestFile && (!must_be_private || is_private(s))) {
    bytes.resize(size_t(s.st_size));
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t count = read(file, bytes.data() + done, bytes.size() - done);
      if (count <= 0) break;
      done += size_t(count);
    }
    bytes.resize(done);
  }
  close(file);
  constexpr size_t kHash = 16;
  if (bytes.size() < description.size() + 2 + kHash || bytes.compare(0, description.size(), description) != 0 ||
      bytes[description.size()] != '\0')
    return std::nullopt;
  const size_t end = bytes.size() - kHash, symbol = description.size() + 1, code = bytes.find('\0', symbol) + 1;
  if (code == 0 || code > end || bytes.substr(end) != hex(hash_of(std::string_view(bytes).substr(0, end))))
    return std::nullopt;
  auto image = decompress(std::string_view(bytes).substr(code, end - code));
  if (!image) return std::nullopt;
  return Binary{bytes.substr(symbol, code - 1 - symbol), std::move(*image)};
}

bool write_kernel(const std::string& path, const std::string& description, const Binary& binary) {
  std::string partial = path + ".XXXXXX";
  const std::string bytes = pack(description, binary);
  const int file = mkostemp(partial.data(), O_CLOEXEC);
  if (file < 0) return false;
  fchmod(file, 0644);
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written = write(file, bytes.data() + done, bytes.size() - done);
    if (written <= 0) break;
    done += size_t(written);
  }
  const bool complete = close(file) == 0 && done == bytes.size();
  if (complete && std::rename(partial.c_str(), path.c_str()) == 0) return true;
  unlink(partial.c_str());
  return false;
}

CompilationLock::CompilationLock(const std::string& path, bool (*gives_up)()) : path_(path + ".lock") {
  if (path.empty()) return;
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  constexpr int kLongestMs = 30000, kStepMs = 10;  // the slowest kernel takes 7 s
  for (int waited = 0; file_ >= 0; waited += kStepMs) {
    held_ = flock(file_, LOCK_EX | LOCK_NB) == 0;
    if (held_ || waited >= kLongestMs) return;
    if (errno != EWOULDBLOCK) break;  // a file system without locks
    given_up_ = gives_up();
    if (given_up_) return;
    usleep(1000 * kStepMs);
  }
  if (file_ >= 0) unlink(path_.c_str());
}

// A process that waits for the removed file finds the kernel's file, which is complete.
CompilationLock::~CompilationLock() {
  if (held_) unlink(path_.c_str());
  if (file_ >= 0) close(file_);
}

namespace {

// Set when the module is loaded: its path may be relative to the working directory of that moment.
const std::string kAheadFolder = [] {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<void*>(&ahead_folder), &info) || !info.dli_fname) return std::string();
  std::error_code error;
  const auto file = std::filesystem::absolute(info.dli_fname, error);
  return error ? std::string() : (file.parent_path() / "kernels").string();
}();

}  // namespace

const std::string& ahead_folder() { return kAheadFolder; }

std::string cache_folder(std::string* why) {
  std::string unused;
  std::string& reason = why ? *why : unused;
  const auto none = [&](const std::string& because) {
    reason = because;
    return std::string();
  };
  const std::string asked = environment_or("TORCH_CONV_CACHE", "");
  if (asked == "0") return none("TORCH_CONV_CACHE is 0");
  const std::string home = environment_or("HOME", "");
  const std::string user = environment_or("XDG_CACHE_HOME", home.empty() ? "" : home + "/.cache");
  if (asked.empty() && user.empty()) return none("there is no home folder");
  const std::string folder = asked.empty() ? user + "/torch_conv/kernels" : asked;
  for (size_t slash = folder.find('/', 1); slash != folder.npos; slash = folder.find('/', slash + 1))
    mkdir(folder.substr(0, slash).c_str(), 0700);
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return none(folder + " cannot be made");
  struct stat s {};
  if (lstat(folder.c_str(), &s) != 0 || !S_ISDIR(s.st_mode)) return none(folder + " is no folder");
  if (!is_private(s)) return none(folder + " belongs to another user or may be written to by others");
  return folder;
}

}  // namespace torch_conv::cuda
