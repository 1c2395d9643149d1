#include "kernels/simulate/launch_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "kernels/simulate/npy.h"
#include "ptxbuilder/dtype.h"
#include "ptxbuilder/error.h"
#include "ptxbuilder/file_text.h"
#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/json_text.h"
#include "runtime/tensor_map.h"

namespace ptxbuilder::command {

const char* const launch_file_help =
    R"help(FILE.json, in which lists of extents run from the innermost dimension outwards and // begins a comment:
  "entry": the kernel, if there are several            "dynamic_shared_bytes": of the launch
  "grid", "block", "cluster": a number or a list of up to 3
      What is missing is taken from the sidecar next to the PTX (the grid from its rule), or else block and cluster
      from what the PTX requires, and dynamic_shared_bytes is 0.
  "cooperative": true for a launch whose CTAs all run at once, such as one that synchronizes its grid
  "launches": [{"entry": ..., "grid": ..., "parameters": [...]}, ...] instead of all the above and of
      "parameters", for several launches in order; "overlaps": true for one that may begin before the previous launch
      has ended (programmatic dependent launch)
  "buffers": [{"name": "a", "dtype": "bf16", "shape": [64, 128], "init": ...}]; init is "zeros" (the default),
      "poison" (all bits set, a NaN), "iota" (0, 1, 2, ...), "normal" (N(0, 1); "seed": N repeats it), a number
      for all, a list of numbers, {"file": "raw bytes, or NAME.npy"}, {"formula": "a[i] * 2"} over the previous
      buffers, or {"struct": [parameters with "at": bytes, ...]}, which puts pointers and tensor maps into memory;
      the rest is zeros or, with "file" next to "struct", the contents of a file.
      "symbol": "name" makes the buffer the first bytes of a __device__ or __constant__ variable; without "init"
      it begins with the values in the PTX.
  "parameters", in order, each one of
      {"scalar": "u32", "value": 3}; {"raw": "00 0a ff"} (bytes in hexadecimal), {"raw": {"file": "raw bytes"}}
      {"pointer": "a", "offset": bytes}; {"pointer": null}
      {"tensor_map": "a", "box": [64, 64], "swizzle": "none|32|64|128", "interleave": "none|16|32",
       "oob_fill": "zero|nan", "element_strides": [1, 1], "offset": bytes; and if they differ from the
       buffer's own: "dtype", "shape", "strides" (bytes, of dimensions 1 and up), and "overlaps": true for strides
       shorter than a row}; an im2col map has instead of
       "box": "im2col": {"channels": 64, "pixels": 128, "lower": [-1, -1], "upper": [-1, -1]}
      {"struct": [a parameter with "at": bytes, ...], "bytes": of all}
  "outputs": [{"buffer": "d", "print": elements, "write": "file",
      "equals": a number, a list, {"buffer": "e"}, {"file": "raw bytes, or NAME.npy"} or
      {"formula": "sum(k, 64, a[k, i1] * b[k, i0])"}, "tolerance": 0, "relative": 0}]
      An element is right if |element - expected| <= tolerance + relative |expected|. Formulas have C's operators,
      i (the element's number), i0, i1, ... (its coordinates), sum, select, min, max, pow, abs, exp, log, sqrt,
      rsqrt, sin, cos, tanh, erf, floor, ceil, round, trunc, and elements of buffers as they are before the launch.
  "waivers": [{"kind": "race", "line": of the PTX}], findings that are known and accepted
  "shared": [{"name": "sA", "offset": bytes, "bytes": of a stage, "stages": 4}], names for reports
)help";

size_t LaunchBuffer::count() const {
  size_t n = 1;
  for (uint64_t extent : shape) n *= extent;
  return n;
}

size_t LaunchParameter::size() const {
  switch (kind) {
    case Kind::raw:
      return value.size();
    case Kind::pointer:
      return 8;
    case Kind::tensor_map:
      return sizeof(runtime::TensorMap);
    case Kind::structure:
      return bytes;
  }
  return 0;
}

namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMostBytes = uint64_t{1} << 34;  // size limit of a buffer
constexpr uint64_t kMostParameterBytes = 32764;     // size limit of all parameters together (PTX ISA, "Kernel
                                                    // Function Parameters")

// A JSON value and its path in the file.
class Node {
 public:
  Node(const Json& json, std::string file, std::string path)
      : json_(json), file_(std::move(file)), path_(std::move(path)) {}

