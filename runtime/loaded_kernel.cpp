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
    case Parameter::Kind::structure:
      return "struct";
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

// What is wrong with an argument for `parameter`, one of `all`: of a kernel's parameters, or of a struct's
// fields.
std::optional<std::string> breach(const Parameter& parameter, const Argument& argument, const char* all_are,
                                  std::span<const Parameter> all) {
  if (!argument.name.empty() && argument.name != parameter.name)
    return fmt::format("the argument is named '{}'; {} are {}", argument.name, all_are, names(all));
  if (argument.kind != parameter.kind)
    return fmt::format("takes a {}, a {} is given", name(parameter.kind), name(argument.kind));
  if (argument.dtype != parameter.dtype)
    return fmt::format("takes a {} of {}, one of {} is given", name(parameter.kind),
                       ptxbuilder::name(parameter.dtype), ptxbuilder::name(argument.dtype));
  if (argument.kind == Parameter::Kind::tensor_map &&
      static_cast<int>(argument.rank) != parameter.tensor_map.rank())
    return fmt::format("takes a tensor of rank {}, one of rank {} is given", parameter.tensor_map.rank(),
                       argument.rank);
  if (argument.kind == Parameter::Kind::structure && argument.fields->size() != parameter.fields.size())
    return fmt::format("takes a struct of {} fields ({}), {} are given", parameter.fields.size(),
                       names(parameter.fields), argument.fields->size());
  return std::nullopt;
}

}  // namespace

LoadedKernel::LoadedKernel(Device& device, const std::string& image, Signature signature)
    : device_(&device), signature_(std::move(signature)) {
  check(signature_);
  program_ = device.load(image, signature_);
  caches_.resize(signature_.parameters.size());
  structures_.resize(signature_.parameters.size());
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
      case Parameter::Kind::structure:
        values_[i] = laid_out(i, argument).data();
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
  if (auto what = breach(parameter, argument, "parameters", signature_.parameters)) refuse(i, *what);
  for (size_t f = 0; f < parameter.fields.size(); ++f)
    if (auto what = breach(parameter.fields[f], (*argument.fields)[f], "fields", parameter.fields))
      refuse(i, fmt::format("field {} '{}': {}", f, parameter.fields[f].name, *what));
}

const std::vector<std::byte>& LoadedKernel::laid_out(size_t i, const Argument& structure) {
  const Parameter& parameter = signature_.parameters[i];
  const std::vector<int> offsets = parameter.field_offsets();
  std::vector<std::byte>& bytes = structures_[i];
  bytes.assign(static_cast<size_t>(parameter.size_bytes()), std::byte{0});
  for (size_t f = 0; f < offsets.size(); ++f)
    std::memcpy(&bytes[static_cast<size_t>(offsets[f])], &(*structure.fields)[f].bits,
                static_cast<size_t>(parameter.fields[f].size_bytes()));
  return bytes;
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
