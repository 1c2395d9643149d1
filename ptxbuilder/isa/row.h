// Defines rows. A row describes one PTX instruction with the manual's syntax line, in which operands are
// typed holes. Everything else is derived from this line.
//
//   "mbarrier.try_wait.parity.shared::cta.b64 {done:=pred}, [{bar:smem}], {parity:u32};"
//
// A hole is {name:class} for an operand that is read, {name:=class} for an operand that is written, and
// {name:+class} for an operand that is read and written. A later {name} repeats the operand. `{{` and `}}`
// stand for braces. A class may be a list, such as f32x4, which is printed in braces. The class of an
// immediate bounds its values, as in imm<24..256/8> (smallest, greatest, step) or imm<1..8*2>, which allows
// 1, 2, 4 and 8. A scalar integer or predicate that is read may be a number instead of a register. Bounds on
// that number follow the class, as in u32<0..15>; b32<> does not allow numbers.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ptxbuilder/isa/target.h"

namespace ptxbuilder::isa {

// The class of an operand is its type. Addresses have a class for each state space. smem and cluster are
// 32-bit addresses in shared::cta and shared::cluster, and tmem is a 32-bit address in tensor memory. gmem is
// a 64-bit global address, tmap is the 64-bit generic address of a tensor map, and local and constant are
// 64-bit addresses in local and constant memory. b8 is an 8-bit register, which a few cvt instructions need.
// All other instructions use the low half of a b16 for 8-bit values. `name` is the name of a label, a
// function or a parameter, and `names` are the names in the parentheses of a call. Rows with `name` or
// `names` are used only for reading PTX, and have no call in C++.
enum class Class : uint8_t {
  pred,
  b16,
  u16,
  s16,
  f16,
  bf16,
  b32,
  u32,
  s32,
  f32,
  b64,
  u64,
  s64,
  f64,
  smem,
  cluster,
  gmem,
  generic,
  local,
  constant,
  tmap,
  tmem,
  b128,
  b8,
  imm,
  name,
  names
};

std::string_view name(Class cls);

// Returns the register type in the declaration of an operand of this class, such as ".pred" or ".b32".
// Returns "" for imm.
std::string_view register_type(Class cls);

// Returns the letter of the class's inline-asm constraint (LLVM Language Reference, "Supported Constraint
// Code List: NVPTX").
char constraint(Class cls);

// Determines whether an instruction reads an operand, writes it, or both.
enum class Access : uint8_t { read, write, read_write };

// One operand of an instruction, as described by its hole in the syntax.
struct Operand {
  std::string_view name;
  Class cls = Class::pred;
  Access access = Access::read;
  int count = 1;      // number of registers in a list; 1 for a single operand
  bool list = false;  // true if the operand is printed in braces
  // The bounds of an immediate, or of a number that replaces a register. If numbers are not allowed, `least`
  // exceeds `greatest`.
  int64_t least = 0, greatest = -1, step = 1;
  bool doubles = false;  // true if each allowed number is twice the previous one

  constexpr bool reads() const { return access != Access::write; }
  constexpr bool writes() const { return access != Access::read; }
  constexpr bool takes_numbers() const { return least <= greatest; }
  // Returns whether the operand may be the number `value`.
  constexpr bool takes_number(int64_t value) const {
    if (value < least || value > greatest) return false;
    if (doubles) return value % least == 0 && std::has_single_bit(static_cast<uint64_t>(value / least));
    return step == 1 || (value - least) % step == 0;
  }
};

// Determines how the compiler may transform an instruction.
enum class Effect : uint8_t {
  pure,    // results depend only on operands: may be moved, merged or dropped
  memory,  // synchronizes, or accesses memory or named registers: must not be moved or duplicated
};

// A position in the syntax that an operand fills.
struct Hole {
  size_t operand = 0;         // index of the operand
  size_t begin = 0, end = 0;  // positions, including the braces
};

// The operands of a row, and the holes of its syntax that they fill.
struct Operands {
  std::array<Operand, 16> items = {};
  size_t count = 0;
  std::array<Hole, 32> holes = {};  // in the order in which they occur in the text
  size_t hole_count = 0;

  constexpr const Operand* begin() const { return items.data(); }
  constexpr const Operand* end() const { return items.data() + count; }
  constexpr const Operand& operator[](size_t i) const { return items[i]; }
  constexpr size_t size() const { return count; }

  // Returns the index of the operand with this name, or size() if there is none.
  constexpr size_t find(std::string_view name) const {
    size_t i = 0;
    while (i < count && items[i].name != name) ++i;
    return i;
  }
};

// Finds the holes of a syntax line. parse() throws a `const char*` that describes the mistake. The library's
// rows are parsed at compile time, so a mistake in a row is a compile error. parse_at() is for text that is
// known only at run time. The classes `name` and `names` are allowed only in rows for reading PTX.
enum class Names : uint8_t { none, some };
constexpr Operands parse(std::string_view syntax, Names names = Names::none);
Operands parse_at(std::string_view syntax, Where where);  // throws Error

// Describes targets that support an instruction in an earlier .version than the other targets.
struct EarlyFloor {
  int ptx_version = 0;
  Targets targets = {};

