// Every instruction row through ptxas: it assembles alone at its floor, and not below. The text it is given
// is the row's own, so a row whose syntax, floor or operand class is wrong fails here. Of the manual, some of
// each form at their floors; `unit_tests rows_ptxas_test --every-row` asks of all rows at all targets, which
// takes some minutes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>

#include "cutlass_exceptions.h"
#include "ptxbuilder/compile/certify.h"
#include "ptxbuilder/isa/manual.h"
#include "ptxbuilder/isa/rows.h"
#include "rows_kit.h"

using namespace ptxbuilder;
using namespace ptxbuilder::test;
using isa::Row;

namespace {

const bool& every_row = option("every-row", false);

// The words of a few refusals below a floor in which ptxas names neither target nor .version: of a value of
// tensormap.replace, and of a result that is left out.
bool is_floor(std::string_view message) {
  return names_a_floor(message) || message.find("expected to be in range") != std::string_view::npos ||
         message.find("discard mode is not allowed") != std::string_view::npos;
}

// Assembles all, many to a module, in which ptxas names what it refuses in each; one that it does not name is
// asked about alone.
void check_refused_for_floor(const Ptxas& ptxas, std::vector<Entry> entries) {
  const auto batches = batches_of(entries);
  std::vector<std::string> failures = in_parallel(batches.size(), [&](size_t b) {
    auto [begin, end] = batches[b];
    const std::string all = refusal(ptxas, joined(entries, begin, end));
    std::string failure;
    for (size_t i = begin; i < end; ++i) {
      std::string about;
      std::istringstream lines(all);
      for (std::string line; std::getline(lines, line);)
        if (line.find(fmt::format("rows:{}:", i + 1)) != std::string::npos &&
            line.find("info") == std::string::npos)
          about += line;
      if (!is_floor(about)) about = refusal(ptxas, entries[i].module);
      if (!is_floor(about)) failure += named(entries[i], about.empty() ? "it is taken" : about);
    }
    return failure;
  });
  for (const std::string& failure : failures) CHECK_MESSAGE(failure.empty(), failure);
}

// The ends of what an operand may be, and a few numbers between.
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
    entries.push_back(
        {std::string(row.name), standalone_module(row, target, row.ptx_version), &target, row.ptx_version});
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
      below.push_back({std::string(row.name), standalone_module(row, of, version), &of, version});
    };
    if (const isa::Target* before = isa::target_before(row.targets.least().sm))
      add(*before, row.ptx_version);
    else
      ++no_target;
    std::optional<int> version = isa::version_before(row.ptx_version);
    if (version && *version >= target.ptx_version)  // else the target itself asks for as much
      add(target, *version);
    else
      ++no_version;
  }
  REQUIRE(below.size() > 300);
  MESSAGE(below.size() << " refusals; without a target below: " << no_target
                       << " rows, without a PTX version below: " << no_version << " rows");
  check_refused_for_floor(*ptxas, std::move(below));
}

TEST_CASE("rows of the manual assemble at their floors, and where they do not exist they are refused") {
  const Ptxas* ptxas = real_ptxas();
  if (!ptxas) return;
  // The first and the last of each form.
  std::vector<isa::MadeRow> rows;
  for (const isa::Form& form : isa::detail::kManual) {
    if (isa::detail::is_title(form)) continue;
    std::vector<isa::MadeRow> all;
    isa::for_each_row(form, [&](const isa::MadeRow& row) { all.push_back(row); });
    if (every_row)
      rows.insert(rows.end(), all.begin(), all.end());
    else
      rows.insert(rows.end(), {all.front(), all.back()});
  }
  std::vector<Entry> taken, refused;
  int no_target = 0, no_version = 0;
  for (const isa::MadeRow& made : rows) {
    const Row row = made.row();
    const isa::Target& least = row.targets.least();
    const auto add = [&](std::vector<Entry>& to, const isa::Target& target, int version) {
      to.push_back({std::string(row.name), standalone_module(row, target, version), &target, version});
    };
    const int floor = std::max(row.ptx_version, least.ptx_version);
    add(taken, least, floor);
    if (const auto below = isa::version_before(floor); below && *below >= least.ptx_version)
      add(refused, least, *below);
    else
      ++no_version;
    no_target += row.targets == isa::Targets::all();
    bool had_one = false;  // else than `least` that has it, and that has it not
    for (const isa::Target& target : isa::targets()) {
      if (target.sm == least.sm || (!every_row && (row.targets.has(target.sm) || had_one))) continue;
      had_one |= !row.targets.has(target.sm);
      add(row.targets.has(target.sm) ? taken : refused, target,
          std::max(row.ptx_version, target.ptx_version));
    }
  }
  REQUIRE(taken.size() > 1000);
  REQUIRE(refused.size() > 500);
  MESSAGE(rows.size() << " rows, " << taken.size() << " to be taken, " << refused.size()
                      << " to be refused; without a target that lacks it: " << no_target
                      << " rows, without a PTX version below: " << no_version << " rows");
  check_accepted(*ptxas, std::move(taken));
  check_refused_for_floor(*ptxas, std::move(refused));
}

// Code generation prints operands that are known while the kernel is built as numbers.
TEST_CASE("every scalar integer and predicate that a row reads may be a number") {
  const Ptxas* ptxas = real_ptxas();
  if (!ptxas) return;
  std::vector<Entry> entries;
  for (const Row& row : isa::rows()) {
    const isa::Target& target = row.targets.least();
    if (!row.takes_numbers()) continue;
    for (const isa::Operand& o : row.operands) {
      if (o.cls == isa::Class::imm || !o.takes_numbers()) continue;
      for (const int64_t number : sample_values(o)) {
        std::string module = standalone_module(row, target, row.ptx_version);
        std::string used = fmt::format("{}_0", o.name);
        size_t at = module.rfind(used);
        REQUIRE(at != std::string::npos);
        module.replace(at, used.size(), std::to_string(number));
        entries.push_back(
            {fmt::format("{} with {} = {}", row.name, o.name, number), module, &target, row.ptx_version});
      }
    }
  }
  REQUIRE(entries.size() > 200);
  check_accepted(*ptxas, std::move(entries));
}

// Those that the manual lacks for another reason have no like.
TEST_CASE("what CUTLASS writes and the manual lacks is refused at every target") {
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
