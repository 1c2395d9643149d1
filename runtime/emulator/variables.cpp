// Lays out the variables of a module: registers, and each memory space; and writes what globals start with.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <functional>

#include "runtime/emulator/decoder.h"

namespace ptxbuilder::runtime::emulator {

uint32_t to_number(std::string_view text) {
  uint32_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

uint64_t Decoder::size_of(const ptx::Declaration& d, const ptx::Declarator& name) {
  uint64_t size = 0;
  for (const std::string& q : d.qualifiers) {
    if (q == ".v2" || q == ".v4") size = q == ".v2" ? 2 : 4;
    if (auto type = type_named(std::string_view(q).substr(1)); type && q[0] == '.')
      size = std::max<uint64_t>(size, 1) * static_cast<uint64_t>(bytes(*type));
  }
  for (const std::string& extent : name.extents) {
    if (extent.empty()) return 0;
    ptx::Operand o;
    ptx::Module m = ptx::parse(fmt::format(".global .b8 x = {};", extent));
    size *= static_cast<uint64_t>(
        ptx::integer_value(*m.statements[0].declaration.names[0].initializer).value_or(0));
  }
  return size;
}

uint32_t Decoder::align_of(const ptx::Declaration& d) {
  // Behind .ptr, .align is that of what it points to.
  if (auto align = d.after(".align"); !align.empty() && !d.has(".ptr")) return to_number(align);
  ptx::Declarator plain;
  return std::max<uint32_t>(1, static_cast<uint32_t>(size_of(d, plain)));
}

// --- module scope ---

void Decoder::variables() {
  kernel_.shared_bytes = shared_reserved;
  for (const ptx::Statement& s : module_.statements) {
    if (s.kind == ptx::Statement::Kind::directive && s.directive.tokens[0] == ".file" &&
        s.directive.tokens.size() >= 3) {
      std::string path = s.directive.tokens[2];
      file_numbers_[to_number(s.directive.tokens[1])] = static_cast<uint16_t>(kernel_.files.size());
      path = path.substr(1, path.size() - 2);
      kernel_.files.push_back(path.substr(path.find_last_of('/') + 1));
    }
    if (s.kind == ptx::Statement::Kind::declaration) declare(s.declaration, 0);
  }
}

namespace {

void write_values(const ptx::Operand& o, uint64_t element, std::byte* to, uint64_t& at, uint64_t size,
                  const std::function<uint64_t(const ptx::Operand&, uint64_t)>& value) {
  if (o.kind == ptx::Operand::Kind::vector) {
    for (const ptx::Operand& part : o.parts) write_values(part, element, to, at, size, value);
    return;
  }
  uint64_t bits = value(o, element);
  if (at + element <= size) std::memcpy(to + at, &bits, element);
  at += element;
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

void Decoder::declare_global(const ptx::Declaration& d, bool constant) {
  for (const ptx::Declarator& name : d.names) {
    uint64_t size = size_of(d, name);
    ptx::Declarator one;
    const uint64_t element = std::max<uint64_t>(1, size_of(d, one));
    if (size == 0 && name.initializer) size = element * name.initializer->parts.size();
    Address at = memory_.allocate(size, name.name, align_of(d));
    allocations.push_back(at);
    scopes_[0].symbols[name.name] = {Symbol::Kind::address,      0, 0, false, Space::global, at,
                                     static_cast<uint32_t>(size)};
    std::byte* host = memory_.host(at, size, "initialise");
    std::memset(host, 0, size);
    uint64_t written = 0;
    if (name.initializer)
      write_values(*name.initializer, element, host, written, size,
                   [&](const ptx::Operand& o, uint64_t bytes) -> uint64_t {
                     if (o.kind == ptx::Operand::Kind::number && is_float_literal(o.text))
                       return float_bits(o.text, bytes);
                     if (auto value = ptx::integer_value(o)) return static_cast<uint64_t>(*value);
                     // sym, sym+4, generic(sym)+4
                     const ptx::Operand* base = &o;
                     int64_t offset = 0;
                     if (o.kind == ptx::Operand::Kind::binary && o.text == "+") {
                       base = &o.parts[0];
                       offset = ptx::integer_value(o.parts[1]).value_or(0);
                     }
                     if (base->kind == ptx::Operand::Kind::call && !base->parts.empty())
                       base = &base->parts[0];
                     const Symbol* symbol = find(base->text, 0);
                     return symbol ? symbol->value + static_cast<uint64_t>(offset) : 0;
                   });
    (void)constant;
  }
}

void Decoder::declare(const ptx::Declaration& d, size_t scope) {
  if (d.has(".reg")) {
    Type type = Type::none;
    for (const std::string& q : d.qualifiers)
      if (auto t = type_named(std::string_view(q).substr(1)); t && q[0] == '.') type = *t;
    const bool predicate = type == Type::pred;
    const uint32_t width = predicate ? 4 : static_cast<uint32_t>(bytes(type)) * 32;
    for (const ptx::Declarator& name : d.names) {
      const uint32_t count = name.count.empty() ? 1 : to_number(name.count);
      if (!predicate) next_register_ = align_up(next_register_, 32);
      for (uint32_t i = 0; i < count; ++i, next_register_ += width) {
        std::string full = name.count.empty() ? name.name : fmt::format("{}{}", name.name, i);
        kernel_.register_names[next_register_] = full;
        scopes_[scope].symbols[full] = {Symbol::Kind::reg,
                                        next_register_,
                                        static_cast<uint8_t>(predicate ? 0 : bytes(type)),
                                        predicate,
                                        Space::generic,
                                        0,
                                        0};
      }
    }
    return;
  }
  if (d.has(".global") || d.has(".const")) return declare_global(d, d.has(".const"));
  for (const ptx::Declarator& name : d.names) {
    const uint64_t size = size_of(d, name);
    Symbol symbol{Symbol::Kind::address, 0, 0, false, Space::local, 0, static_cast<uint32_t>(size)};
    if (d.has(".shared")) {
      symbol.space = Space::shared;
      const bool dynamic = size == 0;
      if (dynamic) {
        kernel_.dynamic.push_back(static_cast<uint32_t>(kernel_.shared.size()));
        kernel_.dynamic_align = std::max(kernel_.dynamic_align, align_of(d));
      } else {
        kernel_.shared_bytes = align_up(kernel_.shared_bytes, align_of(d));
      }
      symbol.value = dynamic ? 0 : kernel_.shared_bytes;
      kernel_.shared.push_back({name.name, symbol.value, size});
      kernel_.shared_bytes += static_cast<uint32_t>(size);
    } else {  // .local, and the .param of a call
      symbol.value = allocate_local(size, align_of(d));
    }
    scopes_[scope].symbols[name.name] = symbol;
  }
}

uint32_t Decoder::allocate_local(uint64_t size, uint32_t align) {
  kernel_.local_bytes = align_up(kernel_.local_bytes, std::max(align, 4u));
  uint32_t at = kernel_.local_bytes;
  kernel_.local_bytes += static_cast<uint32_t>(size);
  return at;
}

}  // namespace ptxbuilder::runtime::emulator