  const Json& json() const { return json_; }
  const std::string& path() const { return path_; }

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(path_.empty() ? fmt::format("{}: {}", file_, what)
                              : fmt::format("{}: {}: {}", file_, path_, what));
  }

  std::optional<Node> find(const char* member) const {
    auto at = json_.find(member);
    if (at == json_.end()) return std::nullopt;
    return Node(*at, file_, path_.empty() ? member : fmt::format("{}.{}", path_, member));
  }
  Node at(const char* member) const {
    if (auto node = find(member)) return *node;
    refuse(fmt::format("the member \"{}\" is missing", member));
  }
  Node operator[](size_t i) const { return {json_.at(i), file_, fmt::format("{}[{}]", path_, i)}; }

  // Throws Error unless the value is an object that has no members other than these.
  void members(std::initializer_list<std::string_view> known) const {
    if (!json_.is_object()) refuse(fmt::format("expected an object, found {}", shown()));
    for (const auto& [name, value] : json_.items())
      if (std::find(known.begin(), known.end(), name) == known.end())
        refuse(fmt::format("\"{}\" is not a member; the members are {}", name, fmt::join(known, ", ")));
  }
  size_t list(size_t least, size_t most) const {
    if (!json_.is_array()) refuse(fmt::format("expected a list, found {}", shown()));
    if (json_.size() < least || json_.size() > most)
      refuse(least == most ? fmt::format("expected {} items, found {}", least, json_.size())
                           : fmt::format("expected {} to {} items, found {}", least, most, json_.size()));
    return json_.size();
  }
  std::string text() const {
    if (!json_.is_string()) refuse(fmt::format("expected a text, found {}", shown()));
    return json_.get<std::string>();
  }
  bool truth() const {
    if (!json_.is_boolean()) refuse(fmt::format("expected true or false, found {}", shown()));
    return json_.get<bool>();
  }
  uint64_t whole(uint64_t least, uint64_t most) const {
    if (!json_.is_number_integer()) refuse(fmt::format("expected a whole number, found {}", shown()));
    if (!json_.is_number_unsigned() || json_.get<uint64_t>() < least)
      refuse(fmt::format("{} is less than {}", shown(), least));
    if (json_.get<uint64_t>() > most) refuse(fmt::format("{} exceeds {}", shown(), most));
    return json_.get<uint64_t>();
  }
  double real() const {
    if (!json_.is_number()) refuse(fmt::format("expected a number, found {}", shown()));
    return json_.get<double>();
  }
  DType dtype() const {
    if (auto type = dtype_from_name(text())) return *type;
    std::string known;
    for (int i = 0; i <= static_cast<int>(DType::f64); ++i)
      known += fmt::format("{}{}", i ? ", " : "", name(static_cast<DType>(i)));
    refuse(fmt::format("'{}' is not an element type; the types are {}", text(), known));
  }
  // Returns the enumerator that the value names, out of the first `count` enumerators.
  template <class Enum>
  Enum one_of(int count) const {
    std::string known;
    for (int i = 0; i < count; ++i) {
      const auto value = static_cast<Enum>(i);
      if (json_.is_string() && text() == name(value)) return value;
      known += fmt::format("{}\"{}\"", i ? ", " : "", name(value));
    }
    refuse(fmt::format("{} is not one of {}", shown(), known));
  }
  template <class T>
  std::vector<T> wholes(size_t least, size_t most, uint64_t smallest, uint64_t greatest) const {
    std::vector<T> values(list(least, most));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<T>((*this)[i].whole(smallest, greatest));
    return values;
  }

 private:
  std::string shown() const {
    std::string text = json_.dump();
    return text.size() > 60 ? text.substr(0, 57) + "..." : text;
  }

  const Json& json_;
  std::string file_, path_;
};

