#include "kernels/simulate/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <set>

#include "kernels/simulate/npy.h"
#include "ptxbuilder/analysis/lint.h"
#include "ptxbuilder/demangle.h"
#include "ptxbuilder/dtype.h"
#include "ptxbuilder/launch_rule.h"
#include "runtime/buffer.h"
#include "runtime/emulator/entry.h"
#include "runtime/emulator/exploration.h"

namespace ptxbuilder::command {
namespace {

using runtime::Dim3;
using runtime::Entry;
using Bytes = std::vector<std::byte>;

[[noreturn]] void refuse(const LaunchFile& file, const std::string& what) {
  throw Error(fmt::format("{}: {}", file.name, what));
}
[[noreturn]] void refuse(const LaunchFile& file, const KernelLaunch& launch, const std::string& what) {
  refuse(file, launch.path + what);
}

std::string text(Dim3 d) { return fmt::format("{} x {} x {}", d.x, d.y, d.z); }
bool same(Dim3 a, Dim3 b) { return a.x == b.x && a.y == b.y && a.z == b.z; }

Entry chosen_entry(const std::string& ptx, const LaunchFile& file, const KernelLaunch& launch) {
  std::vector<Entry> all = runtime::entries(ptx);
  std::string names;
  for (const Entry& e : all) {
    const std::string plain = demangled(e.name);
    if (e.name == launch.entry || plain == launch.entry || (launch.entry.empty() && all.size() == 1))
      return e;
    names += (names.empty() ? "" : ", ") + plain;
  }
  if (all.empty()) throw Error("ptx: it has no .entry that a launch could run");
  refuse(file, launch,
         launch.entry.empty()
             ? fmt::format("entry: the PTX has {}; name one of them", names)
             : fmt::format("entry: '{}' is not in the PTX, which has {}", launch.entry, names));
}

// Returns the value that the launch file or the PTX specifies. If both specify a value, the values must be
// equal.
Dim3 agreed(const LaunchFile& file, const KernelLaunch& launch, const char* member, std::optional<Dim3> said,
            std::optional<Dim3> required) {
  if (said && required && !same(*said, *required))
    refuse(file, launch,
           fmt::format("{}: {}, but the PTX requires {}", member, text(*said), text(*required)));
  return said ? *said : required ? *required : Dim3{};
}

// Sets the values that a launch omits from the kernel's sidecar.
void complete(KernelLaunch& launch, const std::optional<Signature>& sidecar) {
  if (!sidecar) return;
  const auto& [x, y, z] = sidecar->cluster;
  if (!launch.block) {
    const auto [x, y, z] = sidecar->block();
    launch.block = Dim3{x, y, z};
  }
  if (!launch.cluster) launch.cluster = Dim3{x, y, z};
  if (!launch.dynamic_shared_bytes) launch.dynamic_shared_bytes = sidecar->dynamic_shared_bytes;
  launch.cooperative |= sidecar->cooperative;
}

// Provides the arguments of a launch file to the rules of a sidecar.
class FileValues final : public RuleValues {
 public:
  FileValues(const LaunchFile& file, const KernelLaunch& launch, const Signature& sidecar,
             int multiprocessors)
      : file_(file), launch_(launch), multiprocessors_(multiprocessors) {
    const size_t given = launch.parameters.size(), wanted = sidecar.parameters.size();
    if (given != wanted)
      refuse(file, launch, fmt::format("parameters: {} were given, but the sidecar has {}", given, wanted));
  }

  uint64_t bits(size_t parameter) const override {
    const LaunchParameter& p = of_kind(parameter, LaunchParameter::Kind::raw, "a scalar");
    uint64_t bits = 0;
    std::memcpy(&bits, p.value.data(), std::min(sizeof bits, p.value.size()));
    return bits;
  }
  uint64_t extent(size_t parameter, size_t dimension) const override {
    const LaunchParameter& p = of_kind(parameter, LaunchParameter::Kind::tensor_map, "a tensor map");
    if (dimension >= p.map.shape.size())
      refuse(file_, fmt::format("{}: it has {} dimensions, but the rule of the grid names dimension {}",
                                p.path, p.map.shape.size(), dimension));
    return p.map.shape[dimension];
  }
  int64_t multiprocessors() const override { return multiprocessors_; }

