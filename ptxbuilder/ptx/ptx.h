// Defines the syntax tree of PTX text. parse() builds the tree, and print() writes it as text. The tree
// preserves everything in the text except white space.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/ptx/lexer.h"

namespace ptxbuilder::ptx_text {

// An operand or a constant expression. `text` is spelled as in the source.
struct Operand {
  enum class Kind : uint8_t {
    name,     // %r1, %tid.x, smem, _, a label, or an opcode-like word: stored in `text`
    number,   // 12, 0x1fU, 0f3F800000: stored in `text`, without a sign
    text,     // "nounroll", including its quotes
    vector,   // {a, b, {c, d}}: stored in `parts`
    address,  // [a+4], [map, {x, y}]: the parts that commas separate are stored in `parts`
    list,     // (a, b): stored in `parts`
    unary,    // -1, !p, ~x: `text` is the operator, and there is one part
    binary,   // a+4, a|b: `text` is the operator; a ? b : c is "?" with three parts
    call      // generic(a), 0xFF(a): `text` is the callee, and `parts` are its arguments
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
  std::string opcode;  // the opcode with its modifiers, such as "mbarrier.try_wait.parity.shared::cta.b64"
  std::vector<Operand> operands;
};

// The greatest number of registers in a range. For a range of 2 billion registers, ptxas does not finish
// within a minute.
inline constexpr int64_t most_registers = 1 << 24;

// A name in a declaration, such as %r<177>, x[4][] or y = {1, 2}.
struct Declarator {
  std::string name;
  std::string count;  // the count of a register range, as spelled, such as "177"; otherwise empty
  std::vector<std::string> extents;  // the extents of an array; "" for an extent that is not stated
  std::optional<Operand> initializer;
  Position at;  // position of the name
};

// `.reg .b32 %r<4>;`, `.extern .shared .align 1024 .b8 smem[];`, or a parameter of a function.
struct Declaration {
  std::vector<std::string> qualifiers;  // tokens before the first name, such as ".shared", ".align", "1024",
                                        // ".b8"
  std::vector<Declarator> names;        // may be empty for a parameter of a prototype

  bool has(std::string_view qualifier) const;
  std::string_view after(std::string_view qualifier) const;  // returns the token after the qualifier; empty
                                                             // if the qualifier is absent
};

// A directive that does not declare a name, such as .version, .target, .file, .loc, .pragma, .maxntid,
// .section or .branchtargets.
struct Directive {
  std::vector<std::string> tokens;  // beginning with the directive's name; commas are included
  bool semicolon = false;
  Position at = {};  // position of the name
};

struct Statement;

struct Function {
  std::vector<std::string> linkage;  // ".visible", ".extern", ".weak"
  bool entry = false;
  std::vector<std::string> attributes;               // ".attribute" and its tokens
  bool has_results = false, has_parameters = false;  // true if there are parentheses for these
  std::vector<Declaration> results, parameters;
  std::string name;
  std::vector<Directive> directives;  // such as .maxntid 128 or .reqnctapercluster 2, 1, 1
  bool has_body = false;
  std::vector<Statement> body;
  std::vector<std::string> closing_comments;  // comments between the last statement and the closing brace
  bool semicolon = false;                     // true if a semicolon ends the function, as in a prototype
};

struct Statement {
  enum class Kind : uint8_t { instruction, label, declaration, directive, block, function, empty };

  Kind kind = Kind::empty;
  Position at;                        // position of the first token
  std::vector<std::string> comments;  // comments before the statement or inside it

  Instruction instruction;
  std::string label;
  Declaration declaration;
  Directive directive;
  std::vector<Statement> block;               // { ... }
  std::vector<std::string> closing_comments;  // comments at the end of the block, before its closing brace
  std::vector<Function> function;             // one element, for kind function
};

struct Module {
  std::vector<Statement> statements;
  std::vector<std::string> closing_comments;

  // Returns the function `name`, or null if there is none. If the module contains a prototype and a
  // definition, returns the definition.
  const Function* find(std::string_view name) const;
};

// Parses a module. Any word is accepted as an instruction. Throws an Error "ptx LINE:COLUMN: ..." if the text
// is not PTX, or is nested more than 200 levels deep.
Module parse(std::string_view source);

// Returns the operands of an instruction, up to its semicolon. Throws Error under the same conditions as
// parse().
std::vector<Operand> parse_operands(std::string_view source);

// Returns a module as text. print(parse(x)) equals x except for white space, and except that comments inside
// a statement are printed before the statement.
std::string print(const Module& module);
std::string print(const Statement& statement);
std::string print(const Operand& operand);
std::string print(const Instruction& instruction);

// Returns the value of a constant integer expression such as 12, 0x1fU, -1 or (2+3)*4, or nothing for any
// other operand.
std::optional<int64_t> integer_value(const Operand& operand);

// Returns the parts of an opcode, such as ld, global, v4 and f32 for "ld.global.v4.f32".
std::vector<std::string_view> split_opcode(std::string_view opcode);

}  // namespace ptxbuilder::ptx_text