// Appends a number to the bytes, as an element of `type`.
void append_element(std::vector<std::byte>& to, const Node& node, DType type) {
  const auto size = static_cast<size_t>(size_of(type));
  const double value = node.real();
  to.resize(to.size() + size);
  std::byte* place = to.data() + to.size() - size;
  if (!is_integer(type)) {
    write_element(place, type, value);
    if (std::isinf(read_element(place, type)) || (is_fp8(type) && std::abs(value) > greatest(type)))
      node.refuse(fmt::format("{} does not fit in {}, whose greatest number is {:g}", node.json().dump(),
                              name(type), greatest(type)));
    return;
  }
  if (!node.json().is_number_integer()) node.refuse(fmt::format("{} is not of type {}", value, name(type)));
  const int width = 8 * static_cast<int>(size);
  uint64_t bits = 0;
  bool fits = false;
  if (node.json().is_number_unsigned()) {
    bits = node.json().get<uint64_t>();
    fits = bits <= (~uint64_t{0} >> (64 - width + is_signed(type)));
  } else {
    const auto negative = node.json().get<int64_t>();
    bits = static_cast<uint64_t>(negative);
    fits = is_signed(type) && negative >= -(int64_t{1} << (width - 2)) * 2;
  }
  if (!fits) node.refuse(fmt::format("{} does not fit in {}", node.json().dump(), name(type)));
  std::memcpy(place, &bits, size);
}

class Reader {
 public:
  Reader(const Json& json, const std::filesystem::path& name)
      : root_(json, name.string(), ""), folder_(name.parent_path()) {
    launch_.name = name.string();
  }

  LaunchFile read() {
    const auto launches = root_.find("launches");
    if (launches)
      root_.members({"launches", "buffers", "outputs", "shared", "waivers"});
    else
      root_.members({"entry", "grid", "block", "cluster", "dynamic_shared_bytes", "cooperative", "buffers",
                     "parameters", "outputs", "shared", "waivers"});
    if (auto node = root_.find("buffers"))
      for (size_t i = 0; i < node->list(0, 1024); ++i) buffer((*node)[i]);
    for (const auto& [i, node] : structures_) fill_structure(launch_.buffers[i], node);
    if (!launches) {
      launch_.launches.push_back(kernel_launch(root_, ""));
    } else {
      for (size_t i = 0; i < launches->list(1, 1024); ++i) {
        const Node node = (*launches)[i];
        node.members({"entry", "grid", "block", "cluster", "dynamic_shared_bytes", "cooperative", "overlaps",
                      "parameters"});
        launch_.launches.push_back(kernel_launch(node, fmt::format("launches[{}].", i)));
        if (auto overlaps = node.find("overlaps")) launch_.launches.back().overlaps = overlaps->truth();
      }
    }
    if (auto node = root_.find("outputs"))
      for (size_t i = 0; i < node->list(0, 1024); ++i) output((*node)[i]);
    if (auto node = root_.find("shared"))
      for (size_t i = 0; i < node->list(0, 1024); ++i) launch_.shared.push_back(shared((*node)[i]));
    if (auto node = root_.find("waivers"))
      for (size_t i = 0; i < node->list(0, 1024); ++i) launch_.waivers.push_back(waiver((*node)[i]));
    return std::move(launch_);
  }

 private:
  KernelLaunch kernel_launch(const Node& from, const std::string& path) {
    KernelLaunch launch{.path = path};
    if (auto node = from.find("entry")) launch.entry = node->text();
    if (auto node = from.find("grid")) launch.grid = extents(*node, hopper::grid_x);
    if (auto node = from.find("block")) launch.block = extents(*node, hopper::cta_threads);
    if (auto node = from.find("cluster")) launch.cluster = extents(*node, hopper::largest_cluster);
    if (auto node = from.find("dynamic_shared_bytes"))
      launch.dynamic_shared_bytes = static_cast<uint32_t>(node->whole(0, hopper::shared_bytes));
    if (auto node = from.find("cooperative")) launch.cooperative = node->truth();
    if (auto node = from.find("parameters"))
      for (size_t i = 0; i < node->list(0, 1024); ++i)
        launch.parameters.push_back(parameter((*node)[i], false));
    return launch;
  }

