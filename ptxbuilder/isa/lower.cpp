#include "ptxbuilder/isa/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>

namespace ptxbuilder::isa {
namespace {

// Builds a call by adding one operand after another.
class Lowering {
 public:
  Lowering(const Row& row, std::span<const Filling> fillings, bool guarded)
      : row_(row), fillings_(fillings), guarded_(guarded) {}

  InlineAsm run() {
    check();
    // If the syntax consists of several statements, a result may be written before all operands have been
    // read, so results and operands must not share registers.
    early_ = std::count(row_.syntax.begin(), row_.syntax.end(), ';') > 1 ? "&" : "";
    for (size_t i = 0; i < row_.operands.size(); ++i) {
      const Operand& o = row_.operands[i];
      if (o.writes() && registers_in(i)) result_count_ += o.count;
      if (!o.writes() && registers_in(i)) input_count_ += o.count;
    }
    std::vector<std::string> texts;
    for (size_t i = 0; i < row_.operands.size(); ++i) texts.push_back(text_of(i));
    if (guarded_) call_.text = fmt::format("@${} ", result_count_ + input_count_);
    call_.text += before_;
    size_t done = 0;
    for (size_t h = 0; h < row_.operands.hole_count; ++h) {
      const Hole& hole = row_.operands.holes[h];
      literal(row_.syntax.substr(done, hole.begin - done));
      done = hole.end;
      call_.text += texts[hole.operand];
    }
    literal(row_.syntax.substr(done));
    if (!before_.empty()) call_.text += behind_ + " }";
    return finish();
  }

 private:
  void check() const {
    size_t expected = 0;
    for (const Operand& o : row_.operands) expected += o.reads();
    if (fillings_.size() != expected)
      throw Error(fmt::format("{}: takes {} operand{}, but {} {} given, in \"{}\"", row_.name, expected,
                              expected == 1 ? "" : "s", fillings_.size(),
                              fillings_.size() == 1 ? "was" : "were", row_.syntax));
    if (!guarded_) return;
    for (const Operand& o : row_.operands)
      if (o.access == Access::write)
        throw Error(fmt::format("{}: cannot be guarded: '{}' would be undefined where the predicate is false",
                                row_.name, o.name));
  }

  // Returns the filling of operand i, which the instruction reads.
  const Filling& filling(size_t i) const {
    size_t number = 0;
    for (size_t before = 0; before < i; ++before) number += row_.operands[before].reads();
    return fillings_[number];
  }

  // Returns whether the operand consists of registers that LLVM allocates.
  bool registers_in(size_t i) const {
    return !row_.operands[i].reads() || std::holds_alternative<ValueCount>(filling(i));
  }

  std::string text_of(size_t i) {
    const Operand& o = row_.operands[i];
    if (!o.reads()) return values(i);
    const Filling& given = filling(i);
    if (auto* names = std::get_if<Registers>(&given)) return named(o, *names);
    if (auto* value = std::get_if<int64_t>(&given)) return number(o, *value);
    if (o.cls == Class::imm)
      refuse_operand(
          row_, o,
          "is an immediate: its value must be known while the kernel is built, as a host integer is");
    if (const int count = std::get<ValueCount>(given).count; count != o.count)
      refuse_operand(row_, o, fmt::format("is {} registers, but {} were given", o.count, count));
    return values(i);
  }

  std::string values(size_t i) {
    return row_.operands[i].cls == Class::b8 ? narrow(i, registers(i)) : registers(i);
  }

  std::string named(const Operand& o, const Registers& given) {
    if (o.cls == Class::imm) refuse_operand(row_, o, "is an immediate, but named registers were given");
    if (given.count != o.count)
      refuse_operand(row_, o, fmt::format("is {} registers, but {} were given", o.count, given.count));
    names_registers_ = true;
    return list(o, [&](int item) { return fmt::format("{}{}", given.base, given.first + item); });
  }

