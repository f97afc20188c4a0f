// Filters an image through torch_conv's operators, and runs a model that uses them, as an AOTInductor package and as a
// TorchScript module. Every result is compared with Python's.
//
//     torch_conv_example FOLDER [LIBRARY]      FOLDER as export.py left it; LIBRARY, torch_conv/_C.abi3.so
//
// A line for each step; exit status 1 where a result differs or something fails.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "torch_conv.h"

namespace {

// What export.py saved: a dict of tensors.
class Expected {
 public:
  explicit Expected(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    TORCH_CHECK(file, "there is no ", path, ": run export.py first");
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    tensors_ = torch::jit::pickle_load(bytes).toGenericDict();
  }
  at::Tensor operator[](const std::string& name) const { return tensors_.at(name).toTensor(); }

 private:
  c10::impl::GenericDict tensors_{c10::AnyType::get(), c10::AnyType::get()};
};

// Roundings differ: the compiler contracts and TorchScript fuses what stands around the operators.
constexpr double kTolerance = 1e-5;

bool agrees(const std::string& step, const at::Tensor& got, const at::Tensor& expected) {
  const bool same_shape = got.sizes() == expected.sizes();
  const double apart = same_shape ? (got.cpu() - expected).abs().max().item<double>() : 0;
  const bool good = same_shape && apart <= kTolerance;  // false for NaN
  std::cout << (good ? "ok    " : "WRONG ") << step << " on " << got.device() << ": " << got.sizes();
  if (same_shape) std::cout << ", largest difference " << apart << "\n";
  else std::cout << ", expected " << expected.sizes() << "\n";
  return good;
}

bool run(const std::string& folder, const Expected& expected, at::DeviceType type) {
  const at::Device device(type);
  const at::Tensor image = expected["image"].to(device);

  const at::Tensor sharp =
      torch_conv::call("filter2d", {image, expected["window"]}, {{"border_type", "replicate"}}).toTensor();
  bool good = agrees("filter2d", sharp, expected["filter2d"]);

  const at::Tensor smooth = torch_conv::gaussian_blur2d(image, 7, 1.5);
  good &= agrees("gaussian_blur2d", smooth, expected["gaussian_blur2d"]);

  torch::jit::Module scripted = torch::jit::load(folder + "/model.pt", device);
  good &= agrees("TorchScript module", scripted.forward({image}).toTensor(), expected["model"]);

  const std::string package = folder + "/model_" + c10::DeviceTypeName(type, true) + ".pt2";
  if (std::ifstream(package)) {
    torch::inductor::AOTIModelPackageLoader compiled(package);
    good &= agrees("AOTInductor package", compiled.run({image}).at(0), expected["model"]);
  } else {
    std::cout << "skip  AOTInductor package on " << device << ": export.py found no such device\n";
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: torch_conv_example FOLDER [LIBRARY]\n";
    return 2;
  }
  const std::string folder = argv[1], library = argc == 3 ? argv[2] : TORCH_CONV_LIBRARY;
  const c10::InferenceMode no_autograd;
  torch_conv::load_library(library);
  std::cout << "ok    " << library << " is loaded\n";
  const Expected expected(folder + "/expected.pt");
  bool good = run(folder, expected, at::kCPU);
  if (at::hasCUDA()) good &= run(folder, expected, at::kCUDA);
  return good ? 0 : 1;
} catch (const c10::Error& error) {
  std::cerr << "torch_conv_example: " << error.what_without_backtrace() << "\n";
  return 1;
} catch (const std::exception& error) {
  std::cerr << "torch_conv_example: " << error.what() << "\n";
  return 1;
}
