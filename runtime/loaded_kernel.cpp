#include "runtime/loaded_kernel.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "runtime/launch_check.h"
#include "runtime/tensor_map.h"

namespace ptxbuilder::runtime {
namespace {

constexpr size_t kCachedTensors = 16;  // for each parameter

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file) throw Error(fmt::format("{}: cannot be read", path.string()));
  return text;
}

const char* name(Parameter::Kind kind) {
  switch (kind) {
    case Parameter::Kind::scalar:
      return "scalar";
    case Parameter::Kind::pointer:
      return "pointer";
    case Parameter::Kind::tensor_map:
      return "tensor";
  }
  return "";
}

bool same_tensor(const Argument& a, const Argument& b) {
  return a.memory.address == b.memory.address && a.memory.bytes == b.memory.bytes && a.rank == b.rank &&
         a.shape == b.shape && a.strides == b.strides;
}

std::string names(std::span<const Parameter> parameters) {
  std::string text;
  for (const Parameter& p : parameters) text += (text.empty() ? "" : ", ") + p.name;
  return text;
}

}  // namespace

LoadedKernel::LoadedKernel(Device& device, const std::string& image, Signature signature)
    : device_(&device), signature_(std::move(signature)) {
  check(signature_);
  program_ = device.load(image, signature_);
  caches_.resize(signature_.parameters.size());
  values_.resize(signature_.parameters.size());
}

LoadedKernel LoadedKernel::from_file(Device& device, const std::string& path) {
  const std::filesystem::path sidecar = std::filesystem::path(path).replace_extension(".json");
  Signature signature = signature_from_json(read_file(sidecar), sidecar.string());
  try {
    return LoadedKernel(device, read_file(path), std::move(signature));
  } catch (const Error& e) {
    throw Error(fmt::format("{}: {}", path, e.what()));
  }
}

void LoadedKernel::launch(const LaunchOptions& options, std::span<const Argument> arguments) {
  check_count(arguments);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& argument = arguments[i];
    check_type(i, argument);
    switch (argument.kind) {
      case Parameter::Kind::scalar:
        values_[i] = &argument.bits;
        break;
      case Parameter::Kind::pointer:
        values_[i] = &argument.memory.address;
        break;
      case Parameter::Kind::tensor_map:
        values_[i] = &encoded(i, argument);
        break;
    }
  }
  const auto& cluster = signature_.cluster;
  const Launch launch = {.grid = options.grid,
                         .block = {signature_.threads, 1, 1},
                         .cluster = {cluster[0], cluster[1], cluster[2]},
                         .dynamic_shared_bytes = signature_.dynamic_shared_bytes,
                         .programmatic_dependent_launch = options.programmatic_dependent_launch};
  device_->launch(*program_, launch, values_);
}

void LoadedKernel::check_count(std::span<const Argument> arguments) const {
  const std::span<const Parameter> parameters = signature_.parameters;
  if (arguments.size() == parameters.size()) return;
  const std::string counts =
      fmt::format("kernel '{}' takes {} arguments ({}), {} are given", signature_.kernel, parameters.size(),
                  names(parameters), arguments.size());
  if (arguments.size() < parameters.size())
    throw Error(fmt::format("{}; missing: {}", counts, names(parameters.subspan(arguments.size()))));
  throw Error(fmt::format("{}; the last {} are too many", counts, arguments.size() - parameters.size()));
}

void LoadedKernel::check_type(size_t i, const Argument& argument) const {
  const Parameter& parameter = signature_.parameters[i];
  if (!argument.name.empty() && argument.name != parameter.name)
    refuse(i, fmt::format("the argument is named '{}'; parameters are {}", argument.name,
                          names(signature_.parameters)));
  if (argument.kind != parameter.kind)
    refuse(i, fmt::format("takes a {}, a {} is given", name(parameter.kind), name(argument.kind)));
  if (argument.dtype != parameter.dtype)
    refuse(i, fmt::format("takes a {} of {}, one of {} is given", name(parameter.kind),
                          ptxbuilder::name(parameter.dtype), ptxbuilder::name(argument.dtype)));
  if (argument.kind == Parameter::Kind::tensor_map &&
      static_cast<int>(argument.rank) != parameter.tensor_map.rank())
    refuse(i, fmt::format("takes a tensor of rank {}, one of rank {} is given", parameter.tensor_map.rank(),
                          argument.rank));
}

const TensorMap& LoadedKernel::encoded(size_t i, const Argument& tensor) {
  Cache& cache = caches_[i];
  for (const auto& known : cache.tensors)
    if (same_tensor(known->tensor, tensor)) return known->map;
  auto fresh = std::make_unique<EncodedTensor>(EncodedTensor{tensor, encode(i, tensor)});
  if (cache.tensors.size() < kCachedTensors) return cache.tensors.emplace_back(std::move(fresh))->map;
  auto& replaced = cache.tensors[cache.oldest];
  cache.oldest = (cache.oldest + 1) % kCachedTensors;
  replaced = std::move(fresh);
  return replaced->map;
}

TensorMap LoadedKernel::encode(size_t i, const Argument& tensor) {
  const auto shape = tensor.shape.begin(), strides = tensor.strides.begin();
  const auto rank = static_cast<std::ptrdiff_t>(tensor.rank);
  const TensorMapArguments map = {.recipe = signature_.parameters[i].tensor_map,
                                  .address = tensor.memory.address,
                                  .shape = {shape, shape + rank},
                                  .strides = {strides, strides + rank - 1}};
  try {
    check(map);
    if (uint64_t extent = extent_bytes(map); extent > tensor.memory.bytes)
      throw Error(fmt::format("the tensor [{}] of {} with strides [{}] B takes {} B, its memory has {} B",
                              fmt::join(map.shape, ", "), ptxbuilder::name(tensor.dtype),
                              fmt::join(map.strides, ", "), extent, tensor.memory.bytes));
    return device_->encode(map);
  } catch (const Error& e) {
    refuse(i, e.what());
  }
}

void LoadedKernel::refuse(size_t i, const std::string& what) const {
  throw Error(fmt::format("kernel '{}', parameter {} '{}': {}", signature_.kernel, i,
                          signature_.parameters[i].name, what));
}

}  // namespace ptxbuilder::runtime
