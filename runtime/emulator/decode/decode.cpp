// The functions of Decode that decode the operands and modifiers of one instruction.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include "runtime/emulator/decode/decoder.h"

namespace ptxbuilder::runtime::emulator {
namespace {

struct TypeRow {
  std::string_view name;
  Type type;
  int bytes;
};

constexpr std::array<TypeRow, 28> types = {{
    {"pred", Type::pred, 0},     {"b8", Type::b8, 1},       {"u8", Type::u8, 1},
    {"s8", Type::s8, 1},         {"b16", Type::b16, 2},     {"u16", Type::u16, 2},
    {"s16", Type::s16, 2},       {"f16", Type::f16, 2},     {"bf16", Type::bf16, 2},
    {"b32", Type::b32, 4},       {"u32", Type::u32, 4},     {"s32", Type::s32, 4},
    {"f32", Type::f32, 4},       {"tf32", Type::tf32, 4},   {"f16x2", Type::f16x2, 4},
    {"bf16x2", Type::bf16x2, 4}, {"u16x2", Type::u16x2, 4}, {"s16x2", Type::s16x2, 4},
    {"b64", Type::b64, 8},       {"u64", Type::u64, 8},     {"s64", Type::s64, 8},
    {"f64", Type::f64, 8},       {"f32x2", Type::f32x2, 8}, {"b128", Type::b128, 16},
    {"e4m3", Type::e4m3, 1},     {"e5m2", Type::e5m2, 1},   {"e4m3x2", Type::e4m3x2, 2},
    {"e5m2x2", Type::e5m2x2, 2},
}};

std::optional<uint64_t> literal_bits(const ptx_text::Operand& o, Type type) {
  const bool negative = o.kind == ptx_text::Operand::Kind::unary && o.text == "-";
  const ptx_text::Operand& number = negative ? o.parts[0] : o;
  if (number.kind == ptx_text::Operand::Kind::number) {
    std::string_view text = number.text;
    const bool hex_float =
        text.size() > 2 && text[0] == '0' && std::string_view("fFdD").find(text[1]) != std::string_view::npos;
    const bool decimal = !hex_float && !(text.size() > 1 && (text[1] == 'x' || text[1] == 'X')) &&
                         text.find_first_of(".eE") != std::string_view::npos;
    if (hex_float || decimal ||
        (is_float(type) && bytes(type) >= 4 && type != Type::f16x2 && type != Type::bf16x2)) {
      double value = 0;
      uint64_t bits = 0;
      if (hex_float) {
        std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
        const bool single = text[1] == 'f' || text[1] == 'F';
        if (single && bytes(type) == 4 && !negative) return bits;  // preserves the bits of a NaN
        if (!single && bytes(type) == 8 && !negative) return bits;
        value = single ? static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)))
                       : std::bit_cast<double>(bits);
      } else if (!decimal && text.size() > 1 && (text[1] == 'x' || text[1] == 'X')) {
        auto i = ptx_text::integer_value(o);
        return i ? std::optional<uint64_t>(static_cast<uint64_t>(*i)) : std::nullopt;
      } else {
        value = std::strtod(std::string(text).c_str(), nullptr);
      }
      if (negative) value = -value;
      return bytes(type) == 8 ? std::bit_cast<uint64_t>(value)
                              : std::bit_cast<uint32_t>(static_cast<float>(value));
    }
  }
  if (auto value = ptx_text::integer_value(o)) return static_cast<uint64_t>(*value);
  return std::nullopt;
}

}  // namespace

int bytes(Type type) {
  for (const TypeRow& row : types)
    if (row.type == type) return row.bytes;
  return 0;
}

std::optional<Type> type_named(std::string_view name) {
  for (const TypeRow& row : types)
    if (row.name == name) return row.type;
  return std::nullopt;
}

bool is_signed(Type t) {
  return t == Type::s8 || t == Type::s16 || t == Type::s32 || t == Type::s64 || t == Type::s16x2;
}

bool is_float(Type t) {
  switch (t) {
    case Type::f16:
    case Type::bf16:
    case Type::f32:
    case Type::tf32:
    case Type::f64:
    case Type::f16x2:
    case Type::bf16x2:
    case Type::f32x2:
    case Type::e4m3:
    case Type::e5m2:
    case Type::e4m3x2:
    case Type::e5m2x2:
      return true;
    default:
      return false;
  }
}

const DecodeTable& decode_table() {
  static const DecodeTable table = [] {
    DecodeTable t;
    for (auto add : {add_integer,  add_bits,          add_float,  add_compare,   add_convert, add_move,
                     add_memory,   add_atomic,        add_async,  add_control,   add_lanes,   add_barrier,
                     add_mbarrier, add_copy,          add_tensor, add_tensormap, add_matrix,  add_mma,
                     add_wgmma,    add_tensor_memory, add_video,  add_wmma})
      add(t);
    return t;
  }();
  return table;
}

namespace {

std::vector<std::string_view> words_behind_first(std::string_view mnemonic) {
  std::vector<std::string_view> words = ptx_text::split_opcode(mnemonic);
  words.erase(words.begin());
  return words;
}

}  // namespace

