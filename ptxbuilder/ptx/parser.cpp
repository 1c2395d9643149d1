// Parses tokens into the syntax tree of ptx.h by recursive descent.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ptxbuilder/ptx/ptx.h"

namespace ptxbuilder::ptx_text {
namespace {

using Kind = Token::Kind;

// The limit on the nesting of braces and parentheses, and on the height of an expression's tree. In real
// files, both depths are below ten. Code that walks the tree recurses to the same depth.
constexpr int max_depth = 200;

constexpr std::array<std::string_view, 9> declaring = {
    ".reg", ".local", ".shared", ".global", ".const", ".param", ".texref", ".samplerref", ".surfref"};
constexpr std::array<std::string_view, 4> linking = {".extern", ".visible", ".weak", ".common"};

template <size_t n>
bool is_one_of(std::string_view text, const std::array<std::string_view, n>& list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// Returns an operator's precedence (PTX ISA, "Operator Precedence"). Operators with larger numbers bind
// tighter. Returns 0 for words that are not operators.
int precedence(std::string_view op) {
  if (op == "||") return 1;
  if (op == "&&") return 2;
  if (op == "|") return 3;
  if (op == "^") return 4;
  if (op == "&") return 5;
  if (op == "==" || op == "!=") return 6;
  if (op == "<" || op == ">" || op == "<=" || op == ">=") return 7;
  if (op == "<<" || op == ">>") return 8;
  if (op == "+" || op == "-") return 9;
  if (op == "*" || op == "/" || op == "%") return 10;
  return 0;
}

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)) {}

  std::vector<Operand> operands() {
    std::vector<Operand> list;
    while (!now().is(";")) {
      list.push_back(operand());
      if (!now().is(";"))
        expect(",", "or ';' after the operand");
      else
        break;
      if (now().is(";")) fail("expected an operand after ','");
    }
    expect(";", "at the end of the instruction");
    return list;
  }

  Module module() {
    Module m;
    while (now().kind != Kind::end) m.statements.push_back(statement(true));
    take();
    m.closing_comments = std::exchange(comments_, {});
    return m;
  }

 private:
  // Counts one level of recursion while this object exists.
  struct Deeper {
    explicit Deeper(Parser& p) : parser(p) {
      if (++parser.depth_ > max_depth)
        parser.fail(fmt::format("braces are nested more than {} levels deep", max_depth));
    }
    ~Deeper() { --parser.depth_; }
    Deeper(const Deeper&) = delete;
    Parser& parser;
  };

  const Token& now() const { return tokens_[next_]; }
  const Token& ahead(size_t n) const { return tokens_[std::min(next_ + n, tokens_.size() - 1)]; }

  [[noreturn]] void fail(const std::string& message) const { ptx_text::fail(now().at, message); }

  std::string found() const {
    return now().kind == Kind::end ? "the end of the text" : fmt::format("'{}'", now().text.substr(0, 60));
  }

  std::string take() {
    for (std::string_view comment : now().comments) comments_.emplace_back(comment);
    std::string text(now().text);
    if (now().kind != Kind::end) ++next_;
    return text;
  }

  std::string take(Kind kind, const char* what) {
    if (now().kind != kind) fail(fmt::format("expected {}, found {}", what, found()));
    return take();
  }

  void expect(std::string_view spelling, const char* where) {
    if (!now().is(spelling)) fail(fmt::format("expected '{}' {}, found {}", spelling, where, found()));
    take();
  }

  bool accept(std::string_view spelling) {
    if (!now().is(spelling)) return false;
    take();
    return true;
  }

  // --- statements ---

  Statement statement(bool at_module) {
    Deeper deeper(*this);
    Statement s;
    s.at = now().at;
    if (now().is("{") && !at_module) {
      s.kind = Statement::Kind::block;
      take();
      s.comments = std::exchange(comments_, {});
      while (!now().is("}")) {
        if (now().kind == Kind::end) fail(fmt::format("the block of line {} is not closed", s.at.line));
        s.block.push_back(statement(false));
      }
      take();
      s.closing_comments = std::exchange(comments_, {});
      return s;
    }
    if (accept(";")) {
      s.kind = Statement::Kind::empty;
    } else if (now().kind == Kind::dotted) {
      dotted_statement(s, at_module);
    } else if (at_module) {
      fail(fmt::format("expected a directive such as .visible, .entry or .global, found {}", found()));
    } else if (now().kind == Kind::word && ahead(1).is(":")) {
      s.kind = Statement::Kind::label;
      s.label = take();
      take();
    } else {
      s.kind = Statement::Kind::instruction;
      s.instruction = instruction();
    }
    if (s.kind != Statement::Kind::function) s.comments = std::exchange(comments_, {});
    return s;
  }

