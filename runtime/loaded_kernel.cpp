#include "runtime/loaded_kernel.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory_resource>

#include "ptxbuilder/file_text.h"
#include "ptxbuilder/sidecar.h"
#include "runtime/launch_check.h"
#include "runtime/tensor_map.h"

namespace ptxbuilder::runtime {
namespace {

// The stack memory that a launch uses for its values; a larger launch allocates memory on the heap. A
// kernel's parameters occupy up to 4 KB, or about 32 KB since PTX 8.1.
constexpr size_t kStackBytes = 8192;

bool is_missing(Dim3 grid) { return grid.x == 0 && grid.y == 0 && grid.z == 0; }

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
    case Parameter::Kind::tensor_map_array:
      return "tensor map array";
  }
  return "";
}

std::string names(std::span<const Parameter> parameters) {
  std::string text;
  for (const Parameter& p : parameters) text += (text.empty() ? "" : ", ") + p.name;
  return text;
}

// Calls `refuse` with a description of the problem if `argument` does not fit `parameter`. `all` contains the
// parameters of the kernel, or the fields of the struct.
template <class Refuse>
void check_argument(const Parameter& parameter, const Argument& argument, const char* all_are,
                    std::span<const Parameter> all, Refuse&& refuse) {
  if (!argument.name.empty() && argument.name != parameter.name)
    refuse(fmt::format("the argument is named '{}'; {} are {}", argument.name, all_are, names(all)));
  if (argument.kind != parameter.kind)
    refuse(fmt::format("it takes a {}, but a {} was given", name(parameter.kind), name(argument.kind)));
  if (argument.dtype != parameter.dtype)
    refuse(fmt::format("it takes a {} of {}, but one of {} was given", name(parameter.kind),
                       ptxbuilder::name(parameter.dtype), ptxbuilder::name(argument.dtype)));
  if (argument.kind == Parameter::Kind::tensor_map &&
      static_cast<int>(argument.rank) != parameter.tensor_map.rank())
    refuse(fmt::format("it takes a tensor of rank {}, but one of rank {} was given",
                       parameter.tensor_map.rank(), argument.rank));
  if (argument.kind == Parameter::Kind::tensor_map_array && *argument.recipe != parameter.tensor_map)
    refuse(
        "it takes a tensor map array with its own recipe, but one with another recipe was given: make it "
        "with tensor_maps() of this kernel");
  if (argument.kind == Parameter::Kind::structure && argument.fields->size() != parameter.fields.size())
    refuse(fmt::format("it takes a struct of {} fields ({}), but {} were given", parameter.fields.size(),
                       names(parameter.fields), argument.fields->size()));
}

// Sets a flag if it is clear, and clears it on destruction.
struct Taken {
  explicit Taken(std::atomic_flag& the_flag)
      : flag(the_flag), is_mine(!flag.test_and_set(std::memory_order_acquire)) {}
  ~Taken() {
    if (is_mine) flag.clear(std::memory_order_release);
  }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;

  std::atomic_flag& flag;
  const bool is_mine;
};

}  // namespace

LoadedKernel::LoadedKernel(Device& device, const std::string& image, Signature signature, Where where)
    : device_(&device), signature_(std::move(signature)) {
  CallersLine line(where);
  check(signature_);
  program_ = device.load(image, signature_);
  if (signature_.grid) {
    grid_.emplace(signature_);
    multiprocessors_ = device.properties().multiprocessors;
  }
  if (signature_.report) {
    report_ = std::make_shared<KernelReport>(device, signature_);
    device.add_reporter(report_);
  }
  for (const Parameter& p : signature_.parameters) {
    offsets_.push_back(bytes_);
    field_offsets_.push_back(p.field_offsets());
    if (p.kind == Parameter::Kind::tensor_map || p.kind == Parameter::Kind::structure)
      bytes_ += (static_cast<size_t>(p.size_bytes()) + alignof(TensorMap) - 1) / alignof(TensorMap) *
                alignof(TensorMap);
  }
}

