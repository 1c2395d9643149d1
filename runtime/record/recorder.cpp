#include "runtime/record/recorder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "ptxbuilder/demangle.h"
#include "ptxbuilder/error.h"
#include "ptxbuilder/ptx/ptx.h"

namespace ptxbuilder::runtime::record {
namespace {

struct Buffer {
  std::string name;
  Address address = 0;
  std::vector<std::byte> before;
  std::optional<DType> dtype = {};        // element type, from a tensor map of this memory
  std::string symbol = {};                // name, if the buffer is a variable in the module
  std::vector<std::string> members = {};  // pointers and tensor maps in the buffer, as JSON
};

std::string hexadecimal(const std::byte* bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += fmt::format("{:02x}", static_cast<unsigned>(bytes[i]));
  return text;
}

// Returns the name of a kernel's folder.
std::string plain(std::string_view kernel) {
  std::string text;
  const std::string name = demangled(kernel);
  for (const char c : name.substr(0, std::min(name.find_first_of("(<"), size_t{60})))
    text += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return text;
}

template <class T>
std::string list(const std::vector<T>& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

void write(const std::filesystem::path& path, const void* bytes, size_t count) {
  std::ofstream out(path, std::ios::binary);
  out.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(count));
  if (!out.flush()) throw Error(fmt::format("{} cannot be written", path.string()));
}

std::string extents(const Dim3& d) { return fmt::format("[{}, {}, {}]", d.x, d.y, d.z); }

}  // namespace

const std::byte* packed(void** parameters, void** extra) {
  constexpr auto pointer_follows = uintptr_t{1};
  const std::byte* bytes = nullptr;
  for (void** e = parameters ? nullptr : extra; e && *e; e += 2)
    if (reinterpret_cast<uintptr_t>(*e) == pointer_follows) bytes = static_cast<const std::byte*>(e[1]);
  return bytes;
}

struct Recorder::Launch {
  std::string kernel;
  std::filesystem::path folder;
  std::string head, parameters;  // parts of launch.json
  std::vector<Buffer> buffers;
  std::vector<std::string> cut;  // buffers that are recorded only in part
};

Wanted Wanted::from_environment() {
  Wanted w;
  auto of = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (const std::string folder = of("PTXB_RECORD_FOLDER"); !folder.empty()) w.folder = folder;
  w.kernel = of("PTXB_RECORD_KERNEL");
  if (const std::string most = of("PTXB_RECORD_MAX"); !most.empty()) w.launches = std::stoull(most);
  if (const std::string most = of("PTXB_RECORD_BYTES"); !most.empty()) w.bytes = std::stoull(most);
  std::string folders = of("PTXB_RECORD_PTX");
  while (!folders.empty()) {
    const size_t end = std::min(folders.find(':'), folders.size());
    if (end > 0) w.ptx.emplace_back(folders.substr(0, end));
    folders.erase(0, end + 1);
  }
  return w;
}

Recorder::Recorder(Wanted wanted, DriverCalls driver)
    : wanted_(std::move(wanted)), driver_(driver), sources_(wanted_.ptx) {}

void Recorder::loaded(Handle module, Image image, bool is_library) {
  modules_[module] = std::make_shared<Module>(Module{std::move(image), module, is_library});
}

void Recorder::module_of(Handle library, Handle module) {
  if (const auto at = modules_.find(library); at != modules_.end()) modules_[module] = at->second;
}

void Recorder::found(Handle module, Handle function, const std::string& name) {
  if (const auto at = modules_.find(module); at != modules_.end()) functions_[function] = {at->second, name};
}

void Recorder::is_function_of(Handle kernel, Handle function) {
  if (const auto at = functions_.find(kernel); at != functions_.end()) {
    const Function of = at->second;
    functions_[function] = of;
  }
}

void Recorder::encoded(const void* map, RecordedMap recorded) {
  std::array<std::byte, 128> bytes;
  std::memcpy(bytes.data(), map, bytes.size());
  maps_.insert_or_assign(bytes, std::move(recorded));
}

// Returns what is known about a function. Queries the driver if the program obtained the function through a
// call that is not intercepted.
const Recorder::Function* Recorder::function_of(Handle handle) {
  if (const auto at = functions_.find(handle); at != functions_.end()) return &at->second;
  const char* name = nullptr;
  Handle module = nullptr;
  if (!driver_.function_name || !driver_.function_module ||
      driver_.function_name(&name, handle) != cu::Status::success || !name ||
      driver_.function_module(&module, handle) != cu::Status::success)
    return nullptr;
  if (!modules_.contains(module) && driver_.library_module) {
    std::vector<Handle> libraries;
    for (const auto& [known, loaded] : modules_)
      if (loaded->is_library && loaded->handle == known) libraries.push_back(known);
    for (const Handle library : libraries) {
      Handle of = nullptr;
      if (driver_.library_module(&of, library) == cu::Status::success && of == module)
        module_of(library, module);
    }
  }
  found(module, handle, name);
  const auto at = functions_.find(handle);
  return at == functions_.end() ? nullptr : &at->second;
}

bool Recorder::is_wanted(const std::string& kernel) const {
  return kernel.find(wanted_.kernel) != std::string::npos ||
         demangled(kernel).find(wanted_.kernel) != std::string::npos;
}

bool Recorder::wants(Handle function) {
  const Function* f = function_of(function);
  return f && is_wanted(f->name) && recorded_ < wanted_.launches;
}

// Returns whether a stream is being captured. The driver reports an error for the default stream while
// another stream is being captured.
bool Recorder::is_capturing(cu::Stream stream) const {
  int capturing = 0;
  return driver_.is_capturing &&
         (driver_.is_capturing(stream, &capturing) != cu::Status::success || capturing);
}

void Recorder::note(const std::string& kernel, const std::string& why) {
  if (noted_.insert(kernel + '\n' + why).second)
    fmt::print(stderr, "ptxb record: {}: {}\n", demangled(kernel), why);
}

std::optional<std::pair<Address, size_t>> Recorder::allocation_of(Address address) const {
  if (auto after = allocations_.upper_bound(address); after != allocations_.begin())
    if (const auto& [base, bytes] = *std::prev(after); address - base < bytes) return std::pair{base, bytes};
  // The memory may have been allocated before the recorder started, or through a call that is not
  // intercepted.
  constexpr Address least = 1 << 16, most = uint64_t{1} << 57;
  cu::DevicePtr base = 0;
  size_t bytes = 0;
  if (address < least || address >= most || !driver_.address_range ||
      driver_.address_range(&base, &bytes, address) != cu::Status::success)
    return std::nullopt;
  return std::pair{base, bytes};
}

// Returns the place of an address in a buffer. If the buffer is new, its contents are read first.
std::optional<Recorder::Place> Recorder::place_of(Launch& launch, Address address) {
  for (size_t i = 0; i < launch.buffers.size(); ++i)
    if (const Buffer& b = launch.buffers[i]; address - b.address < b.before.size())
      return Place{i, address - b.address};
  const auto allocation = allocation_of(address);
  if (!allocation) return std::nullopt;
  auto [base, bytes] = *allocation;
  Buffer b{fmt::format("m{}", launch.buffers.size()), base, {}};
  if (bytes > wanted_.bytes) {
    b.address = std::max(base, address / 256 * 256);
    const size_t taken = std::min<size_t>(base + bytes - b.address, wanted_.bytes);
    launch.cut.push_back(fmt::format("{} is {} B of an allocation of {}", b.name, taken, bytes));
    bytes = taken;
  }
  b.before.resize(bytes);
  if (driver_.copy_out(b.before.data(), b.address, bytes) != cu::Status::success)
    throw Error(fmt::format("{} B at {:#x} cannot be read", bytes, b.address));
  launch.buffers.push_back(std::move(b));
  return Place{launch.buffers.size() - 1, address - launch.buffers.back().address};
}

std::string Recorder::map_value(Launch& launch, const RecordedMap& map, const std::string& at) {
  const TensorMapArguments& a = map.arguments;
  const auto place = place_of(launch, a.address);
  if (!place)
    throw Error(
        fmt::format("a tensor map refers to {:#x}, where the program has not allocated memory", a.address));
  Buffer& b = launch.buffers[place->buffer];
  const TensorMapRecipe& r = a.recipe;
  if (!b.dtype && b.before.size() % static_cast<size_t>(size_of(r.dtype)) == 0) b.dtype = r.dtype;
  std::string box = fmt::format("\"box\": {}", list(r.box));
  if (a.im2col)
    box = fmt::format(R"("im2col": {{"channels": {}, "pixels": {}, "lower": {}, "upper": {}}})", r.box[0],
                      r.pixels, list(a.im2col->lower), list(a.im2col->upper));
  const bool overlaps = std::ranges::any_of(
      a.strides,
      [row = a.shape[0] * static_cast<uint64_t>(size_of(r.dtype))](uint64_t stride) { return stride < row; });
  return fmt::format(
      R"({{{}"tensor_map": "{}", "offset": {}, "dtype": "{}", "shape": {}, "strides": {}, {}, "element_strides": {}, )"
      R"("swizzle": "{}", "interleave": "{}", "oob_fill": "{}"{}}})",
      at, b.name, place->offset, name(r.dtype), list(a.shape), list(a.strides), box, list(r.element_strides),
      name(r.swizzle), name(r.interleave), name(r.oob_fill), overlaps ? R"(, "overlaps": true)" : "");
}

// Returns a parameter, or a member of a struct, as JSON.
std::string Recorder::value(Launch& launch, const std::byte* bytes, size_t count, const std::string& at) {
  auto map_at = [&](size_t offset) {
    std::array<std::byte, 128> map;
    std::memcpy(map.data(), bytes + offset, map.size());
    return maps_.find(map);
  };
  auto pointer_at = [&](size_t offset) {
    Address address;
    std::memcpy(&address, bytes + offset, sizeof address);
    return place_of(launch, address);
  };
  auto pointer = [&](const Place& place, const std::string& at_) {
    return fmt::format(R"({{{}"pointer": "{}", "offset": {}}})", at_, launch.buffers[place.buffer].name,
                       place.offset);
  };
  if (count == 128)
    if (const auto map = map_at(0); map != maps_.end()) return map_value(launch, map->second, at);
  if (count == 4 || count == 8) {
    uint64_t number = 0;
    std::memcpy(&number, bytes, count);
    if (count == 8)
      if (const auto place = pointer_at(0)) return pointer(*place, at);
    return fmt::format(R"({{{}"scalar": "u{}", "value": {}}})", at, 8 * count, number);
  }
  std::string members;
  for (size_t offset = 0; offset + 8 <= count; offset += 8) {
    const std::string there = fmt::format("\"at\": {}, ", offset);
    if (offset + 128 <= count)
      if (const auto map = map_at(offset); map != maps_.end()) {
        members += ", " + map_value(launch, map->second, there);
        offset += 120;
        continue;
      }
    if (const auto place = pointer_at(offset)) members += ", " + pointer(*place, there);
  }
  const std::string raw = hexadecimal(bytes, count);
  if (members.empty()) return fmt::format(R"({{{}"raw": "{}"}})", at, raw);
  return fmt::format(R"({{{}"struct": [{{"at": 0, "raw": "{}"}}{}], "bytes": {}}})", at, raw, members, count);
}

// Finds pointers and tensor maps in a buffer. Only addresses in recorded allocations count, because any
// number might look like an address.
void Recorder::scan(Launch& launch, size_t buffer) {
  constexpr size_t most = 64 << 20;
  const std::vector<std::byte> bytes = launch.buffers[buffer].before;
  for (size_t offset = 0; offset + 8 <= std::min(bytes.size(), most); offset += 8) {
    Address address;
    std::memcpy(&address, bytes.data() + offset, sizeof address);
    if (address == 0) continue;
    const std::string at = fmt::format("\"at\": {}, ", offset);
    if (offset + 128 <= bytes.size()) {
      std::array<std::byte, 128> map;
      std::memcpy(map.data(), bytes.data() + offset, map.size());
      if (const auto known = maps_.find(map); known != maps_.end()) {
        const std::string value = map_value(launch, known->second, at);
        launch.buffers[buffer].members.push_back(value);
        offset += 120;
        continue;
      }
    }
    const auto after = allocations_.upper_bound(address);
    if (after == allocations_.begin() || address - std::prev(after)->first >= std::prev(after)->second)
      continue;
    if (const auto place = place_of(launch, address))
      launch.buffers[buffer].members.push_back(fmt::format(
          R"({{{}"pointer": "{}", "offset": {}}})", at, launch.buffers[place->buffer].name, place->offset));
  }
}

// Adds the variables of the module whose addresses the driver reports.
void Recorder::add_variables(Launch& launch, const Module& module, const std::string& ptx) {
  const auto global = module.is_library ? driver_.library_global : driver_.module_global;
  if (!global) return;
  for (const ptx_text::Statement& s : ptx_text::parse(ptx).statements) {
    if (s.kind != ptx_text::Statement::Kind::declaration) continue;
    if (!s.declaration.has(".global") && !s.declaration.has(".const")) continue;
    for (const ptx_text::Declarator& d : s.declaration.names) {
      Buffer b{d.name, 0, {}};
      size_t bytes = 0;
      if (global(&b.address, &bytes, module.handle, d.name.c_str()) != cu::Status::success || bytes == 0)
        continue;
      b.symbol = d.name;
      b.before.resize(std::min<size_t>(bytes, wanted_.bytes));
      if (driver_.copy_out(b.before.data(), b.address, b.before.size()) == cu::Status::success)
        launch.buffers.push_back(std::move(b));
    }
  }
}

std::shared_ptr<Recorder::Launch> Recorder::begin(Handle function, const LaunchShape& shape,
                                                  void** parameters, const std::byte* packed) {
  if (is_capturing(shape.stream)) return nullptr;  // the launch is recorded when its graph is launched
  ++seen_;
  const Function* known = function_of(function);
  if (!known) {
    note("a kernel",
         "the program obtained it with a call that is not recorded, so nothing is known about it");
    return nullptr;
  }
  const Function& f = *known;
  if (!is_wanted(f.name) || recorded_ >= wanted_.launches) return nullptr;
  try {
    const std::string ptx = sources_.find(f.module->image, f.name);
    const std::vector<Entry> all = entries(ptx);
    const auto entry = std::ranges::find(all, f.name, &Entry::name);
    if (entry == all.end()) throw Error("the PTX has no kernel of this name");
    if (driver_.synchronize() != cu::Status::success) throw Error("the device does not respond");

    auto launch = std::make_shared<Launch>();
    launch->kernel = f.name;
    add_variables(*launch, *f.module, ptx);
    uint64_t offset = 0;
    for (size_t i = 0; i < entry->parameters.size(); ++i) {
      const EntryParameter& p = entry->parameters[i];
      offset = (offset + p.align - 1) / p.align * p.align;
      const auto* bytes = parameters ? static_cast<const std::byte*>(parameters[i]) : packed + offset;
      offset += p.bytes;
      launch->parameters += (i ? ",\n  " : "\n  ") + value(*launch, bytes, p.bytes, "");
    }
    for (size_t i = 0; i < launch->buffers.size(); ++i) scan(*launch, i);

    launch->head = fmt::format("\"entry\": \"{}\", \"grid\": {}, \"block\": {}, \"dynamic_shared_bytes\": {}",
                               f.name, extents(shape.grid), extents(shape.block), shape.shared_bytes);
    if (shape.cluster) launch->head += fmt::format(", \"cluster\": {}", extents(*shape.cluster));
    if (shape.cooperative) launch->head += ", \"cooperative\": true";
    std::filesystem::create_directories(wanted_.folder);
    for (uint64_t n = recorded_;; ++n) {  // several processes of a program may use the folder
      launch->folder = wanted_.folder / fmt::format("{}-{}", n, plain(f.name));
      if (std::filesystem::create_directory(launch->folder)) break;
    }
    write(launch->folder / "kernel.ptx", ptx.data(), ptx.size());
    for (const Buffer& b : launch->buffers)
      write(launch->folder / (b.name + ".before"), b.before.data(), b.before.size());
    ++recorded_;
    return launch;
  } catch (const std::exception& e) {
    note(f.name, e.what());
    return nullptr;
  }
}

void Recorder::end(Launch& launch) {
  try {
    if (driver_.synchronize() != cu::Status::success)
      throw Error("the launch failed, so the recording has no results of it");
  } catch (const std::exception& e) {
    note(launch.kernel, e.what());
  }
  try {
    std::string buffers, outputs;
    for (const Buffer& b : launch.buffers) {
      const DType dtype = b.dtype.value_or(DType::u8);
      std::string init = fmt::format("{{\"file\": \"{}.before\"}}", b.name);
      if (!b.members.empty())
        init = fmt::format("{{\"struct\": [{}], \"file\": \"{}.before\"}}", fmt::join(b.members, ",\n      "),
                           b.name);
      buffers += fmt::format("{}\n  {{\"name\": \"{}\", \"dtype\": \"{}\", \"shape\": [{}],{} \"init\": {}}}",
                             buffers.empty() ? "" : ",", b.name, name(dtype),
                             b.before.size() / static_cast<size_t>(size_of(dtype)),
                             b.symbol.empty() ? "" : fmt::format(" \"symbol\": \"{}\",", b.symbol), init);
      std::vector<std::byte> after(b.before.size());
      if (driver_.copy_out(after.data(), b.address, after.size()) != cu::Status::success || after == b.before)
        continue;
      write(launch.folder / (b.name + ".after"), after.data(), after.size());
      outputs += fmt::format("{}\n  {{\"buffer\": \"{}\", \"equals\": {{\"file\": \"{}.after\"}}}}",
                             outputs.empty() ? "" : ",", b.name, b.name);
    }
    std::string text = "// " + demangled(launch.kernel) + "\n";
    for (const std::string& cut : launch.cut) text += "// " + cut + "\n";
    text += fmt::format("{{{},\n\"buffers\": [{}],\n\"parameters\": [{}],\n\"outputs\": [{}]}}\n",
                        launch.head, buffers, launch.parameters, outputs);
    write(launch.folder / "launch.json", text.data(), text.size());
  } catch (const std::exception& e) {
    note(launch.kernel, e.what());
  }
}

std::string Recorder::summary() const {
  if (recorded_ == 0)
    return fmt::format("ptxb record: none of {} launches was recorded{}\n", seen_,
                       wanted_.kernel.empty() ? "" : fmt::format("; --kernel selects '{}'", wanted_.kernel));
  return fmt::format(
      "ptxb record: {} of {} launches are in {}; ptxb sim FOLDER/kernel.ptx --launch FOLDER/launch.json runs "
      "one\n",
      recorded_, seen_, wanted_.folder.string());
}

}  // namespace ptxbuilder::runtime::record
