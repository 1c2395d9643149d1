#include "ptxbuilder/isa/row.h"

#include <fmt/format.h>

namespace ptxbuilder::isa {
namespace {

struct ClassProperties {
  std::string_view register_type;
  char constraint;
};

constexpr ClassProperties properties(Class cls) {
  switch (cls) {
    case Class::pred:
      return {".pred", 'b'};
    case Class::b16:
    case Class::u16:
    case Class::s16:
    case Class::f16:
    case Class::bf16:
      return {".b16", 'h'};
    case Class::b32:
    case Class::u32:
    case Class::s32:
    case Class::smem:
    case Class::cluster:
    case Class::tmem:
      return {".b32", 'r'};
    case Class::f32:
      return {".f32", 'f'};
    case Class::b64:
    case Class::u64:
    case Class::s64:
    case Class::gmem:
    case Class::generic:
    case Class::tmap:
    case Class::local:
    case Class::constant:
      return {".b64", 'l'};
    case Class::f64:
      return {".f64", 'd'};
    case Class::b128:
      return {".b128", 'q'};
    case Class::b8:
      return {".b8", 'h'};  // inline asm has no 8-bit constraint; the text must convert between 8 and 16 bits
    case Class::imm:
      return {"", 'n'};
    case Class::name:
    case Class::names:
      break;
  }
  return {"", '?'};
}

}  // namespace

std::string_view name(Class cls) {
  for (const detail::ClassName& c : detail::kClasses)
    if (c.cls == cls) return c.name;
  return "?";
}

std::string_view register_type(Class cls) { return properties(cls).register_type; }

char constraint(Class cls) { return properties(cls).constraint; }

Operands parse_at(std::string_view syntax, Where where) {
  try {
    return parse(syntax);
  } catch (const char* reason) {
    throw Error(where, fmt::format("ptx: {} in \"{}\"", reason, syntax));
  }
}

std::string bounds_text(const Operand& o) {
  const std::string step = o.doubles     ? ", each twice the previous one"
                           : o.step == 1 ? ""
                                         : fmt::format(" in steps of {}", o.step);
  return fmt::format("from {} to {}{}", o.least, o.greatest, step);
}

std::string standalone_module(const Row& row, const Target& target, int ptx_version) {
  std::string declarations, body;
  size_t done = 0;
  auto append_text = [&](std::string_view text) {
    for (size_t i = 0; i < text.size(); ++i) {
      body += text[i];
      if (text[i] == '{' || text[i] == '}') ++i;  // a doubled brace is one brace
    }
  };
  for (const Operand& o : row.operands)
    if (o.cls != Class::imm)
      declarations += fmt::format("\t.reg {} {}_<{}>;\n", register_type(o.cls), o.name, o.count);
  for (size_t h = 0; h < row.operands.hole_count; ++h) {
    const Hole& hole = row.operands.holes[h];
    const Operand& o = row.operands[hole.operand];
    append_text(row.syntax.substr(done, hole.begin - done));
    done = hole.end;
    if (o.cls == Class::imm) {
      body += std::to_string(o.least);
      continue;
    }
    if (o.list) body += '{';
    for (int i = 0; i < o.count; ++i) body += fmt::format("{}{}_{}", i ? ", " : "", o.name, i);
    if (o.list) body += '}';
  }
  append_text(row.syntax.substr(done));
  return fmt::format(
      ".version {}\n.target {}\n.address_size 64\n.visible .entry row()\n.maxntid 128\n.minnctapersm "
      "1\n{{\n{}\t{}\n\tret;\n}}\n",
      version_text(ptx_version), target.name, declarations, body);
}

}  // namespace ptxbuilder::isa