LoadedKernel LoadedKernel::from_file(Device& device, const std::string& path, const std::string& kernel,
                                     Where where) {
  namespace fs = std::filesystem;
  CallersLine line(where);
  const fs::path given(path);
  const bool is_image = given.extension() == ".cubin" || given.extension() == ".ptx";
  fs::path name = given;
  if (is_image || given.extension() == ".json") name.replace_extension();
  auto with = [&](const char* extension) { return fs::path(name.string() + extension); };
  const fs::path cubin = with(".cubin"), ptx = with(".ptx");
  Signature signature = read_sidecar(name.string(), kernel);
  const bool wants_ptx = device.wants_ptx();
  const fs::path image = is_image ? given : !wants_ptx && fs::exists(cubin) ? cubin : ptx;
  if (wants_ptx && image == cubin)
    throw Error(fmt::format("{}: this device runs PTX text, not cubins: {}", cubin.string(),
                            fs::exists(ptx)
                                ? fmt::format("give {}, or {} alone", ptx.string(), name.string())
                                : fmt::format("{} could be used instead, but does not exist", ptx.string())));
  if (!fs::exists(image))
    throw Error(wants_ptx && fs::exists(cubin)
                    ? fmt::format("{} does not exist, and this device runs PTX text, not {}", ptx.string(),
                                  cubin.string())
                    : fmt::format("neither {} nor {} exists", cubin.string(), ptx.string()));
  try {
    const AuthorsCode no_line;  // the message below ends with the line
    return LoadedKernel(device, file_text(image), std::move(signature), {});
  } catch (const Error& e) {
    throw Error(fmt::format("{}: {}", image.string(), e.what()), e.kind());
  }
}

// The values of a launch's parameters: pointers to them, as the driver requires, and the bytes of the values
// that an argument does not contain itself.
class LoadedKernel::Values {
 public:
  explicit Values(const LoadedKernel& kernel) : kernel_(kernel), count_(kernel.offsets_.size()) {
    bytes_ =
        static_cast<std::byte*>(memory_.allocate(kernel.bytes_ + count_ * sizeof(void*), alignof(TensorMap)));
    values_ = reinterpret_cast<const void**>(bytes_ + kernel.bytes_);
  }

  // Calls `value` with the number and the bytes of each parameter, to obtain a pointer to the parameter's
  // value.
  template <class Value>
  std::span<const void* const> fill(Value&& value) {
    size_t i = 0;
    try {
      const AuthorsCode no_line;  // refuse() names the line
      for (; i < count_; ++i) values_[i] = value(i, bytes_ + kernel_.offsets_[i]);
    } catch (const Error& e) {
      if (e.kind() == Error::Kind::device) throw;  // the argument is not the cause
      kernel_.refuse(i, e.what());
    }
    return {values_, count_};
  }

 private:
  const LoadedKernel& kernel_;
  size_t count_;
  alignas(TensorMap) std::byte stack_[kStackBytes];
  std::pmr::monotonic_buffer_resource memory_{stack_, sizeof stack_};
  std::byte* bytes_;
  const void** values_;
};

void LoadedKernel::launch(const LaunchOptions& options, std::span<const Argument> arguments, Where where) {
  CallersLine line(where);
  check_count(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) check_type(i, arguments[i]);
  Values values(*this);
  const Device::Scope scope(*device_);
  Address report = 0;
  const auto filled = values.fill([&](size_t i, std::byte* bytes) -> const void* {
    return i < arguments.size() ? value(i, arguments[i], bytes) : &report;
  });
  const Dim3 ctas = grid_ && is_missing(options.grid) ? grid(arguments, where) : options.grid;
  if (report_) report = report_->memory_for(ctas);
  device_->launch_in_scope(*program_, launch_of(options, ctas), filled);
}

Launch LoadedKernel::launch_of(const LaunchOptions& options, Dim3 grid) const {
  const auto &cluster = signature_.cluster, block = signature_.block();
  return {.grid = grid,
          .block = {block[0], block[1], block[2]},
          .cluster = {cluster[0], cluster[1], cluster[2]},
          .dynamic_shared_bytes = signature_.dynamic_shared_bytes,
          .programmatic_dependent_launch = options.programmatic_dependent_launch,
          .cooperative = options.cooperative || signature_.cooperative,
          .stream = options.stream};
}

TensorMapArray::operator Argument() const {
  Argument argument = pointer(buffer_, recipe_.dtype);
  argument.kind = Parameter::Kind::tensor_map_array;
  argument.recipe = &recipe_;
  return argument;
}

