#include "ptxbuilder/isa/recognise.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "ptxbuilder/isa/nearest.h"

namespace ptxbuilder::isa {
namespace {

using ptx_text::Instruction;
using Given = ptx_text::Operand;
using Kind = Given::Kind;

// Prefix of a hole's name in the tree of a row's operands; the operand's number follows. Such a name cannot
// occur in PTX.
constexpr std::string_view kHole = "%operand.";

size_t hole_of(std::string_view name) {
  return static_cast<size_t>(detail::parse_integer(name.substr(kHole.size())));
}

bool is_hole(const Given& pattern) { return pattern.kind == Kind::name && pattern.text.starts_with(kHole); }

// A row, and its operands as the parser returns them.
struct Candidate {
  const Row* row;
  const Form* form;
  std::vector<Given> pattern;
};

std::vector<Given> pattern_of(const Row& row) {
  std::string text;
  size_t done = row.mnemonic().size();
  const auto append = [&](size_t to) {
    for (; done < to; ++done) {
      text += row.syntax[done];
      if (row.syntax[done] == '{' || row.syntax[done] == '}') ++done;  // a doubled brace is one brace
    }
  };
  for (size_t h = 0; h < row.operands.hole_count; ++h) {
    const Hole& hole = row.operands.holes[h];
    append(hole.begin);
    text.append(kHole).append(std::to_string(hole.operand));
    done = hole.end;
  }
  append(row.syntax.size());
  return ptx_text::parse_operands(text);
}

// Returns whether an operand is a constant, or the name of a constant or a register.
bool is_scalar(const Given& given) {
  switch (given.kind) {
    case Kind::name:
      return given.text != "_";
    case Kind::number:
    case Kind::call:
      return true;
    case Kind::unary:
      return given.text != "!";
    case Kind::binary:
      return given.text != "|";
    default:
      return false;
  }
}

// Tries to match an instruction with one row.
class Match {
 public:
  // If `lenient` is true, also accepts the deviations from the row's syntax that ptxas accepts.
  Match(const Candidate& candidate, bool lenient, const RegisterTypes& types, Recognised& to)
      : row_(*candidate.row), lenient_(lenient), types_(types), to_(to) {}

  bool all(const std::vector<Given>& pattern, const std::vector<Given>& given, bool in_address = false) {
    if (pattern.size() != given.size()) return false;
    for (size_t i = 0; i < pattern.size(); ++i)
      if (!one(pattern[i], given[i], in_address)) return false;
    return true;
  }

 private:
  bool one(const Given& pattern, const Given& given, bool in_address) {
    if (is_hole(pattern)) {
      const size_t number = hole_of(pattern.text);
      to_.operands[number] = &given;
      return in_address ? is_scalar(given) : fills(row_.operands[number], given);
    }
    if (pattern.kind == Kind::number)
      return ptx_text::integer_value(pattern) == ptx_text::integer_value(given);
    if (pattern.kind != given.kind || pattern.text != given.text ||
        !all(pattern.parts, given.parts, in_address || pattern.kind == Kind::address))
      return false;
    if (pattern.kind == Kind::unary && is_hole(pattern.parts[0]))  // !p
      to_.operands[hole_of(pattern.parts[0].text)] = &given;
    return true;
  }

  bool fills(const Operand& operand, const Given& given) const {
    if (operand.cls == Class::names) return given.kind == Kind::list;
    if (!operand.list) {
      const bool is_braced = lenient_ && given.kind == Kind::vector && given.parts.size() == 1;
      return fills_one(operand, is_braced ? given.parts[0] : given);
    }
    if (given.is_name("_")) return lenient_ && operand.access == Access::write;
    if (given.kind == Kind::name) return lenient_ && (!types_ || types_(given.text).empty());
    if (given.kind != Kind::vector) return false;
    return given.parts.size() == static_cast<size_t>(operand.count) &&
           std::ranges::all_of(given.parts, [&](const Given& part) { return fills_one(operand, part); });
  }

