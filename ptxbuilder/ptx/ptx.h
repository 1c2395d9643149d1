// The syntax tree of PTX text: parse() builds it, print() writes it, and everything in the text except white
// space is kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/ptx/lexer.h"

namespace ptxbuilder::ptx_text {

// An operand or a constant expression. `text` is always spelled as in the source.
struct Operand {
  enum class Kind : uint8_t {
    name,     // %r1, %tid.x, smem, _, a label, or an opcode-like word: text
    number,   // 12, 0x1fU, 0f3F800000: text, without a sign
    text,     // "nounroll", with its quotes
    vector,   // {a, b, {c, d}}: parts
    address,  // [a+4], [map, {x, y}]: parts, one for each comma
    list,     // (a, b): parts
    unary,    // -1, !p, ~x: text is the operator, one part
    binary,   // a+4, a|b, a ? b : c as "?" with three parts: text is the operator
    call      // generic(a), 0xFF(a): text is the callee, parts its arguments
  };

  Kind kind = Kind::name;
  std::string text;
  std::vector<Operand> parts;
  Position at;

  bool is_name(std::string_view spelling) const { return kind == Kind::name && text == spelling; }
};

struct Guard {
  std::string predicate;
  bool negated = false;
};

struct Instruction {
  std::optional<Guard> guard;
  std::string opcode;  // with all its modifiers: "mbarrier.try_wait.parity.shared::cta.b64"
  std::vector<Operand> operands;
};

// Larger ranges of registers are rejected: with 2 billion, ptxas does not finish in a minute.
inline constexpr int64_t most_registers = 1 << 24;

// One name of a declaration: %r<177>, x[4][], y = {1, 2}.
struct Declarator {
  std::string name;
  std::string count;                 // of a register range, as spelled: "177"; else empty
  std::vector<std::string> extents;  // of an array; "" for one that is left open
  std::optional<Operand> initializer;
  Position at;  // of the name
};

// `.reg .b32 %r<4>;`, `.extern .shared .align 1024 .b8 smem[];`, or a parameter of a function.
struct Declaration {
  std::vector<std::string> qualifiers;  // tokens ahead of the first name: ".shared", ".align", "1024", ".b8"
  std::vector<Declarator> names;        // may be empty for a parameter of a prototype

  bool has(std::string_view qualifier) const;
  std::string_view after(
      std::string_view qualifier) const;  // the token that follows the qualifier; empty if it is absent
};

// A directive that does not declare a name: .version, .target, .file, .loc, .pragma, .maxntid, .section,
// .branchtargets.
struct Directive {
  std::vector<std::string> tokens;  // the directive's own name comes first; commas are included
  bool semicolon = false;
  Position at = {};  // of its name
};

struct Statement;

struct Function {
  std::vector<std::string> linkage;  // ".visible", ".extern", ".weak"
  bool entry = false;
  std::vector<std::string> attributes;               // ".attribute" and its tokens
  bool has_results = false, has_parameters = false;  // whether the parentheses are present
  std::vector<Declaration> results, parameters;
  std::string name;
  std::vector<Directive> directives;  // .maxntid 128, .reqnctapercluster 2, 1, 1
  bool has_body = false;
  std::vector<Statement> body;
  std::vector<std::string> closing_comments;  // between the last statement and the brace
  bool semicolon = false;                     // ends a prototype
};

struct Statement {
  enum class Kind : uint8_t { instruction, label, declaration, directive, block, function, empty };

  Kind kind = Kind::empty;
  Position at;                        // of the first token
  std::vector<std::string> comments;  // comments before the statement or inside it

  Instruction instruction;
  std::string label;
  Declaration declaration;
  Directive directive;
  std::vector<Statement> block;               // { ... }
  std::vector<std::string> closing_comments;  // of the block, before its brace
  std::vector<Function> function;             // one, of kind function
};

struct Module {
  std::vector<Statement> statements;
  std::vector<std::string> closing_comments;

  // The function `name`; a definition is preferred to a prototype. Returns null if it does not exist.
  const Function* find(std::string_view name) const;
};

// Throws Error "ptx LINE:COLUMN: ..." if the text is not PTX, or nests deeper than 200 levels. Instructions
// are not looked up: any word is accepted.
Module parse(std::string_view source);

// The operands of an instruction, up to its semicolon. Throws the errors of parse().
std::vector<Operand> parse_operands(std::string_view source);

// print(parse(x)) == x except for white space, and for the place of a comment inside a statement, which is
// printed before the statement.
std::string print(const Module& module);
std::string print(const Statement& statement);
std::string print(const Operand& operand);
std::string print(const Instruction& instruction);

// The value of a constant expression of integers: 12, 0x1fU, -1, (2+3)*4; nothing for any other operand.
std::optional<int64_t> integer_value(const Operand& operand);

// The mnemonic's parts: "ld.global.v4.f32" -> ld, global, v4, f32.
std::vector<std::string_view> split_opcode(std::string_view opcode);

}  // namespace ptxbuilder::ptx_text
