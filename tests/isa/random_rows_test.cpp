// Tests random instructions with random operands, which may be legal or not. The library accepts or refuses
// them as it does for its callers (isa/lower.h), and ptxas checks the PTX of those that the library accepts.
// The notation of the row determines whether a draw is legal, so that all three must agree.
//
//   unit_tests random_rows_test --draws=20000           makes 20,000 draws (default: 1,500)
//   unit_tests random_rows_test --seed=42               repeats the draws of the seed in a failure message
//   unit_tests random_rows_test --seed=THAT --draws=1   repeats only the failing draw
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <random>

#include "ptxbuilder/isa/lower.h"
#include "ptxbuilder/isa/manual.h"
#include "ptxbuilder/isa/query.h"
#include "rows_kit.h"

namespace ptxbuilder::test::random_rows_test {
using isa::Class, isa::Filling, isa::InlineAsm, isa::Operand, isa::Row, isa::ValueCount;

namespace {

const int& draws = option("draws", 1500);
const uint64_t& first_seed = option("seed", uint64_t{std::random_device()()});

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  // Returns a number from 0 to `count` - 1.
  size_t below(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(engine_); }
  int64_t between(int64_t least, int64_t greatest) {
    return std::uniform_int_distribution<int64_t>(least, greatest)(engine_);
  }
  bool one_in(size_t n) { return below(n) == 0; }
  template <class T>
  const T& of(const std::vector<T>& items) {
    return items[below(items.size())];
  }

 private:
  std::mt19937_64 engine_;
};

// Returns the keys of each form of the manual.
const std::vector<std::vector<std::string>>& forms() {
  static const std::vector<std::vector<std::string>> all = [] {
    std::vector<std::vector<std::string>> keys;
    for (const isa::Form& form : isa::detail::kManual) {
      if (isa::detail::is_title(form)) continue;
      keys.emplace_back();
      isa::for_each_row(form, [&](const isa::MadeRow& row) { keys.back().emplace_back(row.name.view()); });
    }
    return keys;
  }();
  return all;
}

// The flaw of a draw.
enum class Flaw { none, key, too_few, too_many, guard, count, number, no_number, no_register };

struct Draw {
  std::string key;
  std::vector<Filling> fillings;
  bool guarded = false;
  Flaw flaw = Flaw::none;