  bool fills_one(const Operand& operand, const Given& given) const {
    if (given.is_name("_")) return lenient_ && operand.access == Access::write;
    if (operand.writes() || operand.cls == Class::name) return given.kind == Kind::name;
    if (given.kind == Kind::unary && given.text == "!" && operand.cls == Class::pred)
      return lenient_ && given.parts[0].kind == Kind::name;
    if (!is_scalar(given)) return false;
    if (given.kind == Kind::name) return operand.cls != Class::imm;
    const bool bounded = operand.takes_numbers() && !operand.list;
    const auto number = bounded ? ptx_text::integer_value(given) : std::nullopt;
    if (number) return operand.takes_number(*number) || (lenient_ && operand.cls == Class::pred);
    return operand.cls != Class::imm;
  }

  const Row& row_;
  bool lenient_;
  const RegisterTypes& types_;
  Recognised& to_;
};

// Returns the number of registers whose declared type is the type that the row would use.
int agreement(const Recognised& known, const RegisterTypes& types) {
  int count = 0;
  for (size_t i = 0; i < known.row->operands.size(); ++i) {
    const std::string_view type = register_type(known.row->operands[i].cls);
    const auto look = [&](const Given& given) {
      count += given.kind == Kind::name && types(given.text) == type;
    };
    if (known.operands[i]->kind != Kind::vector)
      look(*known.operands[i]);
    else
      for (const Given& part : known.operands[i]->parts) look(part);
  }
  return count;
}

// Caches the rows of each requested mnemonic that has rows.
class Known {
 public:
  static Known& of_all() {
    static Known known;
    return known;
  }

  // Returns the rows with the mnemonic, or an empty list if no row has it.
  const std::vector<Candidate>& rows_of(const std::string& mnemonic) {
    {
      const std::shared_lock lock(mutex_);
      if (const auto found = rows_.find(mnemonic); found != rows_.end()) return found->second;
    }
    static const std::vector<Candidate> kNone;
    std::vector<Candidate> rows;
    const std::unique_lock lock(mutex_);
    for_each_row_of(mnemonic, [&](const Form& form, const Choices& choices) {
      const MadeRow& made = made_.emplace_back(detail::row_of(form, choices));
      const Row& row = made_rows_.emplace_back(made.row(Names::some));
      rows.push_back({&row, &form, pattern_of(row)});
    });
    if (rows.empty()) return kNone;
    return rows_.emplace(mnemonic, std::move(rows)).first->second;
  }

 private:
  std::shared_mutex mutex_;
  std::unordered_map<std::string, std::vector<Candidate>> rows_;
  std::deque<MadeRow> made_;  // owns the strings to which the rows refer
  std::deque<Row> made_rows_;
};

}  // namespace

Recognised recognise(const Instruction& instruction, const RegisterTypes& types) {
  const std::vector<Candidate>& candidates = Known::of_all().rows_of(instruction.opcode);
  for (const bool lenient : {false, true}) {
    Recognised best;
    int agrees = 0;
    for (const Candidate& candidate : candidates) {
      Recognised known{candidate.row, candidate.form, {}};
      if (!Match(candidate, lenient, types, known).all(candidate.pattern, instruction.operands)) continue;
      if (!types || candidates.size() == 1) return known;
      const int its = agreement(known, types);
      if (best && its <= agrees) continue;
      best = known, agrees = its;
    }
    if (best) return best;
  }
  return {};
}

std::string why_unknown(const Instruction& instruction) {
  const std::vector<Candidate>& candidates = Known::of_all().rows_of(instruction.opcode);
  if (candidates.empty()) {
    const Nearest near = nearest(instruction.opcode);
    return near.mnemonic.empty() ? "no instruction begins with this word"
                                 : fmt::format("{} is nearest: {}", near.mnemonic, near.differs);
  }
  const size_t count = instruction.operands.size();
  const auto by_count = [&](const Candidate& c) {
    return std::max(count, c.pattern.size()) - std::min(count, c.pattern.size());
  };
  return fmt::format("its operands should be: {}",
                     std::ranges::min_element(candidates, {}, by_count)->row->syntax);
}

}  // namespace ptxbuilder::isa