 private:
  const LaunchParameter& of_kind(size_t parameter, LaunchParameter::Kind kind, const char* what) const {
    const LaunchParameter& p = launch_.parameters[parameter];
    if (p.kind != kind || (kind == LaunchParameter::Kind::raw && !p.scalar))
      refuse(file_, fmt::format("{}: the rule of the grid needs {} here", p.path, what));
    return p;
  }

  const LaunchFile& file_;
  const KernelLaunch& launch_;
  int multiprocessors_;
};

Dim3 grid_of(const LaunchFile& file, const KernelLaunch& launch, const std::optional<Signature>& sidecar,
             int multiprocessors) {
  if (launch.grid) return *launch.grid;
  if (!sidecar || !sidecar->grid)
    refuse(file, launch, "grid: it is missing, and there is no sidecar with a rule for it");
  try {
    const auto [x, y, z] = GridRule(*sidecar).value(FileValues(file, launch, *sidecar, multiprocessors));
    return {x, y, z};
  } catch (const Error& e) {
    if (std::string_view(e.what()).starts_with(file.name)) throw;
    refuse(file, launch, e.what());
  }
}

runtime::Launch launch_of(const LaunchFile& file, const KernelLaunch& launch, const Entry& entry) {
  runtime::Launch made;
  if (!launch.block && !entry.block)
    refuse(file, launch, "block: it is missing, and the PTX has neither .reqntid nor a sidecar with it");
  made.block = agreed(file, launch, "block", launch.block, entry.block);
  made.cluster = agreed(file, launch, "cluster", launch.cluster, entry.cluster);
  made.dynamic_shared_bytes = launch.dynamic_shared_bytes.value_or(0);
  made.cooperative = launch.cooperative;
  made.programmatic_dependent_launch = launch.overlaps;
  return made;
}

void check_parameters(const LaunchFile& file, const KernelLaunch& launch, const Entry& entry) {
  const size_t given = launch.parameters.size(), wanted = entry.parameters.size();
  for (size_t i = 0; i < std::min(given, wanted); ++i)
    if (const size_t bytes = launch.parameters[i].size(); bytes != entry.parameters[i].bytes)
      refuse(file, launch,
             fmt::format("parameters[{}]: it has {} B, but the parameter '{}' of the PTX has {} B", i, bytes,
                         entry.parameters[i].name, entry.parameters[i].bytes));
  if (given != wanted)
    refuse(
        file, launch,
        fmt::format("parameters: {} were given, but '{}' takes {}{}", given, demangled(entry.name), wanted,
                    given < wanted ? "; the next is '" + entry.parameters[given].name + "'" : std::string()));
}

// Adds buffers and parameters for the scratch memory that the kernel's compiler requires.
void add_scratch(LaunchFile& file, KernelLaunch& launch, const Entry& entry,
                 const std::vector<uint64_t>& scratch, Dim3 grid) {
  if (launch.parameters.size() + scratch.size() != entry.parameters.size()) return;
  for (uint64_t bytes : scratch) {
    LaunchParameter p{.kind = LaunchParameter::Kind::pointer};
    if (bytes > 0) {
      const uint64_t ctas = uint64_t{grid.x} * grid.y * grid.z;
      p.buffer = file.buffers.size();
      file.buffers.push_back({.name = "scratch", .shape = {bytes, ctas}, .content = {}});
    }
    launch.parameters.push_back(std::move(p));
  }
}

// Throws Error if the launch file launches several kernels and the PTX has variables in global memory,
// because each kernel is loaded separately and would have its own copies of the variables.
void check_variables(const std::string& ptx, const LaunchFile& file) {
  for (const KernelLaunch& launch : file.launches)
    if (launch.entry != file.launches[0].entry)
      for (const ptx_text::Statement& s : ptx_text::parse(ptx).statements)
        if (s.kind == ptx_text::Statement::Kind::declaration && s.declaration.has(".global"))
          refuse(
              file, launch,
              fmt::format("entry: the PTX has the variable {} in .global memory, which launches of several "
                          "kernels cannot share here",
                          s.declaration.names[0].name));
}

Bytes read_file(const std::filesystem::path& path, uint64_t skipped, size_t bytes) {
  Bytes data(bytes);
  std::ifstream in(path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(skipped));
  in.read(reinterpret_cast<char*>(data.data()), static_cast<std::streamsize>(bytes));
  if (!in) throw Error(fmt::format("{}: cannot be read", path.string()));
  return data;
}

// Returns the initial or the expected bytes of a buffer. Random contents use stream `number` of `seed`.
// `first` holds the initial bytes of the buffers, for formulas.
Bytes make(const Content& content, const LaunchBuffer& b, const std::vector<LaunchBuffer>& buffers,
           const std::vector<Bytes>& first, uint64_t seed, size_t number) {
  const auto size = static_cast<size_t>(size_of(b.dtype));
  Bytes data(b.bytes());
  switch (content.kind) {
    case Content::Kind::zeros:
    case Content::Kind::buffer:
    case Content::Kind::kept:
      break;
    case Content::Kind::structure:
      if (!content.file.empty()) data = read_file(content.file, content.skipped, b.bytes());
      break;
    case Content::Kind::formula: {
      const std::vector<double> values = content.formula->values(b.shape, [&](size_t other, uint64_t i) {
        const DType type = buffers[other].dtype;
        return read_element(&first[other][i * static_cast<size_t>(size_of(type))], type);
      });
      for (size_t i = 0; i < b.count(); ++i) write_element(&data[i * size], b.dtype, values[i]);
      break;
    }
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
      data = read_file(content.file, content.skipped, b.bytes());
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

// Returns f(). Adds the name of the PTX text to errors that f() throws.
template <class F>
auto of_ptx(const SimulateOptions& options, F f) {
  try {
    return f();
  } catch (const Error& e) {
    if (options.ptx_name.empty() || !std::string_view(e.what()).starts_with("ptx")) throw;
    throw Error(fmt::format("{}: {}", options.ptx_name, demangled(e.what())));
  }
}

// A run of a launch file, with the buffers on a device and the loaded kernels.
class Bench {
 public:
  Bench(const std::string& ptx, const LaunchFile& file, const SimulateOptions& options)
      : file_(file), device_(runtime::open_emulator(options.emulator)) {
    of_ptx(options, [&] { check_variables(ptx, file_); });
    for (KernelLaunch& launch : file_.launches) prepare(ptx, launch, options);
    for (const LaunchBuffer& b : file_.buffers) places_.push_back(place(b));
    for (size_t i = 0; i < file_.buffers.size(); ++i) {
      const LaunchBuffer& b = file_.buffers[i];
      if (b.content.kind == Content::Kind::kept) {
        first_.emplace_back(b.bytes());
        device_->copy_out(first_.back().data(), places_[i], b.bytes());
      } else {
        first_.push_back(make(b.content, b, file_.buffers, first_, options.emulator.seed, i));
        write_members(first_.back(), b.content.members);
      }
    }
    for (size_t k = 0; k < file_.launches.size(); ++k)
      for (const LaunchParameter& p : file_.launches[k].parameters)
        kernels_[k].parameters.push_back(encode(p));
  }

  void run(uint64_t seed, std::chrono::milliseconds limit) {
    device_->seed(seed);
    for (const Prepared& kernel : kernels_) device_->reset(*kernel.program);
    for (size_t i = 0; i < places_.size(); ++i)
      device_->copy_in(places_[i], first_[i].data(), first_[i].size());
    for (const Prepared& kernel : kernels_) {
      std::vector<const void*> values;
      for (const Bytes& p : kernel.parameters) values.push_back(p.data());
      device_->launch(*kernel.program, kernel.launch, values);
    }
    device_->synchronize(limit * static_cast<int>(kernels_.size()));  // `limit` is the time for one launch
  }

  Bytes now(size_t buffer) const {
    Bytes bytes(file_.buffers[buffer].bytes());
    device_->copy_out(bytes.data(), places_[buffer], bytes.size());
    return bytes;
  }
  // Returns the expected bytes of a buffer.
  Bytes expected(const Content& content, const LaunchBuffer& b) const {
    return content.kind == Content::Kind::buffer ? now(content.buffer)
                                                 : make(content, b, file_.buffers, first_, 0, 0);
  }
  // Returns the names of the kernels without duplicates.
  std::vector<std::string> kernels() const {
    std::vector<std::string> names;
    for (const Prepared& kernel : kernels_)
      if (std::ranges::find(names, kernel.entry.name) == names.end()) names.push_back(kernel.entry.name);
    return names;
  }
  runtime::EmulatorStatistics statistics() const { return device_->statistics(); }

 private:
  runtime::Address place(const LaunchBuffer& b) {
    if (b.symbol.empty()) {
      buffers_.emplace_back(*device_, b.bytes());
      return buffers_.back().address();
    }
    try {
      const auto [address, bytes] = device_->variable(*kernels_[0].program, b.symbol);
      if (b.bytes() > bytes)
        throw Error(
            fmt::format("the variable '{}' has {} B, but the buffer has {}", b.symbol, bytes, b.bytes()));
      return address;
    } catch (const Error& e) {
      refuse(file_, fmt::format("{}.symbol: {}", b.path, e.what()));
    }
  }

  void write_members(Bytes& bytes, const std::vector<LaunchParameter>& members) {
    for (const LaunchParameter& member : members) {
      const Bytes part = encode(member);
      std::memcpy(bytes.data() + member.at, part.data(), part.size());
    }
  }

  Bytes encode(const LaunchParameter& p) {
    Bytes bytes(p.size());
    auto store = [&](const void* from, size_t size) { std::memcpy(bytes.data(), from, size); };
    const runtime::Address address = p.buffer ? places_[*p.buffer] + p.offset : 0;
    switch (p.kind) {
      case LaunchParameter::Kind::raw:
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
        write_members(bytes, p.members);
        break;
    }
    return bytes;
  }

  // A kernel that is loaded once and used for all launches of the same form.
  struct Prepared {
    Entry entry;
    runtime::Launch launch;
    std::shared_ptr<runtime::Program> program;
    std::vector<Bytes> parameters = {};
  };

  void prepare(const std::string& ptx, KernelLaunch& asked, const SimulateOptions& options) {
    const Entry entry = of_ptx(options, [&] { return chosen_entry(ptx, file_, asked); });
    const auto sidecar = options.sidecar ? options.sidecar(entry.name) : std::nullopt;
    complete(asked, sidecar);
    runtime::Launch launch = launch_of(file_, asked, entry);
    launch.grid = grid_of(file_, asked, sidecar, device_->properties().multiprocessors);
    add_scratch(file_, asked, entry, options.scratch, launch.grid);
    check_parameters(file_, asked, entry);
    Signature signature;
    signature.kernel = entry.name;
    signature.threads = launch.block.x * launch.block.y * launch.block.z;
    signature.threads_y = launch.block.y, signature.threads_z = launch.block.z;
    signature.cluster = {launch.cluster.x, launch.cluster.y, launch.cluster.z};
    signature.dynamic_shared_bytes = launch.dynamic_shared_bytes;
    signature.shared = file_.shared.empty() && sidecar ? sidecar->shared : file_.shared;
    signature.cooperative = launch.cooperative;
    std::shared_ptr<runtime::Program> program;
    for (const Prepared& other : kernels_)
      if (other.entry.name == entry.name && same(other.launch.block, launch.block) &&
          same(other.launch.cluster, launch.cluster) && other.launch.cooperative == launch.cooperative &&
          other.launch.dynamic_shared_bytes == launch.dynamic_shared_bytes)
        program = other.program;
    if (!program) program = of_ptx(options, [&] { return device_->load(ptx, signature); });
    kernels_.push_back({entry, launch, std::move(program)});
  }

  LaunchFile file_;
  std::unique_ptr<runtime::Emulator> device_;
  std::vector<Prepared> kernels_;         // one for each launch
  std::vector<Bytes> first_;              // one for each buffer of the file
  std::vector<runtime::Address> places_;  // one for each buffer of the file
  std::vector<runtime::Buffer> buffers_;  // the buffers that are not variables of the module
};

void compare(BufferComparison& c, const LaunchFile& file, const LaunchOutput& o, const Bench& bench,
             const Bytes& got, const std::string& schedule) {
  const LaunchBuffer& b = file.buffers[o.buffer];
  const bool other = o.equals->kind == Content::Kind::buffer;
  const DType type = other ? file.buffers[o.equals->buffer].dtype : b.dtype;
  const Bytes expected = bench.expected(*o.equals, b);
  c.count = b.count();
  for (size_t i = 0; i < b.count(); ++i) {
    const double is = read_element(&got[i * static_cast<size_t>(size_of(b.dtype))], b.dtype);
    const double wanted = read_element(&expected[i * static_cast<size_t>(size_of(type))], type);
    if (is == wanted || (std::isnan(is) && std::isnan(wanted))) continue;
    const double error = std::abs(is - wanted), allowed = o.tolerance + o.relative * std::abs(wanted);
    c.max_error = std::isnan(error) ? error : std::max(c.max_error, error);
    if (error <= allowed) continue;
    if (c.wrong++ == 0)
      c.first_wrong = fmt::format("{} is {}, expected {} +- {:.3g} (schedule {})", coordinates(b, i), is,
                                  wanted, allowed, schedule);
  }
}

std::string elements(const LaunchBuffer& b, const Bytes& data, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += fmt::format("{}{}", i ? " " : "",
                        read_element(&data[i * static_cast<size_t>(size_of(b.dtype))], b.dtype));
  return count < b.count() ? text + " ..." : text;
}

// Records the output that a schedule has printed. Schedules with equal output share one Outcome, which counts
// them.
void note_outcome(Simulation& s, const LaunchFile& file, const Bench& bench, const std::string& schedule) {
  std::string printed;
  for (const LaunchOutput& o : file.outputs)
    if (const LaunchBuffer& b = file.buffers[o.buffer]; o.print)
      printed += fmt::format("{}{} = {}", printed.empty() ? "" : ", ", b.name,
                             elements(b, bench.now(o.buffer), o.print));
  if (printed.empty()) return;
  auto at = std::ranges::find(s.outcomes, printed, &Simulation::Outcome::printed);
  if (at == s.outcomes.end()) at = s.outcomes.insert(at, {printed, 0, schedule});
  ++at->schedules;
}

void write_file(const std::filesystem::path& path, const LaunchBuffer& b, const Bytes& data) {
  std::ofstream out(path, std::ios::binary);
  if (path.extension() == ".npy") out << npy_header_text(b.dtype, b.shape);
  out.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
  if (!out.flush()) throw Error(fmt::format("{}: cannot be written", path.string()));
}

// Collects the faults of all schedules.
class Faults {
 public:
  explicit Faults(const LaunchFile& file) : file_(file), used_(file.waivers.size()) {}

  void add(const runtime::EmulatorError& e) {
    for (size_t k = 0; k < used_.size(); ++k)
      if (file_.waivers[k].kind == e.fault() && file_.waivers[k].line == e.ptx_line()) used_[k] = true;
    if (!is_waived(e)) add_anyway(e, "");
  }
  // Adds a fault that ended a schedule, even if it is waived, because the kernel cannot continue after it.
  void add_last(const runtime::EmulatorError& e) {
    add_anyway(e, is_waived(e) ? "\n  A waiver names this, but the kernel cannot continue after it." : "");
  }

  std::vector<SimulatedFault> all;

  std::string unused() const {
    std::string text;
    for (size_t k = 0; k < used_.size(); ++k)
      if (!used_[k])
        text += fmt::format("{}{}: {}: it waives nothing that was found in line {}", text.empty() ? "" : "\n",
                            file_.name, file_.waivers[k].path, file_.waivers[k].line);
    return text;
  }

 private:
  bool is_waived(const runtime::EmulatorError& e) const {
    return std::ranges::any_of(
        file_.waivers, [&](const Waiver& w) { return w.kind == e.fault() && w.line == e.ptx_line(); });
  }
  void add_anyway(const runtime::EmulatorError& e, const char* more) {
    for (const SimulatedFault& f : all)
      if (f.kind == e.fault() && f.ptx_line == e.ptx_line()) return;
    all.push_back({e.fault(), e.ptx_line(), std::string(e.what()) + more});
  }

  const LaunchFile& file_;
  std::vector<bool> used_;
};

// Notes .aligned instructions that only a part of a warp executes. Their behavior is undefined, but a run may
// not show this.
void note_divergent(const std::string& ptx, const std::string& kernel, const SimulateOptions& options) {
  if (!options.emulator.note) return;
  constexpr std::string_view rule = "divergent-aligned";
  std::set<std::string, std::less<>> others;
  for (const analysis::RuleText& r : analysis::lint_rules())
    if (r.name != rule) others.emplace(r.name);
  for (const analysis::Finding& f : analysis::lint(ptx_text::parse(ptx), kernel, others))
    if (!f.is_undecided) options.emulator.note("ptxb lint finds in it, at " + analysis::text(f));
}

}  // namespace

bool Simulation::right() const {
  for (const BufferComparison& c : comparisons)
    if (c.wrong) return false;
  return true;
}

Simulation simulate(const std::string& ptx, const LaunchFile& file, const SimulateOptions& asked) {
  SimulateOptions options = asked;
  Faults faults(file);
  options.emulator.finding = [&](const runtime::EmulatorError& e) { faults.add(e); };
  std::optional<runtime::Exploration> exploration;
  if (!options.schedule.empty())
    exploration.emplace(options.schedule);
  else if (options.explore)
    exploration.emplace(*options.explore);
  if (exploration) options.emulator.exploration = &*exploration;
  Bench bench(ptx, file, options);
  Simulation s;
  for (const std::string& kernel : bench.kernels()) {
    s.entry += (s.entry.empty() ? "" : ", ") + demangled(kernel);
    note_divergent(ptx, kernel, options);
  }
  for (const LaunchOutput& o : file.outputs)
    if (o.equals) s.comparisons.push_back({.buffer = file.buffers[o.buffer].name, .first_wrong = {}});
  s.finished = true;
  auto has_next = [&] { return exploration ? exploration->begin() : s.schedules < options.schedules; };
  while (s.right() && s.finished && has_next()) {
    const uint64_t seed = options.emulator.seed + static_cast<uint64_t>(exploration ? 0 : s.schedules);
    try {
      bench.run(seed, options.time_limit);
    } catch (const runtime::Exploration::Abandoned&) {
      continue;
    } catch (const runtime::EmulatorError& e) {
      faults.add_last(e);
      s.finished = false;
    }
    ++s.schedules;
    if (exploration) exploration->end();
    if (!s.finished) break;
    const std::string schedule = exploration ? exploration->schedule() : fmt::format("of seed {}", seed);
    size_t n = 0;
    for (const LaunchOutput& o : file.outputs)
      if (o.equals) compare(s.comparisons[n++], file, o, bench, bench.now(o.buffer), schedule);
    if (exploration) note_outcome(s, file, bench, schedule);
  }
  if (exploration) s.explored_all = exploration->is_complete();
  s.faults = std::move(faults.all);
  s.statistics = bench.statistics();
  if (!s.finished) {
    s.comparisons.clear();
    return s;
  }
  if (const std::string unused = faults.unused(); !unused.empty() && options.emulator.note)
    options.emulator.note(unused);
  for (const LaunchOutput& o : file.outputs) {
    const LaunchBuffer& b = file.buffers[o.buffer];
    if (o.print) s.printed.emplace_back(b.name, elements(b, bench.now(o.buffer), o.print));
    if (o.write.empty()) continue;
    write_file(o.write, b, bench.now(o.buffer));
    s.written.push_back(o.write.string());
  }
  return s;
}

}  // namespace ptxbuilder::command
