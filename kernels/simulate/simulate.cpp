#include "kernels/simulate/simulate.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/launch_rule.h"
#include "runtime/buffer.h"
#include "runtime/emulator/entry.h"

namespace ptxbuilder::command {
namespace {

using runtime::Dim3;
using runtime::Entry;
using Bytes = std::vector<std::byte>;

[[noreturn]] void refuse(const LaunchFile& file, const std::string& what) {
  throw Error(fmt::format("{}: {}", file.name, what));
}

std::string text(Dim3 d) { return fmt::format("{} x {} x {}", d.x, d.y, d.z); }
bool same(Dim3 a, Dim3 b) { return a.x == b.x && a.y == b.y && a.z == b.z; }

Entry chosen_entry(const std::string& ptx, const LaunchFile& file) {
  std::vector<Entry> all = runtime::entries(ptx);
  std::string names;
  for (const Entry& e : all) {
    if (e.name == file.entry || (file.entry.empty() && all.size() == 1)) return e;
    names += (names.empty() ? "" : ", ") + e.name;
  }
  if (all.empty()) throw Error("ptx: it has no .entry, of which a launch could run one");
  refuse(file, file.entry.empty()
                   ? fmt::format("entry: the PTX has {}; name one of them", names)
                   : fmt::format("entry: '{}' is not in the PTX, which has {}", file.entry, names));
}

// What the file says, or what the PTX requires; both where they agree.
Dim3 agreed(const LaunchFile& file, const char* member, std::optional<Dim3> said,
            std::optional<Dim3> required) {
  if (said && required && !same(*said, *required))
    refuse(file, fmt::format("{}: {}, but the PTX requires {}", member, text(*said), text(*required)));
  return said ? *said : required ? *required : Dim3{};
}

// What a launch file leaves out, by the kernel's sidecar.
LaunchFile completed(LaunchFile file, const std::optional<Signature>& sidecar) {
  if (!sidecar) return file;
  const auto& [x, y, z] = sidecar->cluster;
  if (!file.block) {
    const auto [x, y, z] = sidecar->block();
    file.block = Dim3{x, y, z};
  }
  if (!file.cluster) file.cluster = Dim3{x, y, z};
  if (!file.dynamic_shared_bytes) file.dynamic_shared_bytes = sidecar->dynamic_shared_bytes;
  if (file.shared.empty()) file.shared = sidecar->shared;
  return file;
}

// What the arguments of a file are to the rules of a sidecar.
class FileValues final : public RuleValues {
 public:
  FileValues(const LaunchFile& file, const Signature& sidecar, int multiprocessors)
      : file_(file), multiprocessors_(multiprocessors) {
    const size_t given = file.parameters.size(), wanted = sidecar.parameters.size();
    if (given != wanted)
      refuse(file, fmt::format("parameters: {} are given, the sidecar has {}", given, wanted));
  }

  uint64_t bits(size_t parameter) const override {
    const LaunchParameter& p = of_kind(parameter, LaunchParameter::Kind::scalar, "a scalar");
    uint64_t bits = 0;
    std::memcpy(&bits, p.value.data(), std::min(sizeof bits, p.value.size()));
    return bits;
  }
  uint64_t extent(size_t parameter, size_t dimension) const override {
    const LaunchParameter& p = of_kind(parameter, LaunchParameter::Kind::tensor_map, "a tensor map");
    if (dimension >= p.map.shape.size())
      refuse(file_, fmt::format("{}: it has {} dimensions, and the rule of the grid names dimension {}",
                                p.path, p.map.shape.size(), dimension));
    return p.map.shape[dimension];
  }
  int64_t multiprocessors() const override { return multiprocessors_; }

 private:
  const LaunchParameter& of_kind(size_t parameter, LaunchParameter::Kind kind, const char* what) const {
    const LaunchParameter& p = file_.parameters[parameter];
    if (p.kind != kind) refuse(file_, fmt::format("{}: the rule of the grid takes {} here", p.path, what));
    return p;
  }

