#include "runtime/emulator/emulator.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "ptxbuilder/demangle.h"
#include "runtime/emulator/decode/decoder.h"
#include "runtime/emulator/device_group.h"
#include "runtime/emulator/instructions/tensor_map_contents.h"
#include "runtime/launch_check.h"
#include "runtime/tensor_map.h"

namespace ptxbuilder::runtime {

const char* name(Fault fault) {
  constexpr std::array<const char*, 21> names = {"race",
                                                 "missing fence.proxy.async",
                                                 "mbarrier used before its init is visible",
                                                 "misuse of an mbarrier",
                                                 "wrong count of arrivals",
                                                 "wrong count of bytes",
                                                 "phase skipped",
                                                 "registers of a wgmma in flight",
                                                 "missing wgmma.fence",
                                                 "access out of bounds",
                                                 "misaligned access",
                                                 "uninitialised shared memory",
                                                 "uninitialised sum",
                                                 "undefined register",
                                                 "divergence",
                                                 "setmaxnreg",
                                                 "exit too early",
                                                 "deadlock",
                                                 "trap",
                                                 "unsupported instruction",
                                                 "bad operand"};
  const auto i = static_cast<size_t>(fault);
  return i < names.size() ? names[i] : "time limit";
}

std::optional<Fault> fault_named(std::string_view text) {
  for (int i = 0; i <= static_cast<int>(Fault::time_limit); ++i)
    if (const auto fault = static_cast<Fault>(i); text == name(fault)) return fault;
  return std::nullopt;
}

namespace emulator {
namespace {

struct EmulatedProgram : Program {
  EmulatedProgram(std::shared_ptr<DeviceGroup> group, const Signature& signature)
      : loaded(std::make_shared<LoadedProgram>(std::move(group), signature)) {}

  std::shared_ptr<LoadedProgram> loaded;
};

void delay(Kernel& kernel, const std::vector<uint32_t>& lines) {
  for (const uint32_t line : lines) {
    bool has_any = false;
    for (size_t pc = 0; pc < kernel.code.size(); ++pc)
      if (kernel.lines[pc].ptx == line) kernel.code[pc].delayed = has_any = true;
    if (!has_any)
      throw Error(
          fmt::format("ptx: a delay was requested for line {}, but kernel {} has no instruction there", line,
                      demangled(kernel.name)));
  }
}

class EmulatorDevice : public Emulator {
 public:
  EmulatorDevice(std::shared_ptr<DeviceGroup> group, uint32_t number)
      : group_(std::move(group)), number_(number) {}

  DeviceProperties properties() const override {
    return {"ptxbuilder emulator of sm_90a",
            90,
            hopper::multiprocessors,
            size_t{1} << 36,
            shared_limit,
            "emulator"};
  }

  Address allocate(size_t bytes) override {
    const std::lock_guard lock(mutex_);
    return memory_.allocate(bytes, {}, 256, false, number_);
  }

  void release(Address address) noexcept override {
    const std::lock_guard lock(mutex_);
    try {
      drain(far());
    } catch (const Error&) {
      failed_ = std::current_exception();
    }
    memory_.release(address);
  }

  void copy_in(Address to, const void* from, size_t bytes) override {
    const std::lock_guard lock(mutex_);
    drain(far());
    if (bytes) std::memcpy(memory_.host(to, bytes, "copy_in", true), from, bytes);
  }

  void copy_out(void* to, Address from, size_t bytes) override {
    const std::lock_guard lock(mutex_);
    drain(far());
    if (bytes) std::memcpy(to, memory_.host(from, bytes, "copy_out"), bytes);
  }

  void fill(Address to, uint8_t value, size_t bytes) override {
    const std::lock_guard lock(mutex_);
    drain(far());
    if (bytes) std::memset(memory_.host(to, bytes, "fill", true), value, bytes);
  }

  void queue_copy_in(Address to, const void* from, size_t bytes, Stream stream) override {
    do_or_record(stream, [=, this] { copy_in(to, from, bytes); });
  }
  void queue_copy_out(void* to, Address from, size_t bytes, Stream stream) override {
    do_or_record(stream, [=, this] { copy_out(to, from, bytes); });
  }
  void queue_fill(Address to, uint8_t value, size_t bytes, Stream stream) override {
    do_or_record(stream, [=, this] { fill(to, value, bytes); });
  }

  std::unique_ptr<Graph> capture(const std::function<void(Stream)>& work) override;
  bool is_capturing(Stream stream) override;

  std::unique_ptr<Program> load(const std::string& image, const Signature& signature) override {
    if (image.starts_with("\x7f"
                          "ELF"))
      throw Error("the emulator runs PTX text, but this image is a cubin");
    auto program = std::make_unique<EmulatedProgram>(group_, signature);
    ptx_text::Module module = ptx_text::parse(std::string_view(image).substr(0, image.find('\0')));
    const std::lock_guard lock(mutex_);
    Decoder decoder(module, signature.kernel, memory_, number_);
    try {
      program->loaded->kernel = decoder.run();
    } catch (...) {
      program->loaded->allocations = decoder.allocations;
      throw;
    }
    program->loaded->allocations = decoder.allocations;
    for (Address a : decoder.allocations) {
      const Allocation& variable = *memory_.find(a, 0);
      variable.note_written(0, variable.size);
      program->loaded->first.emplace_back(variable.bytes.get(), variable.bytes.get() + variable.size);
    }
    check_parameters(*program->loaded);
    delay(program->loaded->kernel, options_.delayed);
    if (const std::string lacks = refused(program->loaded->kernel); options_.note && !lacks.empty())
      options_.note(demangled(lacks));
    return program;
  }

