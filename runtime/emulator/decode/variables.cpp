// Lays out the variables of a module, i.e. registers and each memory space, and writes the initial values of
// global variables.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <functional>
#include <optional>

#include "runtime/emulator/decode/decoder.h"

namespace ptxbuilder::runtime::emulator {

namespace {

// A bound above any meaningful size. It is small enough that products of extents do not overflow 64 bits.
constexpr uint64_t most_bytes = uint64_t{1} << 40;

std::optional<int64_t> number_in(std::string_view text) {
  ptx_text::Operand o;
  o.kind = ptx_text::Operand::Kind::number;
  o.text = text;
  return ptx_text::integer_value(o);
}

// Returns the size in bytes of one element of a declared type, which must not be a vector.
uint64_t scalar_bytes(const ptx_text::Declaration& d) {
  uint64_t size = 0;
  for (const std::string& q : d.qualifiers)
    if (auto type = type_named(std::string_view(q).substr(1)); type && q[0] == '.')
      size = static_cast<uint64_t>(bytes(*type));
  return size;
}

}  // namespace

uint32_t to_number(std::string_view text) {
  const int64_t value = number_in(text).value_or(0);
  return value < 0 || value > 0xffffffff ? 0xffffffff : static_cast<uint32_t>(value);
}

uint64_t Decoder::size_of(const ptx_text::Declaration& d, const ptx_text::Declarator& name) {
  uint64_t size = scalar_bytes(d) * (d.has(".v4") ? 4 : d.has(".v2") ? 2 : 1);
  for (const std::string& extent : name.extents) {
    if (extent.empty()) return 0;
    const auto count = number_in(extent);
    if (!count || *count < 1)
      ptx_text::fail(name.at,
                     fmt::format("the extent {} of {} is not a number of elements", extent, name.name));
    if (size && static_cast<uint64_t>(*count) > most_bytes / size)
      ptx_text::fail(name.at, fmt::format("{} has more than {} B", name.name, most_bytes));
    size *= static_cast<uint64_t>(*count);
  }
  return size;
}

uint32_t Decoder::align_of(const ptx_text::Declaration& d, const ptx_text::Declarator& name) {
  // After .ptr, .align specifies the alignment of the memory to which the parameter points, not of the
  // parameter.
  if (auto said = d.after(".align"); !said.empty() && !d.has(".ptr")) {
    const uint32_t align = to_number(said);
    if (!std::has_single_bit(align))
      ptx_text::fail(name.at, fmt::format("the alignment {} of {} is not a power of two", said, name.name));
    return align;
  }
  return std::max<uint32_t>(1, static_cast<uint32_t>(size_of(d, {})));
}

// --- module scope ---

void Decoder::variables() {
  kernel_.shared_bytes = shared_reserved;
  for (const ptx_text::Statement& s : module_.statements) {
    if (s.kind == ptx_text::Statement::Kind::directive && s.directive.tokens[0] == ".file" &&
        s.directive.tokens.size() >= 3) {
      std::string path = s.directive.tokens[2];
      file_numbers_[to_number(s.directive.tokens[1])] = static_cast<uint16_t>(kernel_.files.size());
      path = path.substr(1, path.size() - 2);
      kernel_.files.push_back(path.substr(path.find_last_of('/') + 1));
    }
    if (s.kind == ptx_text::Statement::Kind::directive && s.directive.tokens[0] == ".section")
      take_debug_strings(s.directive);
    if (s.kind == ptx_text::Statement::Kind::declaration) declare(s.declaration, 0);
  }
}

namespace {

// Calls `write` with each element of an initializer, in order.
void write_values(const ptx_text::Operand& o, const std::function<void(const ptx_text::Operand&)>& write) {
  if (o.kind != ptx_text::Operand::Kind::vector) return write(o);
  for (const ptx_text::Operand& part : o.parts) write_values(part, write);
}

uint64_t float_bits(std::string_view text, uint64_t bytes) {
  if (text.size() > 2 && text[0] == '0' &&
      (text[1] == 'f' || text[1] == 'F' || text[1] == 'd' || text[1] == 'D')) {
    uint64_t bits = 0;
    std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
    const bool single = text[1] == 'f' || text[1] == 'F';
    if (single && bytes == 8) {
      double wide = static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
      return std::bit_cast<uint64_t>(wide);
    }
    if (!single && bytes == 4)
      return std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
    return bits;
  }
  double value = std::strtod(std::string(text).c_str(), nullptr);
  return bytes == 8 ? std::bit_cast<uint64_t>(value) : std::bit_cast<uint32_t>(static_cast<float>(value));
}

bool is_float_literal(std::string_view text) {
  if (text.size() > 2 && text[0] == '0' && std::string_view("fFdD").find(text[1]) != std::string_view::npos)
    return true;
  return !(text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) &&
         text.find_first_of(".eE") != std::string_view::npos;
}

}  // namespace

// Returns the bits of one element of an initializer: a number, sym, sym+4 or generic(sym)+4.
uint64_t Decoder::initial_bits(const ptx_text::Operand& o, uint64_t width) {
  const bool negative = o.kind == ptx_text::Operand::Kind::unary && o.text == "-";
  const ptx_text::Operand& number = negative ? o.parts[0] : o;
  if (number.kind == ptx_text::Operand::Kind::number && is_float_literal(number.text))
    return float_bits(number.text, width) ^ (negative ? uint64_t{1} << (8 * width - 1) : 0);
  if (auto value = ptx_text::integer_value(o)) return static_cast<uint64_t>(*value);
  const ptx_text::Operand* base = &o;
  int64_t offset = 0;
  if (o.kind == ptx_text::Operand::Kind::binary && (o.text == "+" || o.text == "-")) {
    base = &o.parts[0];
    auto by = ptx_text::integer_value(o.parts[1]);
    if (!by) ptx_text::fail(o.parts[1].at, fmt::format("{} is not a constant", ptx_text::print(o.parts[1])));
    offset = o.text == "+" ? *by : -*by;
  }
  if (base->kind == ptx_text::Operand::Kind::call && base->text == "generic" && base->parts.size() == 1)
    base = &base->parts[0];
  if (base->kind != ptx_text::Operand::Kind::name)
    ptx_text::fail(base->at, fmt::format("the emulator does not support {} as an initial value",
                                         ptx_text::print(*base)));
  const Symbol* symbol = find(base->text, 0);
  if (symbol && symbol->kind == Symbol::Kind::address) return symbol->value + static_cast<uint64_t>(offset);
  if (const auto function = function_address(base->text)) return *function;
  if (functions_.contains(function_named(base->text))) return 0;  // the function has no body
  ptx_text::fail(base->at, fmt::format("{} is not declared", base->text));
}

void Decoder::declare_global(const ptx_text::Declaration& d) {
  for (const ptx_text::Declarator& name : d.names) {
    const uint64_t element = std::max<uint64_t>(1, scalar_bytes(d));
    uint64_t size = size_of(d, name), count = 0;
    if (name.initializer) write_values(*name.initializer, [&](const ptx_text::Operand&) { ++count; });
    if (size == 0 && name.initializer) size = element * count;
    if (count * element > size)
      ptx_text::fail(
          name.at, fmt::format("{} of {} B has {} initial values of {} B", name.name, size, count, element));
    Address at = memory_.allocate(size, name.name, align_of(d, name), d.has(".const"), device_);
    allocations.push_back(at);
    name_symbol(0, name,
                {Symbol::Kind::address, {}, 0, false, Space::global, at, static_cast<uint32_t>(size)});
    if (!name.initializer) continue;
    std::byte* to = memory_.host(at, size, "initialise");
    write_values(*name.initializer, [&](const ptx_text::Operand& o) {
      const uint64_t bits = initial_bits(o, element);
      std::memcpy(to, &bits, std::min<uint64_t>(element, sizeof bits));
      to += element;
    });
  }
}

void Decoder::declare_registers(const ptx_text::Declaration& d, size_t scope) {
  const bool predicate = d.has(".pred");
  const auto width = static_cast<uint8_t>(predicate ? 0 : scalar_bytes(d));
  if (!predicate && width == 0 && !d.names.empty())
    ptx_text::fail(d.names[0].at, fmt::format("the register {} has no type", d.names[0].name));
  if (const size_t parts = d.has(".v4") ? 4 : d.has(".v2") ? 2 : 0) return declare_vectors(d, scope, parts);
  Scope& here = scopes_[scope];
  for (const ptx_text::Declarator& name : d.names) {
    const bool fresh =
        name.count.empty()
            ? here.symbols.try_emplace(name.name, place_register(name.name, {0, width, predicate})).second
            : here.ranges.try_emplace(name.name, Range{to_number(name.count), width, predicate}).second;
    if (!fresh) ptx_text::fail(name.at, fmt::format("{} is declared twice", name.name));
  }
}

// Declares the parts of a .v2 or .v4 register as registers: %v.x or %v.r, %v.y or %v.g, and so on.
void Decoder::declare_vectors(const ptx_text::Declaration& d, size_t scope, size_t parts) {
  has_vectors_ = true;
  const Range range{0, static_cast<uint8_t>(scalar_bytes(d)), false};
  auto declare_one = [&](const std::string& name, ptx_text::Position at) {
    Scope& here = scopes_[scope];
    std::vector<std::string>& names = here.vectors[name];
    if (!names.empty()) ptx_text::fail(at, fmt::format("{} is declared twice", name));
    for (size_t k = 0; k < parts; ++k) {
      names.push_back(fmt::format("{}.{}", name, "xyzw"[k]));
      here.symbols[names.back()] = here.symbols[fmt::format("{}.{}", name, "rgba"[k])] =
          place_register(names.back(), range);
    }
  };
  constexpr uint32_t kMost = 4096;
  for (const ptx_text::Declarator& name : d.names) {
    if (name.count.empty()) {
      declare_one(name.name, name.at);
      continue;
    }
    const uint32_t count = to_number(name.count);
    if (count > kMost)
      ptx_text::fail(name.at, fmt::format("{}<{}>: the emulator supports up to {} registers of a vector type",
                                          name.name, name.count, kMost));
    for (uint32_t k = 0; k < count; ++k) declare_one(fmt::format("{}{}", name.name, k), name.at);
  }
}

Decoder::Symbol Decoder::place_register(const std::string& name, const Range& range) {
  // A register takes 32 times its width, once for each lane; a predicate takes one word.
  const uint32_t bytes_of_all = range.predicate ? 4 : range.bytes * 32u;
  if (!range.predicate) next_register_ = align_up(next_register_, 32);
  if (next_register_ > most_registers - bytes_of_all)
    throw Error(
        fmt::format("ptx: the kernel {} uses more registers than the emulator has room for", kernel_.name));
  const Register at{static_cast<int32_t>(next_register_)};
  next_register_ += bytes_of_all;
  kernel_.register_names[at] = name;
  placed_registers_.push_back({at, range.bytes});
  return {Symbol::Kind::reg, at, range.bytes, range.predicate, Space::generic, 0, 0};
}

void Decoder::declare(const ptx_text::Declaration& d, size_t scope) {
  if (d.has(".reg")) return declare_registers(d, scope);
  if (d.has(".global") || d.has(".const")) return declare_global(d);
  for (const ptx_text::Declarator& name : d.names) {
    const uint64_t size = size_of(d, name);
    Symbol symbol{Symbol::Kind::address, {}, 0, false, Space::local, 0, static_cast<uint32_t>(size)};
    if (d.has(".shared")) {
      const uint32_t align = align_of(d, name);
      symbol.space = Space::shared;
      const bool dynamic = size == 0;
      if (dynamic) {
        kernel_.dynamic.push_back(static_cast<uint32_t>(kernel_.shared.size()));
        kernel_.dynamic_align = std::max(kernel_.dynamic_align, align);
      } else {
        const uint64_t at = (uint64_t{kernel_.shared_bytes} + align - 1) / align * align;
        if (at + size > shared_reserved + shared_limit)
          ptx_text::fail(name.at,
                         fmt::format("with the {} B of {}, static shared memory has {} B, but a CTA has {} B",
                                     size, name.name, at + size - shared_reserved, shared_limit));
        kernel_.shared_bytes = static_cast<uint32_t>(at);
      }
      symbol.value = dynamic ? 0 : kernel_.shared_bytes;
      kernel_.shared.push_back({name.name, symbol.value, size});
      kernel_.shared_bytes += static_cast<uint32_t>(size);
    } else {  // .local, or a .param that is an argument of a call
      symbol.value = allocate_local(d, name);
      symbol.in_frame = kernel_.frames_apart() && scope != 0;
    }
    name_symbol(scope, name, symbol);
  }
}

void Decoder::name_symbol(size_t scope, const ptx_text::Declarator& name, const Symbol& symbol) {
  if (!scopes_[scope].symbols.try_emplace(name.name, symbol).second)
    ptx_text::fail(name.at, fmt::format("{} is declared twice", name.name));
}

uint32_t Decoder::allocate_local(const ptx_text::Declaration& d, const ptx_text::Declarator& name) {
  const uint64_t size = size_of(d, name), align = std::max(align_of(d, name), 4u),
                 at = (kernel_.local_bytes + align - 1) / align * align;
  if (at + size > hopper::local_bytes)
    ptx_text::fail(
        name.at,
        fmt::format("with the {} B of {}, the thread has {} B of local memory, but only {} B are possible",
                    size, name.name, at + size, hopper::local_bytes));
  kernel_.local_bytes = static_cast<uint32_t>(at + size);
  return static_cast<uint32_t>(at);
}

void Decoder::declare_parameter(const ptx_text::Declaration& d, const ptx_text::Declarator& name) {
  const uint64_t size = size_of(d, name), align = align_of(d, name),
                 at = (kernel_.parameter_bytes + align - 1) / align * align;
  if (at + size > hopper::parameter_bytes)
    ptx_text::fail(
        name.at,
        fmt::format("with the {} B of {}, the kernel has {} B of parameters, but only {} B are possible",
                    size, name.name, at + size, hopper::parameter_bytes));
  const auto offset = static_cast<uint32_t>(at), length = static_cast<uint32_t>(size);
  scopes_.back().symbols[name.name] = {Symbol::Kind::address, {}, 0, false, Space::param, offset, length};
  kernel_.parameters.push_back({name.name, offset, length});
  kernel_.parameter_bytes = offset + length;
}

}  // namespace ptxbuilder::runtime::emulator