  static runtime::Dim3 extents(const Node& node, uint64_t most) {
    std::array<uint32_t, 3> d = {1, 1, 1};
    if (!node.json().is_array()) {
      d[0] = static_cast<uint32_t>(node.whole(1, most));
    } else {
      auto list = node.wholes<uint32_t>(1, 3, 1, most);
      std::copy(list.begin(), list.end(), d.begin());
    }
    return {d[0], d[1], d[2]};
  }

  size_t buffer_named(const Node& node) const {
    const std::string name = node.text();
    std::string known;
    for (size_t i = 0; i < launch_.buffers.size(); ++i) {
      if (launch_.buffers[i].name == name) return i;
      known += (known.empty() ? "" : ", ") + launch_.buffers[i].name;
    }
    node.refuse(
        fmt::format("there is no buffer '{}'; the buffers are {}", name, known.empty() ? "none" : known));
  }

  void buffer(const Node& node) {
    node.members({"name", "dtype", "shape", "init", "seed", "symbol"});
    LaunchBuffer b;
    b.path = node.path();
    b.name = node.at("name").text();
    for (const LaunchBuffer& other : launch_.buffers)
      if (other.name == b.name)
        node.at("name").refuse(fmt::format("the name of buffer '{}' is used twice", b.name));
    b.dtype = node.at("dtype").dtype();
    b.shape = node.at("shape").wholes<uint64_t>(1, 8, 1, uint64_t{1} << 32);
    unsigned __int128 bytes = static_cast<unsigned>(size_of(b.dtype));
    for (uint64_t extent : b.shape)
      if ((bytes *= extent) > kMostBytes)
        node.at("shape").refuse(fmt::format("the buffers have more than {} bytes in total", kMostBytes));
    if (auto symbol = node.find("symbol")) {
      b.symbol = symbol->text();
      b.content.kind = Content::Kind::kept;
    }
    if (auto init = node.find("init")) {
      if (init->json().is_object() && init->json().contains("struct"))
        structures_.emplace_back(launch_.buffers.size(), *init);
      else
        b.content = content(*init, b, false);
    }
    if (auto seed = node.find("seed")) {
      if (b.content.kind != Content::Kind::normal) seed->refuse("only \"init\": \"normal\" has a seed");
      b.content.seed = seed->whole(0, ~uint64_t{0});
    }
    launch_.buffers.push_back(std::move(b));
  }

  Content content(const Node& node, const LaunchBuffer& of, bool expected) const {
    Content c;
    const Json& json = node.json();
    const DType type = of.dtype;
    const size_t count = of.count();
    if (json.is_number()) {
      c.kind = Content::Kind::same;
      append_element(c.values, node, type);
    } else if (json.is_array()) {
      c.kind = Content::Kind::values;
      node.list(count, count);
      for (size_t i = 0; i < count; ++i) append_element(c.values, node[i], type);
    } else if (json.is_object() && json.contains("file")) {
      node.members({"file"});
      c.kind = Content::Kind::file;
      of_file(c, node.at("file"), of);
    } else if (json.is_object() && json.contains("formula")) {
      node.members({"formula"});
      c.kind = Content::Kind::formula;
      const Node formula = node.at("formula");
      std::vector<FormulaBuffer> buffers;
      for (const LaunchBuffer& b : launch_.buffers) buffers.push_back({b.name, b.shape});
      try {
        c.formula = std::make_shared<const Formula>(formula.text(), buffers, of.shape.size());
      } catch (const Error& e) {
        formula.refuse(e.what());
      }
    } else if (expected) {
      if (!json.is_object())
        node.refuse(
            R"(expected a number, a list, {"buffer": "name"}, {"file": "name"} or {"formula": "text"})");
      node.members({"buffer"});
      c.kind = Content::Kind::buffer;
      c.buffer = buffer_named(node.at("buffer"));
      if (launch_.buffers[c.buffer].count() != count)
        node.at("buffer").refuse(
            fmt::format("it has {} elements, not {}", launch_.buffers[c.buffer].count(), count));
    } else {
      c.kind = named_content(node);
    }
    return c;
  }

