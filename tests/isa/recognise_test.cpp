// Tests that the row of a PTX instruction is found again from its text. Text without a row must be refused,
// and the message must name the nearest row.
//
//   unit_tests recognise_test --draws=10000   draws 10,000 instructions, and a fifth as many near misses
//   unit_tests recognise_test --seed=42       repeats the draws of that seed
#include "ptxbuilder/isa/recognise.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "options.h"
#include "ptxbuilder/isa/nearest.h"

namespace ptxbuilder::test::recognise_test {
using isa::Class, isa::MadeRow, isa::Operand, isa::Row;

namespace {

const int& draws = option("draws", 10000);
const uint64_t& seed = option("seed", uint64_t{std::random_device()()});

class Random {
 public:
  size_t below(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(engine_); }

 private:
  std::mt19937_64 engine_{seed};
};

// Returns the forms of the manual, including those with names.
std::vector<const isa::Form*> forms() {
  std::vector<const isa::Form*> all;
  for (const isa::Form& form : isa::detail::kManual)
    if (!isa::detail::is_title(form)) all.push_back(&form);
  for (const char* word :
       {"bra", "brx", "call", "ld", "st", "mov", "vadd", "vshr4", "vmad", "vset", "vset2", "vavrg4"})
    for (const isa::Form* form : isa::forms_of(word))
      if (isa::has_names(*form)) all.push_back(form);
  return all;
}

MadeRow random_row(const isa::Form& form, Random& random) {
  isa::Choices choices;
  for (const std::vector<isa::Choice>& axis : isa::axes_of(form))
    choices.push(axis[random.below(axis.size())]);
  return isa::detail::row_of(form, choices);
}

// An instruction as the parser returns it, and the types of its registers.
struct Printed {
  ptx_text::Instruction instruction;
  std::map<std::string, std::string_view, std::less<>> types;

