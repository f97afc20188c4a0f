// Kernels take a third of the space in files: repeated instructions are written once.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace torch_conv::cuda {

// A byte string as runs: its size, then again and again a token (how many bytes come new, how many are repeated), the
// new bytes, and from how far back the others are repeated.
std::string compress(std::string_view bytes);

// What was compressed, or nothing where it cannot be told, or would be a million times as long.
std::optional<std::string> decompress(std::string_view packed);

}  // namespace torch_conv::cuda