  void dotted_statement(Statement& s, bool at_module) {
    size_t after_linkage = 0;
    while (is_one_of(ahead(after_linkage).text, linking)) ++after_linkage;
    std::string_view name = ahead(after_linkage).text;
    if (at_module && (name == ".entry" || name == ".func")) {
      s.kind = Statement::Kind::function;
      s.function.push_back(function(s));
    } else if (is_one_of(name, declaring) || after_linkage > 0) {
      s.kind = Statement::Kind::declaration;
      s.declaration = declaration();
      expect(";", "after the declaration");
    } else {
      s.kind = Statement::Kind::directive;
      s.directive = directive();
    }
  }

  Directive directive() {
    Directive d;
    d.at = now().at;
    auto& tokens = d.tokens;
    tokens.push_back(take());
    const std::string name = tokens.front();
    auto number = [&] { tokens.push_back(take(Kind::number, "a number")); };
    auto comma = [&] { return now().is(",") ? (tokens.push_back(take()), true) : false; };
    if (name == ".version" || name == ".address_size") {
      number();
    } else if (name == ".target") {
      do tokens.push_back(take(Kind::word, "a target"));
      while (comma());
    } else if (name == ".file") {
      if (now().kind == Kind::number) number();
      tokens.push_back(take(Kind::text, "a file name"));
      while (comma()) number();
    } else if (name == ".loc") {
      location(tokens);
    } else if (name == ".section") {
      section(tokens);
    } else {
      while (!now().is(";")) {
        if (now().kind == Kind::end || now().is("{") || now().is("}"))
          fail(fmt::format("expected ';' after {}, found {}", name, found()));
        tokens.push_back(take());
      }
      take();
      d.semicolon = true;
    }
    return d;
  }

  // Parses .loc (PTX ISA), which has the form: file line column [, function_name label [+ offset], inlined_at
  // file line column].
  void location(std::vector<std::string>& tokens) {
    for (int i = 0; i < 3; ++i) tokens.push_back(take(Kind::number, "a number of .loc"));
    while (now().is(",")) {
      tokens.push_back(take());
      std::string attribute = take(Kind::word, "function_name or inlined_at");
      tokens.push_back(attribute);
      if (attribute == "inlined_at") {
        for (int i = 0; i < 3; ++i) tokens.push_back(take(Kind::number, "a number of inlined_at"));
      } else {
        tokens.push_back(take(Kind::word, "a label"));
        if (now().is("+")) {
          tokens.push_back(take());
          tokens.push_back(take(Kind::number, "an offset"));
        }
      }
    }
  }

  void section(std::vector<std::string>& tokens) {
    Position at = now().at;
    while (!now().is("{")) {
      if (now().kind == Kind::end) fail("expected '{' of .section");
      tokens.push_back(take());
    }
    int open = 0;
    do {
      if (now().kind == Kind::end) ptx_text::fail(at, "the section that begins here is not closed");
      open += now().is("{") ? 1 : now().is("}") ? -1 : 0;
      tokens.push_back(take());
    } while (open > 0);
  }

  Function function(Statement& s) {
    Function f;
    while (is_one_of(now().text, linking)) f.linkage.push_back(take());
    f.entry = take() == ".entry";
    while (now().is(".attribute")) qualifier(f.attributes);
    if (now().is("(")) {
      f.has_results = true;
      f.results = parameters();
    }
    f.name = take(Kind::word, "the function's name");
    if (now().is("(")) {
      f.has_parameters = true;
      f.parameters = parameters();
    }
    while (now().kind == Kind::dotted) f.directives.push_back(function_directive());
    s.comments = std::exchange(comments_, {});
    if (accept(";")) {
      f.semicolon = true;
    } else {
      for (const auto* list : {&f.results, &f.parameters})
        for (const Declaration& d : *list)
          if (d.names.empty())
            fail(fmt::format("a parameter of {} has no name, which is only allowed in a prototype", f.name));
      expect("{", "of the function's body");
      s.comments.insert(s.comments.end(), comments_.begin(), comments_.end());
      comments_.clear();
      f.has_body = true;
      while (!now().is("}")) {
        if (now().kind == Kind::end) fail(fmt::format("the body of {} is not closed", f.name));
        f.body.push_back(statement(false));
      }
      take();
      f.closing_comments = std::exchange(comments_, {});
    }
    return f;
  }