TensorMapArray LoadedKernel::tensor_maps(std::string_view parameter, std::span<const Argument> tensors,
                                         Where where) const {
  CallersLine line(where);
  const std::vector<Parameter>& all = signature_.parameters;
  const auto found = std::find_if(all.begin(), all.end(), [&](const Parameter& p) {
    return p.name == parameter && p.kind == Parameter::Kind::tensor_map_array;
  });
  if (found == all.end())
    throw Error(
        fmt::format("kernel '{}': tensor maps were requested for '{}', but no parameter of that name takes a "
                    "tensor map array; its parameters are {}",
                    signature_.kernel, parameter, names(all)));
  const auto i = static_cast<size_t>(found - all.begin());
  if (tensors.empty()) refuse(i, "the array has no tensor maps; give at least one tensor");
  Parameter each = *found;
  each.kind = Parameter::Kind::tensor_map;
  std::vector<TensorMap> maps;
  for (const Argument& tensor : tensors) {
    auto refuse_one = [&](const std::string& what) {
      refuse(i, fmt::format("tensor {}: {}", maps.size(), what));
    };
    check_argument(each, tensor, "parameters", all, refuse_one);
    try {
      const AuthorsCode no_line;  // refuse() names the line
      maps.push_back(device_->encode(checked_map(i, tensor)));
    } catch (const Error& e) {
      if (e.kind() == Error::Kind::device) throw;  // the argument is not the cause
      refuse_one(e.what());
    }
  }
  return {Buffer::of(*device_, maps), found->tensor_map};
}

PreparedLaunch LoadedKernel::prepare(const LaunchOptions& options, std::span<const Argument> arguments,
                                     Where where) const {
  CallersLine line(where);
  if (is_missing(options.grid))
    throw Error(fmt::format("launch of '{}': a prepared launch needs an explicit grid", signature_.kernel));
  Launch launch = launch_of(options, options.grid);
  check(launch, signature_, device_->properties().shared_bytes_per_cta);
  launch.is_checked = true;
  check_count(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    check_type(i, arguments[i]);
    if (arguments[i].kind == Parameter::Kind::structure)
      refuse(i, "a prepared launch cannot have structs: launch with all arguments");
    if (arguments[i].kind == Parameter::Kind::tensor_map) try {
        const AuthorsCode no_line;  // refuse() names the line
        (void)checked_map(i, arguments[i]);
      } catch (const Error& e) {
        refuse(i, e.what());
      }
  }
  return {*this, launch, arguments,
          report_ ? std::optional(report_->memory_for(options.grid)) : std::nullopt};
}

void PreparedLaunch::operator()(std::span<const uint64_t> values, Stream stream, Where where) const {
  CallersLine line(where);
  kernel_->launch_prepared(*this, values, stream);
}

PreparedLaunch::Last::Last(std::span<const Argument> arguments, std::optional<Address> its_report)
    : values(arguments.size()), report(its_report.value_or(0)), pointers(arguments.size()) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].kind == Parameter::Kind::tensor_map) maps.push_back({i});
    pointers[i] = &values[i];
  }
  for (const Map& map : maps) pointers[map.parameter] = &map.encoded;
  if (its_report) pointers.push_back(&report);
}

void LoadedKernel::launch_prepared(const PreparedLaunch& prepared, std::span<const uint64_t> values,
                                   Stream stream) const {
  check_count(values.size());
  const Device::Scope scope(*device_);
  const Taken taken(prepared.last_->taken);  // until the driver has read the values
  std::optional<PreparedLaunch::Last> own;
  PreparedLaunch::Last& last =
      taken.is_mine ? *prepared.last_ : own.emplace(prepared.arguments_, prepared.report_);
  std::copy(values.begin(), values.end(), last.values.begin());
  for (PreparedLaunch::Last::Map& map : last.maps)
    if (map.address != values[map.parameter])
      encode(map, prepared.arguments_[map.parameter], values[map.parameter]);
  Launch launch = prepared.launch_;
  launch.stream = stream;
  device_->launch_in_scope(*program_, launch, last.pointers);
}

void LoadedKernel::encode(PreparedLaunch::Last::Map& map, const Argument& tensor, Address address) const {
  try {
    const AuthorsCode no_line;  // refuse() names the line
    TensorMapView view = this->map(map.parameter, tensor);
    view.address = address;
    check_address(view);
    map.encoded = device_->encode_in_scope(view);
  } catch (const Error& e) {
    if (e.kind() == Error::Kind::device) throw;  // the argument is not the cause
    refuse(map.parameter, e.what());
  }
  map.address = address;
}

void LoadedKernel::on_print(std::function<void(const std::string&)> print) {
  if (report_) report_->on_print(std::move(print));
}

// If a kernel reports, its last parameter belongs to the runtime, not to the author.
std::span<const Parameter> LoadedKernel::authors_parameters() const {
  return std::span(signature_.parameters).first(signature_.parameters.size() - (report_ ? 1 : 0));
}