  void reset(Program& program) override {
    const std::lock_guard lock(mutex_);
    drain(far());
    const LoadedProgram& loaded = *dynamic_cast<EmulatedProgram&>(program).loaded;
    for (size_t k = 0; k < loaded.allocations.size(); ++k)
      std::ranges::copy(loaded.first[k], memory_.find(loaded.allocations[k], 0)->bytes.get());
  }

  ModuleVariable variable(const Program& program, std::string_view name) const override {
    const std::lock_guard lock(mutex_);
    std::string known;
    for (const Address at : dynamic_cast<const EmulatedProgram&>(program).loaded->allocations) {
      const Allocation& v = *memory_.find(at, 0);
      const std::string plain = demangled(v.name);
      if (v.name == name || plain == name) return {at, v.size};
      known += (known.empty() ? "" : ", ") + plain;
    }
    throw Error(fmt::format("the PTX has no variable '{}' in .global or .const memory; it has {}", name,
                            known.empty() ? "none" : known));
  }

  TensorMap encode_in_scope(const TensorMapView& map) override {
    const TensorMap encoded = encode_map(map);
    const std::lock_guard lock(mutex_);
    if (!map_contents(encoded.bytes.data()).slides())
      memory_.host(map.address, extent_bytes(map), "tensor map");
    return encoded;
  }

  void launch_in_scope(Program& program, const Launch& launch,
                       std::span<const void* const> parameters) override {
    const std::shared_ptr<LoadedProgram>& emulated = dynamic_cast<EmulatedProgram&>(program).loaded;
    const Kernel& kernel = emulated->kernel;
    check(launch, emulated->signature, shared_limit);
    if (launch.cooperative) check_fits_at_once(launch, emulated->signature, hopper::multiprocessors);
    const uint32_t threads = launch.block.x * launch.block.y * launch.block.z;
    if (parameters.size() != kernel.parameters.size())
      throw Error(fmt::format("launch of {}: {} parameters were given, but the PTX has {}", kernel.name,
                              parameters.size(), kernel.parameters.size()));
    if (kernel.threads_most && threads > kernel.threads_most)
      throw Error(fmt::format("launch of {}: {} threads exceed the PTX's .maxntid or .reqntid of {}",
                              kernel.name, threads, kernel.threads_most));
    if (kernel.shared_bytes - shared_reserved + launch.dynamic_shared_bytes > shared_limit)
      throw Error(fmt::format("launch of {}: {} B of static and {} B of dynamic shared memory exceed {} B",
                              kernel.name, kernel.shared_bytes - shared_reserved, launch.dynamic_shared_bytes,
                              shared_limit));
    QueuedLaunch queued{emulated, launch, std::vector<std::byte>(kernel.parameter_bytes)};
    for (size_t i = 0; i < parameters.size(); ++i)
      if (kernel.parameters[i].bytes)
        std::memcpy(queued.parameters.data() + kernel.parameters[i].offset, parameters[i],
                    kernel.parameters[i].bytes);
    do_or_record(launch.stream, [this, queued = std::move(queued)] {
      const std::lock_guard lock(mutex_);
      group_->queue(number_, queued);
    });
  }

  void synchronize(std::chrono::milliseconds limit) override {
    const std::lock_guard lock(mutex_);
    if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
    try {
      drain(std::chrono::steady_clock::now() + limit);
    } catch (const EmulatorError& e) {
      if (e.fault() == Fault::time_limit) throw TimeoutError(e.what());
      throw;
    }
    tell_work_done();
  }

  std::unique_ptr<MappedMemory> map_memory(size_t bytes) override;
  std::byte* host(Address address, size_t bytes) {
    const std::lock_guard lock(mutex_);
    return memory_.host(address, bytes, "map_memory", true);
  }

  std::vector<double> time(int, int, const std::function<void()>&) override {
    throw Error("the emulator has no clock worth reading: only a GPU gives times");
  }

  EmulatorStatistics statistics() const override {
    const std::lock_guard lock(mutex_);
    return group_->statistics;
  }
  void seed(uint64_t seed) override {
    const std::lock_guard lock(mutex_);
    options_.seed = seed;
  }
  void reach(Device& peer) override {
    const auto* other = dynamic_cast<EmulatorDevice*>(&peer);
    if (!other || other->group_ != group_)
      throw Error(
          "reach: the other device belongs to a different emulator; open both with one call of "
          "open_emulators()");
    const std::lock_guard lock(mutex_);
    group_->let_reach(number_, other->number_);
  }

