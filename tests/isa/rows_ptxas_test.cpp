// Every instruction row through ptxas: it assembles alone at its floor, and not below. The text it is given
// is the row's own, so a row whose syntax, floor or operand class is wrong fails here. Of the manual, some of
// each form at their floors; `unit_tests rows_ptxas_test --every-row` asks of all rows at all targets, which
// takes some minutes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "ptxas_kit.h"
#include "ptxbuilder/compile/certify.h"
#include "ptxbuilder/isa/manual.h"
#include "ptxbuilder/isa/rows.h"

using namespace ptxbuilder;
using isa::Row;
using test::real_ptxas;

namespace {

const bool& every_row = test::option("every-row", false);

// The words of a few refusals below a floor in which ptxas names neither target nor .version: of a value of
// tensormap.replace, and of a result that is left out.
bool is_floor(std::string_view message) {
  return names_a_floor(message) || message.find("expected to be in range") != std::string_view::npos ||
         message.find("discard mode is not allowed") != std::string_view::npos;
}

// What ptxas says against a module; "" when it takes it.
std::string refusal(const Ptxas& ptxas, const std::string& ptx) {
  try {
    ptxas.assemble(ptx);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

// Runs body(i) for i below `count` on all cores, and yields the messages in order.
std::vector<std::string> in_parallel(size_t count, const std::function<std::string(size_t)>& body) {
  std::vector<std::string> results(count);
  std::atomic<size_t> next = 0;
  std::vector<std::jthread> workers;
  for (unsigned t = 0; t < std::max(2u, std::thread::hardware_concurrency()); ++t)
    workers.emplace_back([&] {
      for (size_t i; (i = next++) < count;) results[i] = body(i);
    });
  workers.clear();  // joins
  return results;
}

// One kernel of a module, and what it is about.
struct Entry {
  std::string what, module;
  const isa::Target* target;
  int ptx_version;
};

// Kernel i of the result stands at "line" i + 1 of a file `rows`, by which messages name it.
std::string joined(const std::vector<Entry>& entries, size_t begin, size_t end) {
  std::string text;
  for (size_t i = begin; i < end; ++i) {
    const std::string& module = entries[i].module;
    size_t entry = module.find(".visible");
    if (i == begin) text = module.substr(0, entry) + ".file 1 \"rows\"\n";
    std::string kernel = module.substr(entry);
    kernel.replace(kernel.find("row()"), 5, fmt::format("row_{}()", i));
    kernel.insert(kernel.find("{\n") + 2, fmt::format("\t.loc 1 {} 1\n", i + 1));
    text += kernel;
  }
  return text;
}

// Ranges of entries for one target and .version each, 16 at most; sorts them.
std::vector<std::pair<size_t, size_t>> batches_of(std::vector<Entry>& entries) {
  auto key = [](const Entry& e) { return std::pair(e.target->sm, e.ptx_version); };
  std::sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    return std::pair(key(a), a.what) < std::pair(key(b), b.what);
  });
  std::vector<std::pair<size_t, size_t>> batches;
  for (size_t i = 0; i < entries.size(); ++i) {
    bool joins = !batches.empty() && key(entries[i]) == key(entries[batches.back().first]) &&
                 i - batches.back().first < 16;
    if (joins)
      batches.back().second = i + 1;
    else
      batches.emplace_back(i, i + 1);
  }
  return batches;
}

std::string named(const Entry& e, const std::string& text) {
  return fmt::format("{} for {}, PTX {}: {}\n", e.what, e.target->name, isa::version_text(e.ptx_version),
                     text);
}

// Assembles all, many to a module, and each of a module that is refused alone: a failure names its entry.
void check_accepted(const Ptxas& ptxas, std::vector<Entry> entries) {
  const auto batches = batches_of(entries);
  std::vector<std::string> failures = in_parallel(batches.size(), [&](size_t b) {
    auto [begin, end] = batches[b];
    std::string failure = refusal(ptxas, joined(entries, begin, end));
    if (failure.empty()) return failure;
    std::string alone;
    for (size_t i = begin; i < end; ++i)
      if (std::string text = refusal(ptxas, entries[i].module); !text.empty())
        alone += named(entries[i], text);
    return alone.empty() ? failure : alone;
  });
  for (const std::string& failure : failures) CHECK_MESSAGE(failure.empty(), failure);
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

bool is_scalar_integer(const isa::Operand& o) {
  using isa::Class;
  constexpr std::array classes = {Class::b16, Class::u16, Class::s16, Class::b32, Class::u32,
                                  Class::s32, Class::b64, Class::u64, Class::s64};
  return std::find(classes.begin(), classes.end(), o.cls) != classes.end();
}

// Numbers that the manual allows for an operand; a mask of all lanes is printed as -1.
std::vector<const char*> sample_values(const Row& row, const isa::Operand& o) {
  bool is_bar = row.mnemonic() == "bar.sync" || row.mnemonic() == "bar.arrive";
  bool is_bulk =
      row.mnemonic().starts_with("cp.async.bulk") || row.mnemonic().starts_with("cp.reduce.async.bulk");
  if (o.cls == isa::Class::pred || o.name == "parity") return {"0", "1"};
  if (is_bar && o.name == "id") return {"0", "15"};
  if (is_bar && o.name == "threads") return {"32", "1024"};
  if (o.name == "count") return {"1", "32"};
  if (is_bulk && o.name == "bytes") return {"16", "32768"};
  if (row.mnemonic().starts_with("cp.async.c") && o.name == "bytes") return {"0", "4"};
  return {"0", "1", "32", "-1"};
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
  MESSAGE(rows.size() << " rows, " << taken.size() << " to be taken, " << refused.size() << " to be refused");
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
      bool is_pred = o.cls == isa::Class::pred;
      if (o.access != isa::Access::read || o.list || !(is_pred || is_scalar_integer(o))) continue;
      for (const char* number : sample_values(row, o)) {
        std::string module = standalone_module(row, target, row.ptx_version);
        std::string used = fmt::format("{}_0", o.name);
        size_t at = module.rfind(used);
        REQUIRE(at != std::string::npos);
        module.replace(at, used.size(), number);
        entries.push_back(
            {fmt::format("{} with {} = {}", row.name, o.name, number), module, &target, row.ptx_version});
      }
    }
  }
  REQUIRE(entries.size() > 200);
  check_accepted(*ptxas, std::move(entries));
}