  std::string number(const Operand& o, int64_t value) const {
    if (o.cls != Class::imm && !(row_.takes_numbers() && o.takes_numbers()))
      refuse_operand(row_, o,
                     fmt::format("is a {} register, but the number {} was given", name(o.cls), value));
    if (!o.takes_number(value))
      refuse_operand(row_, o, fmt::format("must be {}, but is {}", bounds_text(o), as_it_is(o.cls, value)));
    return std::to_string(value);
  }

  // For a class without a sign, converts a negative number to the unsigned number with the same bits.
  static int64_t as_it_is(Class cls, int64_t value) {
    if (value >= 0) return value;
    if (cls == Class::u16 && value >= INT16_MIN) return value + (int64_t{1} << 16);
    if (cls == Class::u32 && value >= INT32_MIN) return value + (int64_t{1} << 32);
    return value;
  }

  // Inline asm has no constraint for 8-bit registers. The text therefore declares an 8-bit register, and
  // moves the low bits of a 16-bit register into or out of the 8-bit register.
  std::string narrow(size_t i, const std::string& wide) {
    const std::string name = fmt::format("narrow{}", i);
    before_ += fmt::format("{}.reg .b8 {}; ", before_.empty() ? "{ " : "", name);
    if (row_.operands[i].reads()) before_ += fmt::format("cvt.u8.u16 {}, {}; ", name, wide);
    if (row_.operands[i].writes()) behind_ += fmt::format(" cvt.u16.u8 {}, {};", wide, name);
    return name;
  }

  // LLVM numbers results first, then inputs that are only read, then the guard, and then inputs tied to
  // results.
  std::string registers(size_t i) {
    const Operand& o = row_.operands[i];
    const char letter = constraint(o.cls);
    return list(o, [&](int item) {
      if (!o.writes()) {
        call_.arguments.push_back({i, item, o.cls});
        inputs_ += fmt::format(",{}", letter);
        return fmt::format("${}", result_count_ + static_cast<int>(call_.arguments.size()) - 1);
      }
      const size_t number = call_.results.size();
      call_.results.push_back({i, item, o.cls});
      outputs_ += fmt::format(",={}{}", early_, letter);
      if (o.reads()) {
        tied_.push_back({i, item, o.cls});
        ties_ += fmt::format(",{}", number);
      }
      return fmt::format("${}", number);
    });
  }

  static std::string list(const Operand& o, const std::function<std::string(int)>& item) {
    std::string text;
    for (int i = 0; i < o.count; ++i) text += (i ? ", " : "") + item(i);
    return o.list ? "{" + text + "}" : text;
  }

  void literal(std::string_view text) {
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '{' || text[i] == '}') ++i;  // a doubled brace
      if (text[i] == '$') call_.text += '$';
      call_.text += text[i];
    }
  }

  InlineAsm finish() {
    if (guarded_) {
      call_.arguments.push_back({InlineAsm::Register::kGuard, 0, Class::pred});
      inputs_ += ",b";
    }
    call_.arguments.insert(call_.arguments.end(), tied_.begin(), tied_.end());
    // An instruction with named registers must not be moved, even if it is otherwise pure, because LLVM does
    // not know the other instructions that use these registers.
    call_.stays = row_.effect == Effect::memory || names_registers_;
    call_.constraints = outputs_ + inputs_ + ties_ + (call_.stays ? ",~{memory}" : "");
    if (!call_.constraints.empty()) call_.constraints.erase(0, 1);
    return std::move(call_);
  }

  const Row& row_;
  std::span<const Filling> fillings_;
  bool guarded_, names_registers_ = false;
  std::string_view early_;
  int result_count_ = 0, input_count_ = 0;
  std::string outputs_, inputs_, ties_;
  std::string before_, behind_;  // statements before and after the instruction
  std::vector<InlineAsm::Register> tied_;
  InlineAsm call_ = {};
};

}  // namespace

void refuse_operand(const Row& row, const Operand& operand, std::string_view what) {
  throw Error(fmt::format("{}: operand '{}' {}, in \"{}\"", row.name, operand.name, what, row.syntax));
}

InlineAsm lower(const Row& row, std::span<const Filling> fillings, bool guarded) {
  return Lowering(row, fillings, guarded).run();
}

}  // namespace ptxbuilder::isa