 private:
  static std::chrono::steady_clock::time_point far() {
    return std::chrono::steady_clock::now() + std::chrono::hours(24);
  }

  // The operations that a capture has recorded on its stream, each with the function that performs it.
  using Actions = std::vector<std::function<void()>>;
  class RecordedGraph;

  void do_or_record(Stream stream, std::function<void()> action) {
    {
      const std::lock_guard lock(mutex_);
      const auto capture = stream.is_own() ? captures_.end() : captures_.find(stream.handle());
      if (capture != captures_.end()) return capture->second.push_back(std::move(action));
    }
    action();
  }

  // Describes the instructions of a kernel that the emulator lacks. They are faults only if they are
  // executed.
  static std::string refused(const Kernel& kernel) {
    constexpr size_t kMost = 20;
    if (kernel.refused.empty()) return {};
    std::string text =
        fmt::format("kernel {} has {} instructions that the emulator cannot execute:", kernel.name,
                    kernel.refused.size());
    size_t shown = 0;
    for (const auto& [pc, why] : kernel.refused) {
      if (++shown > kMost) return text + "\n  ...";
      text += fmt::format("\n  line {}: {}", kernel.lines[pc].ptx, kernel.texts[pc]);
    }
    return text;
  }

  // Checks that the sizes of parameters in the PTX match the sidecar, because a launch copies the number of
  // bytes that the PTX declares.
  static void check_parameters(const LoadedProgram& program) {
    const std::vector<Parameter>& said = program.signature.parameters;
    const std::vector<Variable>& there = program.kernel.parameters;
    for (size_t i = 0; i < std::min(said.size(), there.size()); ++i)
      if (static_cast<uint64_t>(said[i].size_bytes()) != there[i].bytes)
        throw Error(fmt::format("kernel '{}': parameter {} '{}' is {} B in the PTX, but {} B in the sidecar",
                                program.signature.kernel, i, said[i].name, there[i].bytes,
                                said[i].size_bytes()));
  }

  void drain(std::chrono::steady_clock::time_point deadline) {
    group_->drain(deadline, [this] { return about_failure(); });
  }

  std::shared_ptr<DeviceGroup> group_;
  uint32_t number_;
  std::recursive_mutex& mutex_ = group_->mutex;  // guards all members below
  EmulatorOptions& options_ = group_->options;
  GlobalMemory& memory_ = group_->memory;
  std::map<void*, Actions> captures_ = {};  // captures in progress, indexed by stream
  std::exception_ptr failed_;
};

class EmulatedMappedMemory final : public MappedMemory {
 public:
  EmulatedMappedMemory(EmulatorDevice& device, size_t bytes) : device_(device) {
    address_ = device.allocate(bytes);
    bytes_ = {device.host(address_, bytes), bytes};
  }
  ~EmulatedMappedMemory() override { device_.release(address_); }

 private:
  EmulatorDevice& device_;
};

std::unique_ptr<MappedMemory> EmulatorDevice::map_memory(size_t bytes) {
  return std::make_unique<EmulatedMappedMemory>(*this, bytes);
}

class EmulatorDevice::RecordedGraph final : public Graph {
 public:
  RecordedGraph(EmulatorDevice& device, Actions actions) : device_(device), actions_(std::move(actions)) {}

  void launch(Stream stream) override {
    device_.do_or_record(stream, [actions = actions_] {
      for (const auto& action : actions) action();
    });
  }

 private:
  EmulatorDevice& device_;
  Actions actions_;
};

bool EmulatorDevice::is_capturing(Stream stream) {
  const std::lock_guard lock(mutex_);
  return !stream.is_own() && captures_.contains(stream.handle());
}

std::unique_ptr<Graph> EmulatorDevice::capture(const std::function<void(Stream)>& work) {
  char stream = 0;  // its address identifies the stream during the capture
  auto end = [&] {
    const std::lock_guard lock(mutex_);
    return captures_.extract(&stream);
  };
  {
    const std::lock_guard lock(mutex_);
    captures_[&stream];
  }
  try {
    work(Stream(&stream));
  } catch (...) {
    end();
    throw;
  }
  return std::make_unique<RecordedGraph>(*this, std::move(end().mapped()));
}

}  // namespace
}  // namespace emulator

std::unique_ptr<Emulator> open_emulator(const EmulatorOptions& options) {
  return std::move(open_emulators(1, options)[0]);
}

std::vector<std::unique_ptr<Emulator>> open_emulators(int count, const EmulatorOptions& options) {
  constexpr int most = 64;
  if (count < 1 || count > most)
    throw Error(
        fmt::format("open_emulators: {} devices were requested, but there must be 1 to {}", count, most));
  const auto group = std::make_shared<emulator::DeviceGroup>(options, static_cast<uint32_t>(count));
  std::vector<std::unique_ptr<Emulator>> devices;
  for (int number = 0; number < count; ++number)
    devices.push_back(std::make_unique<emulator::EmulatorDevice>(group, static_cast<uint32_t>(number)));
  return devices;
}

}  // namespace ptxbuilder::runtime
