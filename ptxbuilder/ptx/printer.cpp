#include <fmt/format.h>

#include "ptxbuilder/ptx/ptx.h"

namespace ptxbuilder::ptx_text {
namespace {

class Printer {
 public:
  std::string take() { return std::move(out_); }

  void print(const Statement& s, int depth) {
    for (const std::string& comment : s.comments) line(depth, comment);
    switch (s.kind) {
      case Statement::Kind::instruction:
        line(depth, ptx_text::print(s.instruction) + ";");
        break;
      case Statement::Kind::label:
        line(0, s.label + ":");
        break;
      case Statement::Kind::declaration:
        line(depth, declaration(s.declaration) + ";");
        break;
      case Statement::Kind::directive:
        line(depth, directive(s.directive));
        break;
      case Statement::Kind::block:
        line(depth, "{");
        body(s.block, s.closing_comments, depth);
        line(depth, "}");
        break;
      case Statement::Kind::function:
        print(s.function.front());
        break;
      case Statement::Kind::empty:
        line(depth, ";");
        break;
    }
  }

  void line(int depth, std::string_view text) {
    out_.append(static_cast<size_t>(depth), '\t');
    out_ += text;
    out_ += '\n';
  }

 private:
  void body(const std::vector<Statement>& statements, const std::vector<std::string>& closing, int depth) {
    for (const Statement& s : statements) print(s, depth + (depth < 8 ? 1 : 0));
    for (const std::string& comment : closing) line(depth + 1, comment);
  }

  void print(const Function& f) {
    std::string head = joined(f.linkage);
    if (!head.empty()) head += ' ';
    head += f.entry ? ".entry " : ".func ";
    if (!f.attributes.empty()) head += joined(f.attributes) + " ";
    if (f.has_results) head += parameters(f.results) + " ";
    head += f.name;
    if (f.has_parameters) head += parameters(f.parameters);
    line(0, head);
    for (const Directive& d : f.directives) line(0, directive(d));
    if (f.has_body) {
      line(0, "{");
      body(f.body, f.closing_comments, 0);
      line(0, "}");
    }
    if (f.semicolon) line(0, ";");
  }

  static std::string joined(const std::vector<std::string>& tokens) {
    std::string text;
    for (const std::string& token : tokens) {
      if (!text.empty() && token != "," && token != ";") text += ' ';
      text += token;
    }
    return text;
  }

  static std::string directive(const Directive& d) { return joined(d.tokens) + (d.semicolon ? ";" : ""); }

  static std::string declaration(const Declaration& d) {
    std::string text = joined(d.qualifiers);
    const char* separator = " ";
    for (const Declarator& name : d.names) {
      text += separator + name.name;
      if (!name.count.empty()) text += "<" + name.count + ">";
      for (const std::string& extent : name.extents) text += "[" + extent + "]";
      if (name.initializer) text += " = " + ptx_text::print(*name.initializer);
      separator = ", ";
    }
    return text;
  }

  static std::string parameters(const std::vector<Declaration>& list) {
    std::string text = "(";
    for (const Declaration& d : list) text += (text.size() > 1 ? ",\n\t" : "\n\t") + declaration(d);
    return text + (list.empty() ? ")" : "\n)");
  }

  std::string out_;
};

std::string separated(const std::vector<Operand>& parts) {
  std::string text;
  for (const Operand& part : parts) text += (text.empty() ? "" : ", ") + print(part);
  return text;
}

}  // namespace

std::string print(const Operand& o) {
  switch (o.kind) {
    case Operand::Kind::name:
    case Operand::Kind::number:
    case Operand::Kind::text:
      return o.text;
    case Operand::Kind::vector:
      return '{' + separated(o.parts) + '}';
    case Operand::Kind::address:
      return '[' + separated(o.parts) + ']' + o.text;
    case Operand::Kind::list:
      return '(' + separated(o.parts) + ')';
    case Operand::Kind::unary:
      return o.text + print(o.parts[0]);
    case Operand::Kind::call:
      return o.text + "(" + separated(o.parts) + ")";
    case Operand::Kind::binary:
      if (o.text == "?") return print(o.parts[0]) + "?" + print(o.parts[1]) + ":" + print(o.parts[2]);
      // "4 % r2" must not look like 4 followed by the register %r2.
      return print(o.parts[0]) + (o.text == "%" ? " % " : o.text) + print(o.parts[1]);
  }
  return {};
}

std::string print(const Instruction& i) {
  std::string text;
  if (i.guard) text = fmt::format("@{}{} ", i.guard->negated ? "!" : "", i.guard->predicate);
  text += i.opcode;
  if (!i.operands.empty()) text.append(" ").append(separated(i.operands));
  return text;
}

std::string print(const Statement& statement) {
  Printer printer;
  printer.print(statement, 0);
  return printer.take();
}

std::string print(const Module& module) {
  Printer printer;
  for (const Statement& s : module.statements) printer.print(s, 0);
  for (const std::string& comment : module.closing_comments) printer.line(0, comment);
  return printer.take();
}

}  // namespace ptxbuilder::ptx_text