  isa::Recognised recognised() const {
    return isa::recognise(instruction, [&](std::string_view name) {
      const auto found = types.find(name);
      return found == types.end() ? std::string_view() : found->second;
    });
  }
};

// Prints the row with registers of its own types, or with numbers if they are allowed.
Printed print(const Row& row, Random& random) {
  Printed printed;
  std::string text = ".entry x() { ";
  size_t done = 0;
  const auto copy = [&](size_t to) {
    for (; done < to; ++done) {
      text += row.syntax[done];
      if (row.syntax[done] == '{' || row.syntax[done] == '}') ++done;
    }
  };
  for (size_t h = 0; h < row.operands.hole_count; ++h) {
    const isa::Hole& hole = row.operands.holes[h];
    const Operand& o = row.operands[hole.operand];
    copy(hole.begin);
    done = hole.end;
    const bool in_address = text.back() == '[';
    // 0 may be a predicate or a count of bytes.
    const bool takes_number = !o.list && !in_address && o.cls != Class::pred;
    if (o.cls == Class::imm || (o.takes_numbers() && takes_number && random.below(4) == 0)) {
      text += std::to_string(random.below(2) == 0 ? o.least : o.greatest);
      continue;
    }
    if (o.cls == Class::names) {
      text += "(first, second)";
      continue;
    }
    std::string list;
    for (int i = 0; i < o.count; ++i) {
      const std::string name = fmt::format("%{}_{}", o.name, i);
      printed.types[name] = isa::register_type(o.cls);
      list += (i == 0 ? "" : ", ") + name;
    }
    text += o.list ? "{" + list + "}" : list;
    if (in_address && random.below(3) == 0) text += "+16";
  }
  copy(row.syntax.size());
  printed.instruction = ptx_text::parse(text + " }").statements[0].function[0].body[0].instruction;
  return printed;
}

std::vector<std::string> words_of(std::string_view mnemonic) {
  std::vector<std::string> words(1);
  for (const char c : mnemonic) {
    if (c == '.')
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

size_t differing(std::vector<std::string> one, std::vector<std::string> other) {
  std::ranges::sort(one);
  std::ranges::sort(other);
  std::vector<std::string> differ;
  std::ranges::set_symmetric_difference(one, other, std::back_inserter(differ));
  return differ.size();
}

}  // namespace

TEST_CASE("a random instruction of the manual gives back the row that printed it, and its operands") {
  CAPTURE(seed);
  Random random;
  const std::vector<const isa::Form*> all = forms();
  for (int n = 0; n < draws; ++n) {
    const MadeRow made = random_row(*all[random.below(all.size())], random);
    const Row row = made.row(isa::Names::some);
    const Printed printed = print(row, random);
    const isa::Recognised known = printed.recognised();
    INFO(ptx_text::print(printed.instruction));
    REQUIRE(known);
    CHECK(known.row->name == row.name);
    CHECK(known.row->syntax == row.syntax);
    for (size_t i = 0; i < row.operands.size(); ++i) {
      const ptx_text::Operand* o = known[row.operands[i].name];
      REQUIRE(o != nullptr);
      const bool has_parts =
          o->kind == ptx_text::Operand::Kind::vector || o->kind == ptx_text::Operand::Kind::unary;
      const ptx_text::Operand& first = has_parts && !o->parts.empty() ? o->parts[0] : *o;
      const ptx_text::Operand& base = first.kind == ptx_text::Operand::Kind::binary ? first.parts[0] : first;
      if (base.kind == ptx_text::Operand::Kind::name)
        CHECK(base.text == fmt::format("%{}_0", row.operands[i].name));
    }
  }
}

TEST_CASE("a near miss is refused, and the nearest row is named with what differs") {
  CAPTURE(seed);
  Random random;
  const std::vector<const isa::Form*> all = forms();
  for (int n = 0; n < draws / 5; ++n) {
    const MadeRow made = random_row(*all[random.below(all.size())], random);
    const Row row = made.row(isa::Names::some);
    std::vector<std::string> words = words_of(row.mnemonic());
    if (words.size() < 3) continue;
    Printed printed = print(row, random);
    const size_t at = 1 + random.below(words.size() - 1);
    size_t changes = 1;
    switch (random.below(3)) {
      case 0:
        words.erase(words.begin() + static_cast<int>(at));
        break;
      case 1:
        std::swap(words[at], words[at == 1 ? 2 : at - 1]);
        changes = 0;
        break;
      case 2:
        words[at] =
            words_of(random_row(*all[random.below(all.size())], random).name.view().substr(0, 40)).back();
        changes = 2;
    }
    std::string& opcode = printed.instruction.opcode;
    opcode = words[0];
    for (size_t w = 1; w < words.size(); ++w) opcode += "." + words[w];
    bool is_one = opcode.find(' ') != std::string::npos;
    isa::for_each_row_of(opcode, [&](const isa::Form&, const isa::Choices&) { is_one = true; });
    if (is_one) continue;
    INFO(row.mnemonic() << " disturbed: " << opcode);
    CHECK_FALSE(printed.recognised());
    const isa::Nearest near = isa::nearest(opcode);
    CHECK(differing(words_of(near.mnemonic), words) <= changes);
    CHECK(isa::why_unknown(printed.instruction).find(near.mnemonic + " is nearest: ") == 0);
  }
}

TEST_CASE("differences are described in words") {
  for (const auto& [text, why] : std::initializer_list<std::pair<std::string_view, std::string_view>>{
           {"mbarrier.init.shared::cta.b65 [%r], 1",
            "mbarrier.init.shared::cta.b64 is nearest: .b65 is given instead of .b64"},
           {"fence.proxy.async.global.sys", "fence.proxy.async.global is nearest: .sys is one word too many"},
           {"wgmma.fence.aligned", "wgmma.fence.sync.aligned is nearest: .sync is left out"},
           {"fence.gpu.sc", "fence.sc.gpu is nearest: .gpu and .sc are swapped"},
           {"frobnicate.b32 %r", "no instruction begins with this word"},
           {"add.s32 %r, %r", "its operands should be: add.s32 {d:=s32}, {a:s32}, {b:s32};"},
           {"setmaxnreg.inc.sync.aligned.u32 25",
            "its operands should be: setmaxnreg.inc.sync.aligned.u32 {registers:imm<24..256/8>};"}}) {
    const auto module = ptx_text::parse(fmt::format(".entry x() {{ {}; }}", text));
    const ptx_text::Instruction& instruction = module.statements[0].function[0].body[0].instruction;
    CHECK_FALSE(isa::recognise(instruction));
    CHECK(isa::why_unknown(instruction) == why);
  }
}

TEST_CASE(
    "ptxas accepts more than the manual's syntax: negated predicates, discarded results, vectors by name, "
    "braces") {
  for (const auto& [text, key] : std::initializer_list<std::pair<std::string_view, std::string_view>>{
           {"selp.b32 %r, 1, %q, !%p", "selp.b32"},
           {"vote.sync.any.pred %p, !%q, -1", "vote.sync.any.pred not"},
           {"ld.global.v2.u32 {_, %r}, [x+4]", "ld.global.v2.u32"},
           {"ld.shared.v4.f32 %v, [%r]", "ld.shared.v4.f32"},
           {"mov.b64 {_, %r}, %rd", "mov.b64 high"},
           {"mov.u32 %r, %tid.x", "mov.u32 %tid.x"},
           {"setp.eq.s32 %p|_, %r, 0", "setp.eq.s32 pair"},
           {"mov.pred %p, -1", "mov.pred"},
           {"ld.global.b32 {%r}, [%rd+0]", "ld.global.b32"},
           {"ld.param.u64 %rd, [k_param_0]", "ld.param.u64"},
           {"st.param.v2.b32 [out+8], {%r, 1}", "st.param.v2.b32"},
           {"ld.global.L1::no_allocate.f32 %f, [%rd].unified", "ld.global.L1::no_allocate.f32 unified"},
           {"vmad.s32.s32.u32.sat %r, %q.b0, -%p, 7", "vmad.s32.s32.u32.sat"},
           {"mov.v2.f32 {%a, _}, {%b, 0f00000000}", "mov.v2.f32"},
           {"call.uni (r), f, (a, b)", "call.uni both"},
           {"bra.uni $L1", "bra.uni"}}) {
    const auto module = ptx_text::parse(fmt::format(".entry x() {{ {}; }}", text));
    const isa::Recognised known = isa::recognise(module.statements[0].function[0].body[0].instruction);
    CAPTURE(text);
    REQUIRE(known);
    CHECK(known.row->name == key);
  }
}

}  // namespace ptxbuilder::test::recognise_test