  Directive function_directive() {
    Directive d;
    d.at = now().at;
    d.tokens.push_back(take());
    while (now().kind != Kind::dotted && !now().is("{") && !now().is(";")) {
      if (now().kind == Kind::end || now().is("}"))
        fail(fmt::format("expected '{{' or ';', found {}", found()));
      d.tokens.push_back(take());
    }
    if (d.tokens.front() == ".pragma" && now().is(";")) {
      take();
      d.semicolon = true;
    }
    return d;
  }

  std::vector<Declaration> parameters() {
    std::vector<Declaration> list;
    take();
    if (accept(")")) return list;
    do list.push_back(declaration(true));
    while (accept(","));
    expect(")", "after the parameters");
    return list;
  }

  void qualifier(std::vector<std::string>& qualifiers) {
    qualifiers.push_back(take());
    if (qualifiers.back() == ".align" && now().kind == Kind::number) {
      qualifiers.push_back(take());
    } else if (now().is("(")) {  // .attribute(.managed), .attribute(.unified(1, 2))
      int open = 0;
      do {
        if (now().kind == Kind::end) fail("expected ')'");
        open += now().is("(") ? 1 : now().is(")") ? -1 : 0;
        qualifiers.push_back(take());
      } while (open > 0);
    }
  }

  Declaration declaration(bool parameter = false) {
    Declaration d;
    while (now().kind == Kind::dotted) qualifier(d.qualifiers);
    if (d.qualifiers.empty()) fail(fmt::format("expected a state space such as .param, found {}", found()));
    if (parameter && now().kind != Kind::word) return d;
    do d.names.push_back(declarator());
    while (!parameter && accept(","));
    return d;
  }

  Declarator declarator() {
    Declarator d;
    d.at = now().at;
    d.name = take(Kind::word, "a name");
    if (accept("<")) {
      d.count = take(Kind::number, "the count of registers");
      expect(">", "after the count of registers");
    }
    while (accept("[")) {
      d.extents.push_back(now().is("]") ? std::string() : print(operand()));
      expect("]", "after the array's extent");
    }
    if (accept("=")) d.initializer = operand();
    return d;
  }

  Instruction instruction() {
    Instruction i;
    if (accept("@")) {
      Guard guard;
      guard.negated = accept("!");
      guard.predicate = name("a predicate register after '@'");
      i.guard = std::move(guard);
    }
    i.opcode = name("an instruction");
    i.operands = operands();
    return i;
  }

  // --- operands ---

  // Parses a word with its dotted suffixes, such as %tid.x or add.s32.
  std::string name(const char* what) {
    std::string text = take(Kind::word, what);
    while (now().kind == Kind::dotted) text += take();
    return text;
  }

  Operand operand() { return ternary(); }

  // Returns the height of a tree whose highest part has the height `parts`. Throws Error if the tree is too
  // high. A chain like a+b+c+... also becomes a tree, even without parentheses.
  int above(int parts) const {
    if (parts >= max_depth) fail(fmt::format("the expression is nested more than {} levels deep", max_depth));
    return parts + 1;
  }

  Operand ternary() {
    Deeper deeper(*this);
    Operand condition = binary(1);
    if (!now().is("?")) return condition;
    Operand o{Operand::Kind::binary, take(), {}, condition.at};
    int height = height_;
    o.parts.push_back(std::move(condition));
    o.parts.push_back(ternary());
    height = std::max(height, height_);
    expect(":", "of the conditional expression");
    o.parts.push_back(ternary());
    height_ = above(std::max(height, height_));
    return o;
  }