  friend constexpr bool operator==(const EarlyFloor&, const EarlyFloor&) = default;
};

// A PTX instruction: its syntax, its requirements and its effect.
struct Row {
  std::string_view name;    // name of the C++ function, such as the mnemonic with underscores instead of dots
  std::string_view syntax;  // one instruction, ending in a semicolon
  Effect effect = Effect::memory;
  int ptx_version = 0;  // the lowest .version, times ten
  Targets targets = Targets::all();
  // The LLVM intrinsic that prints this instruction, if it is preferred to asm.
  std::string_view intrinsic = {};
  EarlyFloor early = {};
  Operands operands = parse(syntax);

  // Returns the mnemonic, such as "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16".
  constexpr std::string_view mnemonic() const {
    size_t end = syntax.find_first_of(" ;");
    return syntax.substr(0, end);
  }
  // Returns whether the instruction has a result or an effect. An instruction with neither could be omitted.
  constexpr bool does_something() const {
    for (const Operand& o : operands)
      if (o.writes()) return true;
    return effect == Effect::memory;
  }
  // Returns the lowest .version, times ten, in which the target supports the instruction.
  constexpr int version_on(Sm sm) const { return early.targets.has(sm) ? early.ptx_version : ptx_version; }
  // Returns whether a number may replace the register of an integer or predicate operand. A number is not
  // allowed if registers hold packed numbers, if the instruction compares bf16 or uses random bits, or for
  // stackrestore.
  constexpr bool takes_numbers() const {
    const std::string_view all = mnemonic();
    if (all.starts_with("cvt.rs.") || all.starts_with("stackrestore.")) return false;
    if (all.starts_with("set") && all.ends_with(".bf16")) return false;
    for (size_t from = 0; from < all.size();) {  // ".f16x2" and ".e4m3x2" are packed; ".x2" is not
      size_t to = from;
      while (to < all.size() && all[to] != '.') ++to;
      const std::string_view part = all.substr(from, to - from);
      if (part.size() > 2 && part.ends_with("x2") && part[0] >= 'a') return false;
      from = to + 1;
    }
    return true;
  }
};

// Returns a description of the numbers that an operand allows, such as "from 24 to 256 in steps of 8". The
// operand must allow at least one number.
std::string bounds_text(const Operand& operand);

// Returns a complete PTX module for `target` and `ptx_version`, with one kernel that contains only this
// instruction.
std::string standalone_module(const Row& row, const Target& target, int ptx_version);

// ---- The parser is in this header because rows are parsed at compile time ----

namespace detail {

struct ClassName {
  std::string_view name;
  Class cls;
};

inline constexpr std::array kClasses = {
    ClassName{"pred", Class::pred},   ClassName{"b16", Class::b16},
    ClassName{"u16", Class::u16},     ClassName{"s16", Class::s16},
    ClassName{"f16", Class::f16},     ClassName{"bf16", Class::bf16},
    ClassName{"b32", Class::b32},     ClassName{"u32", Class::u32},
    ClassName{"s32", Class::s32},     ClassName{"f32", Class::f32},
    ClassName{"b64", Class::b64},     ClassName{"u64", Class::u64},
    ClassName{"s64", Class::s64},     ClassName{"f64", Class::f64},
    ClassName{"smem", Class::smem},   ClassName{"cluster", Class::cluster},
    ClassName{"gmem", Class::gmem},   ClassName{"generic", Class::generic},
    ClassName{"tmap", Class::tmap},   ClassName{"imm", Class::imm},
    ClassName{"local", Class::local}, ClassName{"constant", Class::constant},
    ClassName{"tmem", Class::tmem},   ClassName{"b128", Class::b128},
    ClassName{"b8", Class::b8},       ClassName{"name", Class::name},
    ClassName{"names", Class::names},
};

// Replaces std::string_view::find, which compares a pointer to null. If the text is in an inline variable,
// this comparison is not a constant expression under GCC's -fsanitize=undefined.
constexpr size_t find(std::string_view text, char c, size_t from = 0) {
  while (from < text.size() && text[from] != c) ++from;
  return from < text.size() ? from : std::string_view::npos;
}

constexpr int64_t parse_integer(std::string_view text) {
  bool negative = text.starts_with('-');
  std::string_view digits = text.substr(negative);
  if (digits.empty()) throw "a number is missing in a hole";
  int64_t value = 0;
  for (char c : digits) {
    if (c < '0' || c > '9') throw "a number in a hole has a character that is not a digit";
    value = value * 10 + (c - '0');
  }
  return negative ? -value : value;
}

// Returns the number of bits of an integer class, or 0 for other classes.
constexpr int integer_bits(Class cls) {
  switch (cls) {
    case Class::b8:
      return 8;
    case Class::b16:
    case Class::u16:
    case Class::s16:
      return 16;
    case Class::b32:
    case Class::u32:
    case Class::s32:
      return 32;
    case Class::b64:
    case Class::u64:
    case Class::s64:
      return 64;
    default:
      return 0;
  }
}

// Sets the range of numbers that fit in the bits of a class, from the lowest signed number to the greatest
// unsigned number.
constexpr void set_bounds_of_class(Operand& operand) {
  const int bits = integer_bits(operand.cls);
  if (operand.cls == Class::pred) {
    operand.least = 0, operand.greatest = 1;  // the constants that PTX allows for predicates
  } else if (bits == 64) {
    operand.least = INT64_MIN, operand.greatest = INT64_MAX;
  } else if (bits > 0) {
    operand.least = -(int64_t{1} << (bits - 1)), operand.greatest = (int64_t{1} << bits) - 1;
  }
}

// Parses bounds such as "24..256/8" or "1..8*2".
constexpr void parse_bounds(std::string_view text, Operand& operand) {
  size_t dots = find(text, '.');
  if (dots == std::string_view::npos || !text.substr(dots).starts_with(".."))
    throw "bounds are <least..greatest> or <least..greatest/step>";
  operand.doubles = text.ends_with("*2");
  if (operand.doubles) text.remove_suffix(2);
  size_t slash = find(text, '/');
  operand.least = parse_integer(text.substr(0, dots));
  operand.greatest =
      parse_integer(text.substr(dots + 2, slash == std::string_view::npos ? slash : slash - dots - 2));
  if (slash != std::string_view::npos) operand.step = parse_integer(text.substr(slash + 1));
  if (operand.step < 1) throw "a step is at least 1";
  if (operand.doubles && operand.least < 1) throw "a least value that doubles is at least 1";
  if (operand.least > operand.greatest) throw "the least value is above the greatest";
}

constexpr Operand parse_hole(std::string_view hole) {
  Operand operand;
  size_t colon = find(hole, ':');
  if (colon == std::string_view::npos || colon == 0)
    throw "a hole needs a name and, the first time, a class: {name:class}";
  operand.name = hole.substr(0, colon);
  std::string_view rest = hole.substr(colon + 1);
  if (rest.starts_with('=')) operand.access = Access::write;
  if (rest.starts_with('+')) operand.access = Access::read_write;
  if (operand.access != Access::read) rest.remove_prefix(1);
  const size_t angle = find(rest, '<');
  const bool bounded = angle < rest.size() && rest.ends_with('>');
  std::string_view bounds;
  if (bounded) {
    if (operand.access != Access::read) throw "an operand that is written cannot have bounds";
    bounds = rest.substr(angle + 1, rest.size() - angle - 2);
    rest = rest.substr(0, angle);
  }
  if (size_t x = rest.rfind('x'); x != std::string_view::npos) {
    operand.list = true;
    operand.count = static_cast<int>(parse_integer(rest.substr(x + 1)));
    if (operand.count < 1) throw "a list holds at least one register";
    rest = rest.substr(0, x);
  }
  for (const ClassName& c : kClasses) {
    if (c.name != rest) continue;
    operand.cls = c.cls;
    if (c.cls == Class::imm && (bounds.empty() || operand.list))
      throw "an immediate needs bounds: imm<least..greatest> or imm<least..greatest/step>";
    if (operand.access == Access::read && !operand.list && !bounded) set_bounds_of_class(operand);
    if (bounded && !bounds.empty()) parse_bounds(bounds, operand);
    return operand;
  }
  throw "a hole has an unknown class";
}

}  // namespace detail

constexpr Operands parse(std::string_view syntax, Names names) {
  Operands operands;
  for (size_t i = 0; i < syntax.size(); ++i) {
    char c = syntax[i];
    if (c != '{' && c != '}') continue;
    if (i + 1 < syntax.size() && syntax[i + 1] == c) {
      ++i;
      continue;
    }
    if (c == '}') throw "a '}' does not close a hole: write }} for a brace";
    size_t close = detail::find(syntax, '}', i);
    if (close == std::string_view::npos) throw "a hole is not closed: write {{ for a brace";
    std::string_view text = syntax.substr(i + 1, close - i - 1);
    size_t number = operands.find(text);
    if (number == operands.count) {  // false if this is the name of an earlier operand
      Operand operand = detail::parse_hole(text);
      if (names == Names::none && (operand.cls == Class::name || operand.cls == Class::names))
        throw "a hole has the class of a name, which calls cannot pass";
      if (operands.find(operand.name) != operands.count)
        throw "two holes have the same name: write {name} for the same operand once more";
      if (operands.count == operands.items.size()) throw "an instruction has at most 16 operands";
      operands.items[operands.count++] = operand;
    }
    if (operands.hole_count == operands.holes.size()) throw "an instruction has at most 32 holes";
    operands.holes[operands.hole_count++] = {number, i, close + 1};
    i = close;
  }
  return operands;
}

}  // namespace ptxbuilder::isa