Decode::Decode(Decoder& the_decoder, const ptx_text::Instruction& the_text, const isa::Recognised& the_row,
               Instruction& the_out, size_t the_scope)
    : text(the_text),
      row(the_row),
      words(words_behind_first(the_text.opcode)),
      decoder(the_decoder),
      scope(the_scope),
      out_(the_out) {}

void Decode::reject(const std::string& why) const {
  ptx_text::fail(text.operands.empty() ? ptx_text::Position{} : text.operands[0].at,
                 fmt::format("{}: {}", text.opcode, why));
}

std::string_view Decode::one_of(std::initializer_list<std::string_view> any) const {
  for (std::string_view word : any)
    if (has(word)) return word;
  return {};
}

Type Decode::type_or(Type otherwise, size_t n) const {
  for (std::string_view word : words)
    if (const auto named = type_named(word); named && n-- == 0) return *named;
  return otherwise;
}

Type Decode::type(size_t n) const {
  const Type type = type_or(Type::none, n);
  if (type == Type::none) refuse("it names a type that is not on sm_90a");
  return type;
}

Register Decode::source(const ptx_text::Operand& o, Type type) {
  const auto width = static_cast<uint32_t>(bytes(type));
  if (o.kind == ptx_text::Operand::Kind::name) {
    if (const Decoder::Symbol* symbol = decoder.find(o.text, scope)) {
      if (symbol->in_frame) refuse(fmt::format("the address of {} is not a constant here", o.text));
      if (symbol->kind == Decoder::Symbol::Kind::address) return decoder.constant(symbol->value, width);
      if (symbol->predicate != (type == Type::pred) || symbol->bytes != width)
        refuse(fmt::format("{} has {} bits, but must have {}", o.text,
                           symbol->predicate ? 1 : 8 * symbol->bytes, type == Type::pred ? 1 : 8 * width));
      reads.push_back(symbol->at);
      return symbol->at;
    }
    if (o.text == "WARP_SZ") return decoder.constant(32, width);
    if (const SpecialRegister* special = special_register(o.text)) return decoder.special(*special, width);
    if (o.text.size() == 1 && o.text == "_") refuse("_ is not a source");
    if (const auto function = decoder.function_address(o.text)) return decoder.constant(*function, width);
    ptx_text::fail(o.at, fmt::format("{} is not declared", o.text));
  }
  if (o.kind == ptx_text::Operand::Kind::binary && o.text == "+" &&
      o.parts[0].kind == ptx_text::Operand::Kind::name) {  // sym+4
    const Decoder::Symbol* symbol = decoder.find(o.parts[0].text, scope);
    auto offset = ptx_text::integer_value(o.parts[1]);
    if (symbol && symbol->kind == Decoder::Symbol::Kind::address && offset && !symbol->in_frame)
      return decoder.constant(symbol->value + static_cast<uint64_t>(*offset), width);
  }
  if (auto bits = literal_bits(o, type)) return decoder.constant(*bits, width);
  refuse(fmt::format("{} is not an operand of this width", ptx_text::print(o)));
}

Register Decode::sink(const ptx_text::Operand& o, Type type) {
  return o.is_name("_") ? no_register : destination(o, type);
}

Register Decode::destination(const ptx_text::Operand& o, Type type) {
  if (o.is_name("_")) refuse("the result needs a register");
  const Decoder::Symbol* symbol =
      o.kind == ptx_text::Operand::Kind::name ? decoder.find(o.text, scope) : nullptr;
  if (!symbol || symbol->kind != Decoder::Symbol::Kind::reg)
    ptx_text::fail(o.at, fmt::format("{} is not a register", ptx_text::print(o)));
  if (symbol->predicate != (type == Type::pred) || symbol->bytes != bytes(type))
    refuse(fmt::format("{} has {} bits, but must have {}", o.text, symbol->predicate ? 1 : 8 * symbol->bytes,
                       type == Type::pred ? 1 : 8 * bytes(type)));
  writes.push_back(symbol->at);
  return symbol->at;
}

Predicate Decode::predicate(const ptx_text::Operand& o) {
  const bool negated = o.kind == ptx_text::Operand::Kind::unary && o.text == "!";
  return {source(negated ? o.parts[0] : o, Type::pred), negated};
}

uint8_t Decode::register_bytes(const ptx_text::Operand& o) const {
  const Decoder::Symbol* symbol =
      o.kind == ptx_text::Operand::Kind::name ? decoder.find(o.text, scope) : nullptr;
  return symbol && symbol->kind == Decoder::Symbol::Kind::reg ? symbol->bytes : 0;
}

WideRegister Decode::wide(const ptx_text::Operand& o, Type type, bool writes_it) {
  auto width = static_cast<uint8_t>(bytes(type));
  if (const uint8_t there = register_bytes(o); there > width && there <= 8) {
    width = there;
    type = there == 2 ? Type::b16 : there == 4 ? Type::b32 : Type::b64;
  }
  return {writes_it ? destination(o, type) : source(o, type), width};
}