  // Returns the operator at the current position, which may consist of two tokens, or "" if there is none.
  std::string peek_operator() const {
    if (now().kind != Kind::punctuation) return {};
    std::string two = std::string(now().text) + std::string(ahead(1).text);
    for (const char* op : {"<<", ">>", "<=", ">=", "==", "!=", "&&", "||"})
      if (two == op) return two;
    return precedence(now().text) > 0 ? std::string(now().text) : std::string();
  }

  Operand binary(int least) {
    Operand left = unary();
    int height = height_;
    for (std::string op = peek_operator(); !op.empty() && precedence(op) >= least; op = peek_operator()) {
      for (size_t i = 0; i < op.size(); ++i) take();
      Operand o{Operand::Kind::binary, op, {}, left.at};
      o.parts.push_back(std::move(left));
      o.parts.push_back(binary(precedence(op) + 1));
      height = above(std::max(height, height_));
      left = std::move(o);
    }
    height_ = height;
    return left;
  }

  Operand unary() {
    Deeper deeper(*this);
    Position at = now().at;
    std::string op;
    if (now().is("-") || now().is("!") || now().is("~") || now().is("+")) {
      op = take();
    } else if (now().is("(") && ahead(1).kind == Kind::dotted && ahead(2).is(")")) {  // (.s64)x
      op = take() + take() + take();
    } else {
      return primary();
    }
    Operand o{Operand::Kind::unary, op, {}, at};
    o.parts.push_back(unary());
    height_ = above(height_);
    return o;
  }

  std::vector<Operand> parts(std::string_view close) {
    std::vector<Operand> list;
    int height = 0;
    take();
    if (!now().is(close)) {
      do {
        list.push_back(operand());
        height = std::max(height, height_);
      } while (accept(","));
    }
    expect(close, "to close the list");
    height_ = above(height);
    return list;
  }

  Operand primary() {
    Operand o;
    o.at = now().at;
    height_ = 1;
    if (now().is("{") || now().is("[") || now().is("(")) {
      o.kind = now().is("{")   ? Operand::Kind::vector
               : now().is("[") ? Operand::Kind::address
                               : Operand::Kind::list;
      o.parts = parts(now().is("{") ? "}" : now().is("[") ? "]" : ")");
      // An address in an ld may be followed by .unified, which becomes the operand's text.
      if (o.kind == Operand::Kind::address && now().is(".unified")) o.text = take();
      return o;
    }
    if (now().kind == Kind::number || now().kind == Kind::text) {
      o.kind = now().kind == Kind::number ? Operand::Kind::number : Operand::Kind::text;
      o.text = take();
    } else if (now().kind == Kind::word) {
      o.text = name("an operand");
    } else {
      fail(fmt::format("expected an operand, found {}", found()));
    }
    if (now().is("(") && o.kind != Operand::Kind::text) {
      o.kind = Operand::Kind::call;
      o.parts = parts(")");
    }
    return o;
  }

  std::vector<Token> tokens_;
  size_t next_ = 0;
  int depth_ = 0;
  int height_ = 0;                     // height of the last operand that was parsed
  std::vector<std::string> comments_;  // comments of the tokens since the last statement
};

}  // namespace

Module parse(std::string_view source) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // some editors write a byte order mark
  if (source.starts_with(kByteOrderMark)) source.remove_prefix(kByteOrderMark.size());
  return Parser(source).module();
}

std::vector<Operand> parse_operands(std::string_view source) { return Parser(source).operands(); }

bool Declaration::has(std::string_view qualifier) const {
  return std::find(qualifiers.begin(), qualifiers.end(), qualifier) != qualifiers.end();
}

std::string_view Declaration::after(std::string_view qualifier) const {
  auto at = std::find(qualifiers.begin(), qualifiers.end(), qualifier);
  return at == qualifiers.end() || at + 1 == qualifiers.end() ? std::string_view()
                                                              : std::string_view(*(at + 1));
}

const Function* Module::find(std::string_view name) const {
  const Function* prototype = nullptr;
  for (const Statement& s : statements) {
    if (s.kind != Statement::Kind::function || s.function[0].name != name) continue;
    if (s.function[0].has_body) return &s.function[0];
    prototype = &s.function[0];
  }
  return prototype;
}

}  // namespace ptxbuilder::ptx_text