  std::string text() const {
    std::string text = key + (guarded ? " guarded," : "");
    for (const Filling& f : fillings) {
      if (auto* value = std::get_if<int64_t>(&f)) text += fmt::format(" {}", *value);
      if (auto* given = std::get_if<ValueCount>(&f)) text += fmt::format(" {} values", given->count);
      if (auto* names = std::get_if<Registers>(&f)) text += fmt::format(" {} registers", names->count);
    }
    return text;
  }
};

// Returns a mnemonic in which one word is omitted, duplicated, or replaced by a word of another mnemonic. The
// manual may still have the result.
std::string disturbed(const std::string& key, Random& random) {
  const auto words_of = [](const std::string& text) {
    std::vector<std::string> words(1);
    for (const char c : text) {
      if (c == '.' || c == ' ') words.emplace_back();
      words.back() += c;
    }
    return words;
  };
  std::vector<std::string> words = words_of(key);
  const size_t at = random.below(words.size());
  switch (random.below(3)) {
    case 0:
      words[at] = random.of(words_of(random.of(random.of(forms()))));
      break;
    case 1:
      words.insert(words.begin() + static_cast<int>(at), words[at]);
      break;
    case 2:
      words.erase(words.begin() + static_cast<int>(at));
      break;
  }
  std::string text;
  for (const std::string& word : words) text += word;
  return text;
}

// Returns a legal number for the operand, often at one of its bounds.
int64_t legal_number(const Operand& o, Random& random) {
  std::vector<int64_t> numbers;
  if (o.doubles) {
    for (int64_t value = o.least; value <= o.greatest; value *= 2) numbers.push_back(value);
  } else if (o.step > 1) {
    const int64_t steps = (o.greatest - o.least) / o.step;
    for (const int64_t n : {int64_t{0}, steps, random.between(0, steps)})
      numbers.push_back(o.least + n * o.step);
  } else {
    numbers = {o.least, o.greatest, random.between(o.least, o.greatest)};
    if (o.least <= 0 && o.greatest >= 1) numbers.push_back(random.between(0, 1));
  }
  return random.of(numbers);
}

// Returns an illegal number, if there is one.
std::optional<int64_t> illegal_number(const Operand& o, Random& random) {
  std::vector<int64_t> numbers;
  if (o.least > INT64_MIN) numbers.insert(numbers.end(), {o.least - 1, INT64_MIN});
  if (o.greatest < INT64_MAX) numbers.insert(numbers.end(), {o.greatest + 1, INT64_MAX});
  if (o.step > 1) numbers.insert(numbers.end(), {o.least + 1, o.least + o.step - 1});
  if (o.doubles && o.greatest > 2) numbers.insert(numbers.end(), {o.greatest - 1, o.least * 3});
  return numbers.empty() ? std::nullopt : std::optional(random.of(numbers));
}

bool may_be_number(const Row& row, const Operand& o) {
  return o.cls == Class::imm || (row.takes_numbers() && o.takes_numbers());
}

Registers named_registers(const Operand& o, int first, int count) {
  return {fmt::format("named_{}_", o.name), first, count};
}

Filling legal_filling(const Row& row, const Operand& o, Random& random) {
  if (o.cls == Class::imm) return legal_number(o, random);
  if (may_be_number(row, o) && random.one_in(2)) return legal_number(o, random);
  if (random.one_in(6)) return named_registers(o, static_cast<int>(random.below(3)), o.count);
  return ValueCount{o.count};
}

// Draws the operands of a row and perhaps one flaw, which `draw` then names.
void draw_operands(const Row& row, Random& random, Draw& draw) {
  std::vector<const Operand*> read;
  bool writes_only = false;
  for (const Operand& o : row.operands) {
    if (o.reads()) {
      read.push_back(&o);
      draw.fillings.push_back(legal_filling(row, o, random));
    } else {
      writes_only = true;
    }
  }
  draw.guarded = !writes_only && random.one_in(4);
  if (!random.one_in(3)) return;
  size_t at = read.empty() ? 0 : random.below(read.size());
  const auto spoil = [&](Flaw flaw, Filling filling) {
    draw.flaw = flaw;
    draw.fillings[at] = std::move(filling);
  };
  switch (random.below(read.empty() ? 3 : 6)) {
    case 0:
      draw.fillings.push_back(ValueCount{});
      draw.flaw = Flaw::too_many;
      break;
    case 1:
      if (!writes_only) break;
      draw.guarded = true;
      draw.flaw = Flaw::guard;
      break;
    case 2:
      if (read.empty()) break;
      draw.fillings.erase(draw.fillings.begin() + static_cast<int>(at));
      draw.flaw = Flaw::too_few;
      break;
    case 3:
      // Few rows have an immediate. Without this rule, one in 50 runs of 1,500 draws would have no flawed
      // immediate.
      if (const auto immediate = std::ranges::find(read, Class::imm, &Operand::cls);
          immediate != read.end() && !random.one_in(8))
        at = static_cast<size_t>(immediate - read.begin());
      if (read[at]->cls == Class::imm)
        spoil(Flaw::no_register,
              random.one_in(2) ? Filling(ValueCount{1}) : named_registers(*read[at], 0, 1));
      else
        spoil(Flaw::count, random.one_in(2) ? Filling(ValueCount{read[at]->count + 1})
                                            : named_registers(*read[at], 0, read[at]->count - 1));
      break;
    default:
      if (!may_be_number(row, *read[at]))
        spoil(Flaw::no_number, random.between(0, 100));
      else if (const std::optional<int64_t> number = illegal_number(*read[at], random))
        spoil(Flaw::number, *number);
      break;
  }
}

// Returns a module with one kernel that contains the output of lower(), with registers of the necessary
// classes.
std::string module_of(const Row& row, const Draw& draw, const InlineAsm& call, const isa::Target& target,
                      int ptx_version) {
  std::string declarations, body;
  std::vector<Class> classes;
  for (const InlineAsm::Register& r : call.results) classes.push_back(r.cls);
  for (const InlineAsm::Register& r : call.arguments) classes.push_back(r.cls);
  for (size_t i = 0; i < classes.size(); ++i)
    declarations +=
        fmt::format("\t.reg {} r{};\n", classes[i] == Class::b8 ? ".b16" : register_type(classes[i]), i);
  auto filling = draw.fillings.begin();
  for (const Operand& o : row.operands) {
    if (!o.reads()) continue;
    if (auto* names = std::get_if<Registers>(&*filling++))
      declarations +=
          fmt::format("\t.reg {} {}<{}>;\n", register_type(o.cls), names->base, names->first + names->count);
  }
  for (size_t i = 0; i < call.text.size(); ++i) {
    if (call.text[i] != '$')
      body += call.text[i];
    else if (call.text[i + 1] == '$')
      body += call.text[++i];
    else
      body += 'r';
  }
  return fmt::format(
      ".version {}\n.target {}\n.address_size 64\n.visible .entry row()\n.maxntid 128\n.minnctapersm "
      "1\n{{\n{}\t{}\n\tret;\n}}\n",
      isa::version_text(ptx_version), target.name, declarations, body);
}

struct Counts {
  std::map<Flaw, int> flaws;
  int accepted = 0, refused = 0;
};

// Draws with a seed and calls the library. Appends an accepted draw to `entries`, and returns any
// disagreement.
std::string draw_one(uint64_t seed, std::vector<Entry>& entries, Counts& counts) {
  Random random(seed);
  Draw draw;
  draw.key = random.of(random.of(forms()));
  if (random.one_in(8)) draw.key = disturbed(draw.key, random);
  const Row* row = isa::find_instruction(draw.key);
  if (!row) {
    draw.flaw = Flaw::key;
    ++counts.flaws[draw.flaw];
    ++counts.refused;
    return "";
  }
  draw_operands(*row, random, draw);
  ++counts.flaws[draw.flaw];
  const std::string what = fmt::format("--seed={} --draws=1: {}", seed, draw.text());
  const std::string refusal = isa::validate(*row, draw.fillings, draw.guarded);
  ++(refusal.empty() ? counts.accepted : counts.refused);
  if (draw.flaw == Flaw::none && !refusal.empty()) return what + ": legal, but refused: " + refusal;
  if (draw.flaw != Flaw::none && refusal.empty()) return what + ": illegal, but not refused";
  if (!refusal.empty()) return refusal.find(row->name) == std::string::npos ? what + ": " + refusal : "";
  std::vector<const isa::Target*> has_it;
  for (const isa::Target& target : isa::targets())
    if (row->targets.has(target.sm)) has_it.push_back(&target);
  const isa::Target& target = *random.of(has_it);
  const int ptx_version = std::max(row->version_on(target.sm), target.ptx_version);
  const InlineAsm call = isa::lower(*row, draw.fillings, draw.guarded);
  entries.push_back(
      {Statement::of(what, module_of(*row, draw, call, target, ptx_version)), &target, ptx_version});
  return "";
}

}  // namespace

