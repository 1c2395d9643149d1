// Checks that ptxas assembles every instruction row at its floor (its lowest target and .version), and
// refuses the row below its floor. The PTX is generated from the row, so that a row with a wrong syntax,
// floor or operand class fails here. By default, a form of the manual is tested with rows that together
// contain every choice, at their floors. `unit_tests rows_ptxas_test --every-row` tests all rows, as
// ask_all() describes, and runs for a few minutes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>

#include "cutlass_exceptions.h"
#include "form_rows.h"
#include "ptxbuilder/compile/certify.h"
#include "ptxbuilder/isa/manual.h"
#include "ptxbuilder/isa/rows.h"
#include "rows_kit.h"

namespace ptxbuilder::test::rows_ptxas_test {
using isa::Row;

namespace {

const bool& every_row = option("every-row", false);
const uint64_t& seed = option("seed", uint64_t{std::random_device()()});

// Returns whether a message refuses a row because of its floor. In a few refusals, ptxas names neither target
// nor .version: for a value of tensormap.replace, and for an omitted result.
bool is_floor(std::string_view message) {
  return names_a_floor(message) || message.find("expected to be in range") != std::string_view::npos ||
         message.find("discard mode is not allowed") != std::string_view::npos;
}

// Assembles all entries, many in one module, so that ptxas names the refused ones. An entry that it does not
// name is assembled alone.
void check_refused_for_floor(const Ptxas& ptxas, std::vector<Entry> entries) {
  const auto batches = batches_of(entries);
  std::vector<std::string> failures = in_parallel(batches.size(), [&](size_t b) {
    auto [begin, end] = batches[b];
    std::vector<std::string> about = said_of_each(refusal(ptxas, joined(entries, begin, end)), begin, end);
    std::string failure;
    for (size_t i = begin; i < end; ++i) {
      std::string& said = about[i - begin];
      if (!is_floor(said)) said = refusal(ptxas, entries[i]);
      if (!is_floor(said)) failure += named(entries[i], said.empty() ? "it is taken" : said);
    }
    return failure;
  });
  for (const std::string& failure : failures) CHECK_MESSAGE(failure.empty(), failure);
}

Entry entry_of(std::string what, const std::string& module, const isa::Target& target, int ptx_version) {
  return {Statement::of(std::move(what), module), &target, ptx_version};
}

// Returns the bounds of an operand, and a few numbers between them.
std::set<int64_t> sample_values(const isa::Operand& o) {
  std::set<int64_t> values = {o.least, o.greatest};
  for (const int64_t value : {0, 1, 32, -1})
    if (o.takes_number(value)) values.insert(value);
  return values;
}

}  // namespace

TEST_CASE("every row assembles at its floor") {
  const Ptxas* ptxas = real_ptxas();
  if (!ptxas) return;
  std::vector<Entry> entries;
  for (const Row& row : isa::rows()) {
    const isa::Target& target = row.targets.least();
    entries.push_back(entry_of(std::string(row.name), standalone_module(row, target, row.ptx_version), target,
                               row.ptx_version));
  }
  REQUIRE(entries.size() > 300);
  check_accepted(*ptxas, std::move(entries));
}

TEST_CASE("every row is refused one target and one PTX version below its floor") {
  const Ptxas* ptxas = real_ptxas();
  if (!ptxas) return;
  std::vector<Entry> below;
  int no_target = 0, no_version = 0;
  for (const Row& row : isa::rows()) {
    const isa::Target& target = row.targets.least();
    auto add = [&](const isa::Target& of, int version) {
      below.push_back(entry_of(std::string(row.name), standalone_module(row, of, version), of, version));
    };
    if (const isa::Target* before = isa::target_before(row.targets.least().sm))
      add(*before, row.ptx_version);
    else
      ++no_target;
    std::optional<int> version = isa::version_before(row.ptx_version);
    if (version && *version >= target.ptx_version)  // otherwise the target itself needs this version
      add(target, *version);
    else
      ++no_version;
  }
  REQUIRE(below.size() > 300);
  MESSAGE(below.size() << " refusals; without a target below: " << no_target
                       << " rows, without a PTX version below: " << no_version << " rows");
  check_refused_for_floor(*ptxas, std::move(below));
}

namespace {

// The requests to ptxas for rows of the manual.
struct Questions {
  std::vector<Entry> taken, refused;
  size_t rows = 0, no_target = 0, no_version = 0;