  // Checks that the contents of a file have the type and size of the buffer, and finds the end of the file's
  // header.
  void of_file(Content& c, const Node& node, const LaunchBuffer& of) const {
    c.file = folder_ / node.text();
    std::error_code error;
    const auto size = std::filesystem::file_size(c.file, error);
    if (error) node.refuse(fmt::format("{} cannot be read", c.file.string()));
    if (c.file.extension() == ".npy") {
      const NpyHeader h = npy_header(c.file);
      if (!npy_holds(h.type, of.dtype))
        node.refuse(fmt::format("{} has elements of type {}, but the buffer has {}, which is {}",
                                c.file.string(), h.type, name(of.dtype), npy_type(of.dtype)));
      if (h.shape != of.shape)
        node.refuse(fmt::format("{} has the shape [{}], innermost first, but the buffer has [{}]",
                                c.file.string(), fmt::join(h.shape, ", "), fmt::join(of.shape, ", ")));
      c.skipped = h.bytes;
    }
    if (size != c.skipped + of.bytes())
      node.refuse(fmt::format("{} has {} bytes, but the buffer has {}", c.file.string(), size - c.skipped,
                              of.bytes()));
  }

  void fill_structure(LaunchBuffer& b, const Node& node) const {
    node.members({"struct", "file"});
    b.content.kind = Content::Kind::structure;
    if (auto file = node.find("file")) of_file(b.content, *file, b);
    b.content.members = members(node.at("struct"), b.bytes(), uint64_t{1} << 32);
  }

  static Content::Kind named_content(const Node& node) {
    constexpr std::pair<std::string_view, Content::Kind> kinds[] = {{"zeros", Content::Kind::zeros},
                                                                    {"poison", Content::Kind::poison},
                                                                    {"iota", Content::Kind::iota},
                                                                    {"normal", Content::Kind::normal}};
    for (auto [name, kind] : kinds)
      if (node.json() == name) return kind;
    node.refuse(R"(expected "zeros", "poison", "iota", "normal", a number, a list, {"file": "name"}, )"
                R"({"formula": "text"} or {"struct": [...]})");
  }

  LaunchParameter parameter(const Node& node, bool inside) const {
    if (!node.json().is_object()) node.refuse("expected an object");
    LaunchParameter p;
    p.path = node.path();
    if (node.find("scalar"))
      scalar(p, node);
    else if (node.find("raw"))
      raw(p, node);
    else if (node.find("pointer"))
      pointer(p, node);
    else if (node.find("tensor_map"))
      tensor_map(p, node);
    else if (node.find("struct"))
      structure(p, node);
    else
      node.refuse(R"(it is a "scalar", a "pointer", a "tensor_map", "raw" or a "struct" of these)");
    if (auto at = node.find("at")) {
      if (!inside) at->refuse("only the members of a struct have an offset, \"at\"");
      p.at = static_cast<uint32_t>(at->whole(0, ~uint32_t{0}));
    } else if (inside) {
      node.at("at");
    }
    return p;
  }

  static void scalar(LaunchParameter& p, const Node& node) {
    node.members({"scalar", "value", "at"});
    p.scalar = true;
    append_element(p.value, node.at("value"), node.at("scalar").dtype());
  }