  const LaunchFile& file_;
  int multiprocessors_;
};

Dim3 grid_of(const LaunchFile& file, const std::optional<Signature>& sidecar, int multiprocessors) {
  if (file.grid) return *file.grid;
  if (!sidecar || !sidecar->grid)
    refuse(file, "grid: it is missing, and there is no sidecar with a rule that would say it");
  try {
    const auto [x, y, z] = GridRule(*sidecar).value(FileValues(file, *sidecar, multiprocessors));
    return {x, y, z};
  } catch (const Error& e) {
    if (std::string_view(e.what()).starts_with(file.name)) throw;
    refuse(file, e.what());
  }
}

runtime::Launch launch_of(const LaunchFile& file, const Entry& entry) {
  runtime::Launch launch;
  if (!file.block && !entry.block)
    refuse(file, "block: it is missing, and the PTX has neither .reqntid nor a sidecar that would say it");
  launch.block = agreed(file, "block", file.block, entry.block);
  launch.cluster = agreed(file, "cluster", file.cluster, entry.cluster);
  launch.dynamic_shared_bytes = file.dynamic_shared_bytes.value_or(0);
  return launch;
}

void check_parameters(const LaunchFile& file, const Entry& entry) {
  const size_t given = file.parameters.size(), wanted = entry.parameters.size();
  for (size_t i = 0; i < std::min(given, wanted); ++i)
    if (const size_t bytes = file.parameters[i].size(); bytes != entry.parameters[i].bytes)
      refuse(file, fmt::format("parameters[{}]: it has {} B, the parameter '{}' of the PTX has {} B", i,
                               bytes, entry.parameters[i].name, entry.parameters[i].bytes));
  if (given != wanted)
    refuse(file, fmt::format("parameters: {} are given, '{}' takes {}{}", given, entry.name, wanted,
                             given < wanted ? "; the next is '" + entry.parameters[given].name + "'"
                                            : std::string()));
}

Bytes read_file(const std::filesystem::path& path, size_t bytes) {
  Bytes data(bytes);
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(data.data()), static_cast<std::streamsize>(bytes));
  if (!in) throw Error(fmt::format("{}: cannot be read", path.string()));
  return data;
}

// The first bytes of a buffer, or what is expected of one; a random one has stream `number` of `seed`.
Bytes make(const Content& content, const LaunchBuffer& b, uint64_t seed, size_t number) {
  const auto size = static_cast<size_t>(size_of(b.dtype));
  Bytes data(b.bytes());
  switch (content.kind) {
    case Content::Kind::zeros:
    case Content::Kind::buffer:
      break;
    case Content::Kind::poison:
      std::fill(data.begin(), data.end(), std::byte{0xff});
      break;
    case Content::Kind::iota:
      for (size_t i = 0; i < b.count(); ++i) write_element(&data[i * size], b.dtype, static_cast<double>(i));
      break;
    case Content::Kind::normal: {
      std::seed_seq stream = {content.seed.value_or(seed), content.seed ? 0 : uint64_t{number} + 1};
      std::mt19937_64 engine(stream);
      std::normal_distribution<double> normal;
      for (size_t i = 0; i < b.count(); ++i) write_element(&data[i * size], b.dtype, normal(engine));
      break;
    }
    case Content::Kind::same:
      for (size_t i = 0; i < b.count(); ++i) std::memcpy(&data[i * size], content.values.data(), size);
      break;
    case Content::Kind::values:
      data = content.values;
      break;
    case Content::Kind::file:
      data = read_file(content.file, b.bytes());
      break;
  }
  return data;
}

std::string coordinates(const LaunchBuffer& b, size_t i) {
  std::string text;
  for (uint64_t extent : b.shape) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", i % extent);
    i /= extent;
  }
  return fmt::format("{}[{}]", b.name, text);
}

// What `f` finds wrong in the PTX text, with the text's name.
template <class F>
auto of_ptx(const SimulateOptions& options, F f) {
  try {
    return f();
  } catch (const Error& e) {
    if (options.ptx_name.empty() || !std::string_view(e.what()).starts_with("ptx")) throw;
    throw Error(fmt::format("{}: {}", options.ptx_name, e.what()));
  }
}

// One run of the file: its buffers on a device, and the kernel.
class Bench {
 public:
  Bench(const std::string& ptx, const LaunchFile& file, const SimulateOptions& options)
      : entry_(of_ptx(options, [&] { return chosen_entry(ptx, file); })),
        sidecar_(options.sidecar ? options.sidecar(entry_.name) : std::nullopt),
        file_(completed(file, sidecar_)),
        launch_(launch_of(file_, entry_)),
        device_(runtime::open_emulator(options.emulator)) {
    check_parameters(file_, entry_);
    launch_.grid = grid_of(file_, sidecar_, device_->properties().multiprocessors);
    Signature signature;
    signature.kernel = entry_.name;
    signature.threads = launch_.block.x * launch_.block.y * launch_.block.z;
    signature.threads_y = launch_.block.y, signature.threads_z = launch_.block.z;
    signature.cluster = {launch_.cluster.x, launch_.cluster.y, launch_.cluster.z};
    signature.dynamic_shared_bytes = launch_.dynamic_shared_bytes;
    signature.shared = file_.shared;
    program_ = of_ptx(options, [&] { return device_->load(ptx, signature); });
    for (size_t i = 0; i < file.buffers.size(); ++i) {
      const LaunchBuffer& b = file.buffers[i];
      first_.push_back(make(b.content, b, options.emulator.seed, i));
      buffers_.emplace_back(*device_, b.bytes());
    }
    for (const LaunchParameter& p : file.parameters) parameters_.push_back(encode(p));
  }

