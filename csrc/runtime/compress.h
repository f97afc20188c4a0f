// Compression of kernels in files, to about a third of their size: repeated instructions are written once.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace torch_conv::cuda {

// A compressed string is its size, then runs. A run is a token (the numbers of new and of repeated bytes), the new
// bytes, and the distance back to the repeated bytes.
std::string compress(std::string_view bytes);

// The original bytes; nothing for a damaged string, or for one that claims to be a million times as long.
std::optional<std::string> decompress(std::string_view packed);

}  // namespace torch_conv::cuda