int64_t Decode::immediate(size_t i) {
  auto value = ptx_text::integer_value(operand(i));
  if (!value) refuse(fmt::format("{} is not a constant", ptx_text::print(operand(i))));
  return *value;
}

uint32_t Decode::label(const ptx_text::Operand& o) const {
  auto at = decoder.find_label(o.text, scope);
  if (!at) ptx_text::fail(o.at, fmt::format("there is no label {}", ptx_text::print(o)));
  return *at;
}

AddressOperand Decode::address(const ptx_text::Operand& o, size_t part, Space* of_symbol) {
  // Addresses wrap around at 64 bits, like sums in a register.
  auto sum = [](int64_t a, uint64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) + b); };
  const ptx_text::Operand* inside = &o;
  if (o.kind == ptx_text::Operand::Kind::address) {
    if (part >= o.parts.size()) refuse("the address has too few parts");
    if (!o.text.empty() && !text.opcode.starts_with("ld."))
      reject(fmt::format("{} can only follow the addresses of ld", o.text));
    inside = &o.parts[part];
  }
  AddressOperand a;
  const ptx_text::Operand* base = inside;
  if (inside->kind == ptx_text::Operand::Kind::binary && (inside->text == "+" || inside->text == "-")) {
    auto offset = ptx_text::integer_value(inside->parts[1]);
    if (!offset) refuse(fmt::format("{} is not a constant offset", ptx_text::print(inside->parts[1])));
    a.displacement = inside->text == "+" ? *offset : sum(0, -static_cast<uint64_t>(*offset));
    base = &inside->parts[0];
  }
  if (auto absolute = ptx_text::integer_value(*base)) {
    a.displacement = sum(a.displacement, static_cast<uint64_t>(*absolute));
    return a;
  }
  const Decoder::Symbol* symbol =
      base->kind == ptx_text::Operand::Kind::name ? decoder.find(base->text, scope) : nullptr;
  if (!symbol) ptx_text::fail(base->at, fmt::format("{} is not declared", ptx_text::print(*base)));
  if (symbol->kind == Decoder::Symbol::Kind::address) {
    if (of_symbol) *of_symbol = symbol->space;
    a.displacement = sum(a.displacement, symbol->value);
    if (symbol->in_frame) {
      a.base = decoder.kernel_.frame;
      a.base_bytes = 8;
    }
  } else {
    if (symbol->bytes != 4 && symbol->bytes != 8)
      refuse(fmt::format("{} is not a register for an address", base->text));
    a.base = symbol->at;
    needed.push_back(symbol->at);
    a.base_bytes = symbol->bytes;
  }
  return a;
}

void Decode::passes(Flow how, const std::vector<Register>& registers) {
  flow = how;
  for (Register r : registers) {
    passed.push_back(r);
    if (auto at = std::find(reads.begin(), reads.end(), r); at != reads.end()) reads.erase(at);
  }
}

void Decode::needs(Register r) {
  if (auto at = std::find(reads.begin(), reads.end(), r); at != reads.end()) {
    reads.erase(at);
    needed.push_back(r);
  }
}

void Decode::needs_all() {
  needed.insert(needed.end(), reads.begin(), reads.end());
  reads.clear();
}

std::optional<uint64_t> Decode::in_frame(const ptx_text::Operand& o) const {
  const bool sum = o.kind == ptx_text::Operand::Kind::binary && o.text == "+";
  const ptx_text::Operand& base = sum ? o.parts[0] : o;
  const auto offset = sum ? ptx_text::integer_value(o.parts[1]) : std::optional<int64_t>(0);
  if (base.kind != ptx_text::Operand::Kind::name || !offset) return std::nullopt;
  const Decoder::Symbol* symbol = decoder.find(base.text, scope);
  if (!symbol || !symbol->in_frame) return std::nullopt;
  return symbol->value + static_cast<uint64_t>(*offset);
}

Decode::Parts Decode::parts(const ptx_text::Operand& o) {
  if (o.kind != ptx_text::Operand::Kind::vector) return {&o};
  Parts list;
  for (const ptx_text::Operand& part : o.parts) list.push_back(&part);
  return list;
}

std::vector<Register> Decode::sources(const Parts& parts, Type type) {
  std::vector<Register> registers;
  for (const ptx_text::Operand* o : parts) registers.push_back(source(*o, type));
  return registers;
}

std::vector<Register> Decode::destinations(const Parts& parts, Type type) {
  std::vector<Register> registers;
  for (const ptx_text::Operand* o : parts) registers.push_back(destination(*o, type));
  return registers;
}

std::vector<Register> Decode::sinks(const Parts& parts, Type type) {
  std::vector<Register> registers;
  for (const ptx_text::Operand* o : parts) registers.push_back(sink(*o, type));
  return registers;
}

RegisterList Decode::list(const std::vector<Register>& registers) {
  std::vector<Register>& lists = decoder.kernel_.lists;
  const RegisterList list{static_cast<uint32_t>(lists.size()), static_cast<uint32_t>(registers.size())};
  lists.insert(lists.end(), registers.begin(), registers.end());
  return list;
}

}  // namespace ptxbuilder::runtime::emulator