  void ask(const isa::MadeRow& row, const std::shared_ptr<const Statement>& statement,
           const isa::Target& target) {
    (row.targets.has(target.sm) ? taken : refused)
        .push_back({statement, &target, std::max(row.row().version_on(target.sm), target.ptx_version)});
  }
  // Tests a row at its minimum target and .version, at the previous .version, and at the targets that `also`
  // selects.
  void ask(const isa::MadeRow& row, const std::function<bool(const isa::Target&)>& also) {
    const isa::Target& least = row.targets.least();
    const auto statement = statement_of(row);
    const int floor = std::max(row.ptx_version, least.ptx_version);
    ++rows;
    ask(row, statement, least);
    if (const auto below = isa::version_before(floor); below && *below >= least.ptx_version)
      refused.push_back({statement, &least, *below});
    else
      ++no_version;
    no_target += row.targets == isa::Targets::all();
    for (const isa::Target& target : isa::targets())
      if (target.sm != least.sm && also(target)) ask(row, statement, target);
  }
  static std::shared_ptr<const Statement> statement_of(const isa::MadeRow& made) {
    const Row row = made.row();
    return Statement::of(std::string(row.name), standalone_module(row, row.targets.least(), row.ptx_version));
  }
};

// Tests rows that together have every choice of each axis, and the targets that lack such a row.
void ask_some(const isa::Form& form, Questions& questions) {
  for_each_choice(form, [&](const isa::MadeRow& row) {
    bool had_one = false;
    questions.ask(row, [&](const isa::Target& target) {
      const bool lacks_it = !row.targets.has(target.sm);
      return lacks_it && !std::exchange(had_one, had_one || lacks_it);
    });
  });
}

// Tests all rows at all targets. If a form has more than 1,000 rows, each row is tested at only one other
// target, and a set of rows that covers every pair of choices on any two axes is tested at all targets.
void ask_all(const isa::Form& form, std::mt19937_64& random, Questions& questions) {
  const bool many = count_rows(form) > 1000;
  isa::for_each_row(form, [&](const isa::MadeRow& row) {
    const size_t one = std::uniform_int_distribution<size_t>(0, isa::targets().size() - 1)(random);
    questions.ask(row, [&](const isa::Target& target) { return !many || &target == &isa::targets()[one]; });
  });
  if (many)
    for_each_pair(form, random, [&](const isa::MadeRow& row) {
      const auto statement = Questions::statement_of(row);
      for (const isa::Target& target : isa::targets()) questions.ask(row, statement, target);
    });
}

}  // namespace

TEST_CASE("rows of the manual assemble at their floors, and are refused where they do not exist") {
  const Ptxas* ptxas = real_ptxas();
  if (!ptxas) return;
  Questions questions;
  std::mt19937_64 random(seed);
  for (const isa::Form& form : isa::detail::kManual) {
    if (isa::detail::is_title(form)) continue;
    if (every_row)
      ask_all(form, random, questions);
    else
      ask_some(form, questions);
  }
  REQUIRE(questions.taken.size() > 1000);
  REQUIRE(questions.refused.size() > 500);
  MESSAGE(questions.rows << " rows, " << questions.taken.size() << " to be taken, "
                         << questions.refused.size()
                         << " to be refused; without a target that lacks it: " << questions.no_target
                         << " rows, without a PTX version below: " << questions.no_version
                         << " rows; --seed=" << seed);
  check_accepted(*ptxas, std::move(questions.taken));
  check_refused_for_floor(*ptxas, std::move(questions.refused));
}

// Code generation prints operands as numbers if they are known while the kernel is built.
TEST_CASE("every scalar integer and predicate that a row reads may be a number") {
  const Ptxas* ptxas = real_ptxas();
  if (!ptxas) return;
  std::vector<Entry> entries;
  size_t turn = 0;
  for (const Row& row : isa::rows()) {
    const isa::Target& target = row.targets.least();
    if (!row.takes_numbers()) continue;
    for (const isa::Operand& o : row.operands) {
      if (o.cls == isa::Class::imm || !o.takes_numbers()) continue;
      // Tests the bounds of this operand, and one of the numbers between them. The next operand gets a
      // different number.
      const std::set<int64_t> values = sample_values(o);
      size_t between = turn++;
      for (const int64_t number : values) {
        const bool is_end = number == o.least || number == o.greatest;
        if (!every_row && !is_end && between++ % (values.size() - 2) != 0) continue;
        std::string module = standalone_module(row, target, row.ptx_version);
        std::string used = fmt::format("{}_0", o.name);
        size_t at = module.rfind(used);
        REQUIRE(at != std::string::npos);
        module.replace(at, used.size(), std::to_string(number));
        entries.push_back(entry_of(fmt::format("{} with {} = {}", row.name, o.name, number), module, target,
                                   row.ptx_version));
      }
    }
  }
  REQUIRE(entries.size() > 200);
  check_accepted(*ptxas, std::move(entries));
}

// Instructions that the manual lacks for another reason have no similar row.
TEST_CASE("instructions of CUTLASS that the manual lacks are refused at every target") {
  const Ptxas* ptxas = real_ptxas();
  if (!ptxas) return;
  int refusals = 0;
  for (const CutlassException& e : kCutlassExceptions) {
    if (e.like.empty()) continue;
    const Row& like = isa::instruction(e.like);
    const std::string syntax =
        std::string(e.mnemonic) + std::string(like.syntax.substr(like.mnemonic().size()));
    const Row row = {e.mnemonic, syntax, like.effect, like.ptx_version};
    for (const isa::Target& target : isa::targets()) {
      CAPTURE(e.mnemonic);
      CAPTURE(target.name);
      CHECK((refusal(*ptxas, standalone_module(like, target, 90)) == "") == like.targets.has(target.sm));
      CHECK(refusal(*ptxas, standalone_module(row, target, 90)) != "");
      ++refusals;
    }
  }
  MESSAGE(refusals << " refusals");
}

}  // namespace ptxbuilder::test::rows_ptxas_test