void LoadedKernel::check_count(size_t given) const {
  const std::span<const Parameter> parameters = authors_parameters();
  if (given == parameters.size()) return;
  const std::string counts = fmt::format("kernel '{}' takes {} arguments ({}), but {} were given",
                                         signature_.kernel, parameters.size(), names(parameters), given);
  if (given < parameters.size())
    throw Error(fmt::format("{}; missing: {}", counts, names(parameters.subspan(given))));
  throw Error(fmt::format("{}; the last {} are superfluous", counts, given - parameters.size()));
}

void LoadedKernel::check_type(size_t i, const Argument& argument) const {
  const Parameter& parameter = signature_.parameters[i];
  check_argument(parameter, argument, "parameters", signature_.parameters,
                 [&](const std::string& what) { refuse(i, what); });
  size_t f = 0;
  for (const Parameter& field : parameter.fields) {
    check_argument(field, (*argument.fields)[f], "fields", parameter.fields, [&](const std::string& what) {
      refuse(i, fmt::format("field {} '{}': {}", f, field.name, what));
    });
    ++f;
  }
}

const void* LoadedKernel::value(size_t i, const Argument& argument, std::byte* bytes) const {
  switch (argument.kind) {
    case Parameter::Kind::scalar:
      return &argument.bits;
    case Parameter::Kind::pointer:
    case Parameter::Kind::tensor_map_array:
      return &argument.memory.address;
    case Parameter::Kind::tensor_map:
      return new (bytes) TensorMap(device_->encode_in_scope(checked_map(i, argument)));
    case Parameter::Kind::structure:
      lay_out(i, argument, bytes);
      return bytes;
  }
  return nullptr;
}

void LoadedKernel::lay_out(size_t i, const Argument& structure, std::byte* bytes) const {
  const Parameter& parameter = signature_.parameters[i];
  const std::vector<int>& offsets = field_offsets_[i];
  std::fill_n(bytes, parameter.size_bytes(), std::byte{0});
  for (size_t f = 0; f < offsets.size(); ++f)
    std::memcpy(bytes + offsets[f], &(*structure.fields)[f].bits,
                static_cast<size_t>(parameter.fields[f].size_bytes()));
}

TensorMapView LoadedKernel::map(size_t i, const Argument& tensor) const {
  return {signature_.parameters[i].tensor_map,
          tensor.memory.address,
          std::span(tensor.shape).first(tensor.rank),
          std::span(tensor.strides).first(tensor.rank - 1),
          tensor.im2col.get(),
          tensor.overlaps};
}

TensorMapView LoadedKernel::checked_map(size_t i, const Argument& tensor) const {
  const TensorMapView map = this->map(i, tensor);
  check_placed(map);
  if (uint64_t extent = extent_bytes(map); extent > tensor.memory.bytes)
    throw Error(fmt::format("the tensor [{}] of {} with strides [{}] B needs {} B, but its memory has {} B",
                            fmt::join(map.shape, ", "), ptxbuilder::name(tensor.dtype),
                            fmt::join(map.strides, ", "), extent, tensor.memory.bytes));
  return map;
}

Dim3 LoadedKernel::grid(std::span<const Argument> arguments, Where where) const {
  CallersLine line(where);
  if (!grid_)
    throw Error(fmt::format("launch of '{}': the kernel has no rule for its grid", signature_.kernel));
  struct Values final : RuleValues {
    std::span<const Argument> arguments;
    int64_t all;

    Values(std::span<const Argument> a, int64_t m) : arguments(a), all(m) {}
    uint64_t bits(size_t parameter) const override { return arguments[parameter].bits; }
    uint64_t extent(size_t parameter, size_t d) const override { return arguments[parameter].shape[d]; }
    int64_t multiprocessors() const override { return all; }
  };
  try {
    const AuthorsCode no_line;  // the message below ends with the line
    const auto [x, y, z] = grid_->value(Values(arguments, multiprocessors_));
    return {x, y, z};
  } catch (const Error& e) {
    throw Error(fmt::format("launch of '{}': {}", signature_.kernel, e.what()), e.kind());
  }
}

void LoadedKernel::refuse(size_t i, const std::string& what) const {
  throw Error(fmt::format("kernel '{}', parameter {} '{}': {}", signature_.kernel, i,
                          signature_.parameters[i].name, what));
}

}  // namespace ptxbuilder::runtime