  void raw(LaunchParameter& p, const Node& node) const {
    node.members({"raw", "at"});
    const Node raw = node.at("raw");
    if (raw.json().is_object()) {
      raw.members({"file"});
      const std::string bytes = file_text((folder_ / raw.at("file").text()).string(), kMostParameterBytes);
      p.value.resize(bytes.size());
      std::memcpy(p.value.data(), bytes.data(), bytes.size());
    } else {
      std::string digits = raw.text();
      std::erase(digits, ' ');
      if (digits.size() % 2 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
        raw.refuse("expected bytes in hexadecimal, two digits each");
      for (size_t k = 0; k < digits.size(); k += 2)
        p.value.push_back(static_cast<std::byte>(std::stoi(digits.substr(k, 2), nullptr, 16)));
    }
    if (p.value.empty()) raw.refuse("it has no bytes");
  }

  void pointer(LaunchParameter& p, const Node& node) const {
    node.members({"pointer", "offset", "at"});
    p.kind = LaunchParameter::Kind::pointer;
    const Node to = node.at("pointer");
    if (to.json().is_null()) return;
    p.buffer = buffer_named(to);
    if (auto offset = node.find("offset")) p.offset = offset->whole(0, launch_.buffers[*p.buffer].bytes());
  }

  void tensor_map(LaunchParameter& p, const Node& node) const {
    node.members({"tensor_map", "offset", "dtype", "shape", "strides", "box", "im2col", "element_strides",
                  "swizzle", "interleave", "oob_fill", "l2_promotion", "overlaps", "at"});
    p.kind = LaunchParameter::Kind::tensor_map;
    p.buffer = buffer_named(node.at("tensor_map"));
    const LaunchBuffer& b = launch_.buffers[*p.buffer];
    if (auto offset = node.find("offset")) p.offset = offset->whole(0, b.bytes());
    TensorMapRecipe& recipe = p.map.recipe;
    recipe.dtype = b.dtype;
    if (auto type = node.find("dtype")) recipe.dtype = type->dtype();
    p.map.shape = b.shape;
    if (auto shape = node.find("shape"))
      p.map.shape = shape->wholes<uint64_t>(1, hopper::tensor_rank, 1, uint64_t{1} << 32);
    const size_t rank = p.map.shape.size();
    if (rank > hopper::tensor_rank)
      node.at("tensor_map")
          .refuse(fmt::format("a tensor map must have rank 1 to {}, not {}", hopper::tensor_rank, rank));
    if (auto strides = node.find("strides")) {
      p.map.strides = strides->wholes<uint64_t>(rank - 1, rank - 1, 0, uint64_t{1} << 40);
    } else {
      const auto packed = runtime::packed_strides(recipe.dtype, p.map.shape);
      p.map.strides.assign(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(rank - 1));
    }
    if (auto im2col = node.find("im2col")) {
      if (node.find("box")) node.at("box").refuse("an im2col map has channels and pixels instead of a box");
      p.map.im2col = corners(*im2col, rank);
      recipe.pixels = static_cast<uint32_t>(im2col->at("pixels").whole(1, 1024));
      recipe.box.assign(rank, 1);
      recipe.box[0] = static_cast<uint32_t>(im2col->at("channels").whole(1, hopper::box_extent));
    } else {
      recipe.box = node.at("box").wholes<uint32_t>(rank, rank, 1, hopper::box_extent);
    }
    recipe.element_strides.assign(rank, 1);
    if (auto s = node.find("element_strides"))
      recipe.element_strides = s->wholes<uint32_t>(rank, rank, 1, hopper::element_stride);
    if (auto swizzle = node.find("swizzle")) recipe.swizzle = swizzle->one_of<Swizzle>(4);
    if (auto by = node.find("interleave")) recipe.interleave = by->one_of<Interleave>(3);
    if (auto fill = node.find("oob_fill")) recipe.oob_fill = fill->one_of<OobFill>(2);
    if (auto l2 = node.find("l2_promotion")) recipe.l2_promotion = l2->one_of<L2Promotion>(4);
    if (auto overlaps = node.find("overlaps")) p.map.overlaps = overlaps->truth();
    p.map.address = p.offset;  // buffers are aligned as any map requires
    if (auto breach = runtime::breach(p.map)) {
      auto at = node.find(breach->member == "address" ? "offset" : breach->member.c_str());
      if (at && breach->index >= 0) (*at)[static_cast<size_t>(breach->index)].refuse(breach->text);
      (at ? *at : node).refuse(breach->text);
    }
    if (runtime::extent_bytes(p.map) + p.offset > b.bytes())
      node.refuse(fmt::format("the tensor has {} B from byte {}, but the buffer '{}' has {} B",
                              runtime::extent_bytes(p.map), p.offset, b.name, b.bytes()));
  }

  static runtime::Im2col corners(const Node& node, size_t rank) {
    node.members({"channels", "pixels", "lower", "upper"});
    if (rank < 3) node.refuse(fmt::format("an im2col map must have rank 3 to 5, not {}", rank));
    runtime::Im2col p;
    for (auto [name, to] : {std::pair{"lower", &p.lower}, std::pair{"upper", &p.upper}}) {
      const Node list = node.at(name);
      for (size_t i = 0; i < list.list(rank - 2, rank - 2); ++i) {
        const Json& corner = list[i].json();
        if (!corner.is_number_integer() || corner < -32768 || corner > 32767)
          list[i].refuse("expected a whole number from -32768 to 32767");
        to->push_back(corner.get<int>());
      }
    }
    return p;
  }

  void structure(LaunchParameter& p, const Node& node) const {
    node.members({"struct", "bytes", "at"});
    p.kind = LaunchParameter::Kind::structure;
    p.bytes = static_cast<uint32_t>(node.at("bytes").whole(1, kMostParameterBytes));
    p.members = members(node.at("struct"), p.bytes, 1024);
  }

  std::vector<LaunchParameter> members(const Node& list, uint64_t bytes, uint64_t most) const {
    std::vector<LaunchParameter> all;
    for (size_t i = 0; i < list.list(1, most); ++i) {
      LaunchParameter member = parameter(list[i], true);
      if (member.at + member.size() > bytes)
        list[i].refuse(
            fmt::format("{} B at byte {} do not fit in a struct of {} B", member.size(), member.at, bytes));
      all.push_back(std::move(member));
    }
    return all;
  }

  static Waiver waiver(const Node& node) {
    node.members({"kind", "line"});
    Waiver w;
    w.path = node.path();
    const Node kind = node.at("kind");
    const auto fault = runtime::fault_named(kind.text());
    if (!fault) {
      std::string known;
      for (int i = 0; i <= static_cast<int>(runtime::Fault::time_limit); ++i)
        known += fmt::format("{}\"{}\"", i ? ", " : "", runtime::name(static_cast<runtime::Fault>(i)));
      kind.refuse(fmt::format("'{}' is not a kind of finding; the kinds are {}", kind.text(), known));
    }
    w.kind = *fault;
    w.line = static_cast<uint32_t>(node.at("line").whole(1, ~uint32_t{0}));
    return w;
  }

  static SharedObject shared(const Node& node) {
    node.members({"name", "offset", "bytes", "stages"});
    SharedObject o;
    o.name = node.at("name").text();
    o.offset = static_cast<uint32_t>(node.at("offset").whole(0, hopper::shared_bytes));
    o.bytes = static_cast<uint32_t>(node.at("bytes").whole(1, hopper::shared_bytes));
    if (auto stages = node.find("stages"))
      o.stages = static_cast<uint32_t>(stages->whole(1, hopper::shared_bytes));
    return o;
  }

  void output(const Node& node) {
    node.members({"buffer", "print", "write", "equals", "tolerance", "relative"});
    LaunchOutput o;
    o.path = node.path();
    o.buffer = buffer_named(node.at("buffer"));
    const LaunchBuffer& b = launch_.buffers[o.buffer];
    if (auto print = node.find("print")) o.print = print->whole(1, b.count());
    if (auto write = node.find("write")) o.write = folder_ / write->text();
    if (auto equals = node.find("equals")) o.equals = content(*equals, b, true);
    for (auto [name, to] : {std::pair{"tolerance", &o.tolerance}, std::pair{"relative", &o.relative}})
      if (auto value = node.find(name)) {
        if (!o.equals) value->refuse("there is nothing to compare with; give \"equals\"");
        if ((*to = value->real()) < 0) value->refuse(fmt::format("{} is less than 0", *to));
      }
    if (!o.print && o.write.empty() && !o.equals)
      node.refuse(R"(nothing is done with it; give "print", "write" or "equals")");
    launch_.outputs.push_back(std::move(o));
  }

  Node root_;
  std::filesystem::path folder_;
  LaunchFile launch_;
  std::vector<std::pair<size_t, Node>> structures_;  // buffers with contents that may point to later buffers,
                                                     // and these contents
};

}  // namespace

LaunchFile launch_from_json(const std::string& text, const std::filesystem::path& name) {
  const Json json = parse_json(text, name.string(), true);
  return Reader(json, name).read();
}

}  // namespace ptxbuilder::command