TEST_CASE("ptxas accepts the operands that the library accepts, and the library refuses illegal ones") {
  const Ptxas* ptxas = real_ptxas();
  if (!ptxas) return;
  std::vector<Entry> entries;
  Counts counts;
  std::vector<std::string> disagreements;
  for (int i = 0; i < draws; ++i) {
    std::string wrong = draw_one(first_seed + static_cast<uint64_t>(i), entries, counts);
    if (!wrong.empty()) disagreements.push_back(std::move(wrong));
  }
  for (std::string& refused : refused(*ptxas, std::move(entries)))
    disagreements.push_back(std::move(refused));
  for (const std::string& d : disagreements) FAIL_CHECK(d);
  MESSAGE(draws << " draws from --seed=" << first_seed << ": " << counts.accepted << " accepted, "
                << counts.refused << " refused (" << counts.flaws[Flaw::key] << " by the mnemonic), "
                << disagreements.size() << " disagreements");
  if (draws >= 1000) {
    CHECK(counts.accepted > draws / 3);
    for (const Flaw flaw : {Flaw::key, Flaw::too_few, Flaw::too_many, Flaw::guard, Flaw::count, Flaw::number,
                            Flaw::no_number, Flaw::no_register})
      CHECK(counts.flaws[flaw] > 0);
  }
}

}  // namespace ptxbuilder::test::random_rows_test