  void run(uint64_t seed, std::chrono::milliseconds limit) {
    for (size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_in(first_[i]);
    device_->seed(seed);
    device_->reset(*program_);
    std::vector<const void*> values;
    for (const Bytes& p : parameters_) values.push_back(p.data());
    device_->launch(*program_, launch_, values);
    device_->synchronize(limit);
  }

  Bytes now(size_t buffer) const { return buffers_[buffer].copy_out<std::byte>(); }
  const std::string& entry() const { return entry_.name; }
  runtime::EmulatorStatistics statistics() const { return device_->statistics(); }

 private:
  Bytes encode(const LaunchParameter& p) {
    Bytes bytes(p.size());
    auto store = [&](const void* from, size_t size) { std::memcpy(bytes.data(), from, size); };
    const runtime::Address address = p.buffer ? buffers_[*p.buffer].address() + p.offset : 0;
    switch (p.kind) {
      case LaunchParameter::Kind::scalar:
        return p.value;
      case LaunchParameter::Kind::pointer:
        store(&address, sizeof address);
        break;
      case LaunchParameter::Kind::tensor_map: {
        runtime::TensorMapArguments arguments = p.map;
        arguments.address = address;
        try {
          const runtime::TensorMap map = device_->encode(arguments);
          store(map.bytes.data(), sizeof map.bytes);
        } catch (const Error& e) {
          refuse(file_, fmt::format("{}: {}", p.path, e.what()));
        }
        break;
      }
      case LaunchParameter::Kind::structure:
        for (const LaunchParameter& member : p.members) {
          const Bytes part = encode(member);
          std::memcpy(bytes.data() + member.at, part.data(), part.size());
        }
        break;
    }
    return bytes;
  }

  Entry entry_;
  std::optional<Signature> sidecar_;
  LaunchFile file_;
  runtime::Launch launch_;
  std::unique_ptr<runtime::Emulator> device_;
  std::unique_ptr<runtime::Program> program_;
  std::vector<Bytes> first_;
  std::vector<runtime::Buffer> buffers_;
  std::vector<Bytes> parameters_;
};

void compare(BufferComparison& c, const LaunchFile& file, const LaunchOutput& o, const Bench& bench,
             const Bytes& got, uint64_t seed) {
  const LaunchBuffer& b = file.buffers[o.buffer];
  const bool other = o.equals->kind == Content::Kind::buffer;
  const DType type = other ? file.buffers[o.equals->buffer].dtype : b.dtype;
  const Bytes expected = other ? bench.now(o.equals->buffer) : make(*o.equals, b, 0, 0);
  c.count = b.count();
  for (size_t i = 0; i < b.count(); ++i) {
    const double is = read_element(&got[i * static_cast<size_t>(size_of(b.dtype))], b.dtype);
    const double wanted = read_element(&expected[i * static_cast<size_t>(size_of(type))], type);
    if (is == wanted || (std::isnan(is) && std::isnan(wanted))) continue;
    const double error = std::abs(is - wanted), allowed = o.tolerance + o.relative * std::abs(wanted);
    c.max_error = std::isnan(error) ? error : std::max(c.max_error, error);
    if (error <= allowed) continue;
    if (c.wrong++ == 0)
      c.first_wrong = fmt::format("{} is {}, expected {} +- {:.3g} (schedule of seed {})", coordinates(b, i),
                                  is, wanted, allowed, seed);
  }
}

std::string elements(const LaunchBuffer& b, const Bytes& data, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += fmt::format("{}{}", i ? " " : "",
                        read_element(&data[i * static_cast<size_t>(size_of(b.dtype))], b.dtype));
  return count < b.count() ? text + " ..." : text;
}

void write_file(const std::filesystem::path& path, const Bytes& data) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
  if (!out.flush()) throw Error(fmt::format("{}: cannot be written", path.string()));
}

}  // namespace

bool Simulation::right() const {
  for (const BufferComparison& c : comparisons)
    if (c.wrong) return false;
  return true;
}

Simulation simulate(const std::string& ptx, const LaunchFile& file, const SimulateOptions& options) {
  Bench bench(ptx, file, options);
  Simulation s;
  s.entry = bench.entry();
  for (const LaunchOutput& o : file.outputs)
    if (o.equals) s.comparisons.push_back({.buffer = file.buffers[o.buffer].name, .first_wrong = {}});
  while (s.schedules < options.schedules && s.right()) {
    const uint64_t seed = options.emulator.seed + static_cast<uint64_t>(s.schedules++);
    bench.run(seed, options.time_limit);
    size_t n = 0;
    for (const LaunchOutput& o : file.outputs)
      if (o.equals) compare(s.comparisons[n++], file, o, bench, bench.now(o.buffer), seed);
  }
  for (const LaunchOutput& o : file.outputs) {
    const LaunchBuffer& b = file.buffers[o.buffer];
    if (o.print) s.printed.emplace_back(b.name, elements(b, bench.now(o.buffer), o.print));
    if (o.write.empty()) continue;
    write_file(o.write, bench.now(o.buffer));
    s.written.push_back(o.write.string());
  }
  s.statistics = bench.statistics();
  return s;
}

}  // namespace ptxbuilder::command
