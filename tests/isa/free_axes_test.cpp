// Checks that every form of ld, st, atom and red that ptxas accepts has a row, and that ptxas accepts every
// row. Words of all axes are drawn in the manual's order, whether the combination is valid or not.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <random>

#include "ptxbuilder/isa/manual.h"
#include "rows_kit.h"

namespace ptxbuilder::test::free_axes_test {
namespace {

const uint64_t& seed = option("seed", uint64_t{std::random_device()()});
constexpr size_t kDraws = 4000;  // draws of each instruction

using Words = std::vector<std::string_view>;

const Words kSpaces = {"", "", ".global", ".global", ".shared", ".shared::cta", ".shared::cluster", ".local"};
const Words kScopes = {".cta", ".cluster", ".gpu", ".sys"};
const Words kLoadCaches = {
    "",    "",    "",    ".L1::evict_normal", ".L1::evict_unchanged", ".L1::evict_first",
    ".ca", ".cg", ".cv", ".L1::evict_last",   ".L1::no_allocate"};
const Words kStoreCaches = {
    "",    "",    "",    ".L1::evict_normal", ".L1::evict_unchanged", ".L1::evict_first",
    ".wb", ".cg", ".wt", ".L1::evict_last",   ".L1::no_allocate"};
const Words kPriorities = {"", "", "", "", ".L2::evict_normal", ".L2::evict_first", ".L2::evict_last"};
const Words kHints = {"", "", ".L2::cache_hint"};
const Words kPrefetches = {"", "", ".L2::64B", ".L2::128B", ".L2::256B"};
const Words kVectors = {"", "", ".v2", ".v4", ".v8"};
const std::map<std::string_view, std::string_view> kRegisters = {
    {"b8", "h"},   {"b16", "h"}, {"u8", "h"},   {"u16", "h"},   {"s8", "h"},    {"s16", "h"}, {"f16", "h"},
    {"bf16", "h"}, {"b32", "r"}, {"u32", "r"},  {"s32", "r"},   {"f32", "f"},   {"b64", "l"}, {"u64", "l"},
    {"s64", "l"},  {"f64", "d"}, {"b128", "q"}, {"f16x2", "r"}, {"bf16x2", "r"}};

class Draws {
 public:
  explicit Draws(uint64_t from) : engine_(from) {}

  template <class Range>
  auto of(const Range& range) {
    auto at = range.begin();
    std::advance(at, std::uniform_int_distribution<size_t>(0, range.size() - 1)(engine_));
    return *at;
  }

  // Returns a module that contains the instruction, and the key.
  std::pair<std::string, std::string> draw(std::string_view instruction) {
    const bool atomic = instruction == "atom" || instruction == "red", loads = instruction == "ld";
    const std::string_view space = of(kSpaces), hint = of(kHints), vector = of(kVectors);
    const auto [type, letter] = of(kRegisters);
    std::string key(instruction), operation;
    if (atomic) {
      key += of(Words{"", ".relaxed", ".acquire", ".release", ".acq_rel"});
      if (of(Words{"", "x"}) != "") key += of(kScopes);
    } else if (const std::string_view order =
                   of(Words{"", ".weak", ".volatile", ".relaxed", loads ? ".acquire" : ".release"});
               order.size() > 0) {
      key += order;
      if (order.size() == 8 && order != ".volatile") key += of(kScopes);
    }
    key += space;
    if (atomic) {
      operation =
          of(Words{".add", ".add", ".min", ".max", ".and", ".or", ".xor", ".inc", ".dec", ".exch", ".cas"});
      key += operation;
      if (type.ends_with("16") || type.ends_with("16x2")) key += ".noftz";
    } else {
      key += of(loads ? kLoadCaches : kStoreCaches);
      key += of(kPriorities);
    }
    key += hint;
    if (loads) key += of(kPrefetches);
    key += fmt::format("{}.{}", vector, type);

    const auto registers = [&](char name) {
      const int count = vector.empty() ? 1 : vector[2] - '0';
      std::string list;
      for (int i = 0; i < count; ++i) list += fmt::format("{}{}{}{}", i ? ", " : "", name, letter, i);
      return vector.empty() ? list : "{" + list + "}";
    };
    const std::string address = fmt::format("[{}]", space.starts_with(".shared") ? "narrow" : "wide");
    std::string operands = loads ? registers('x') + ", " + address : address + ", " + registers('x');
    if (instruction == "atom") operands = registers('y') + ", " + operands;
    if (operation == ".cas") operands += ", " + registers('z');
    if (!hint.empty()) operands += ", policy";
    return {fmt::format("{{\n{}\t{} {};\n\tret;\n}}\n", kDeclarations, key, operands), key};
  }

 private:
  static constexpr std::string_view kDeclarations =
      "\t.reg .b16 xh<8>, yh<8>, zh<8>;\n\t.reg .b32 narrow, xr<8>, yr<8>, zr<8>;\n"
      "\t.reg .f32 xf<8>, yf<8>, zf<8>;\n\t.reg .f64 xd<8>, yd<8>, zd<8>;\n"
      "\t.reg .b64 wide, policy, xl<8>, yl<8>, zl<8>;\n\t.reg .b128 xq<8>, yq<8>, zq<8>;\n";

  std::mt19937_64 engine_;
};

// Returns whether ptxas accepts a key that the manual does not allow. Such keys have eight numbers of 8 or 16
// bits, which sometimes crash ptxas, or combine an L2 priority with a cache operator or a volatile access.
bool is_left_out(std::string_view key) {
  const auto has = [&](std::string_view text) { return key.find(text) != std::string_view::npos; };
  if (key.starts_with("ld") || key.starts_with("st"))
    for (const std::string_view type :
         {".v8.b8", ".v8.u8", ".v8.s8", ".v8.b16", ".v8.u16", ".v8.s16", ".v8.f16", ".v8.bf16"})
      if (key.ends_with(type)) return true;
  if (!has(".L2::evict")) return false;
  for (const std::string_view word : {".volatile", ".ca.", ".cg.", ".cv.", ".wb.", ".wt."})
    if (has(word)) return true;
  return false;
}

}  // namespace

TEST_CASE("ptxas accepts exactly the forms of ld, st, atom and red that have rows") {
  const Ptxas* ptxas = real_ptxas();
  if (!ptxas) return;
  const isa::Target& target = isa::target(isa::Sm::sm_100a);
  Draws draws(seed);
  for (const std::string_view instruction : {"ld", "st", "atom", "red"}) {
    std::vector<Entry> entries;
    while (entries.size() < kDraws) {
      const auto [module, key] = draws.draw(instruction);
      if (is_left_out(key)) continue;
      entries.push_back({Statement::of(key, module), &target, 90});
    }
    const auto batches = batches_of(entries);
    std::atomic<size_t> taken = 0;
    for (const std::string& wrong : in_parallel(batches.size(), [&](size_t b) {
           const auto [begin, end] = batches[b];
           const std::vector<std::string> said =
               said_of_each(refusal(*ptxas, joined(entries, begin, end)), begin, end);
           std::string wrong;
           for (size_t i = begin; i < end; ++i) {
             const std::string& key = entries[i].statement->what;
             const bool has_row = isa::find_instruction(key) != nullptr;
             taken += has_row;
             if (said[i - begin].empty() != has_row)
               wrong +=
                   fmt::format("{} {}\n", key, has_row ? "has a row, but " + said[i - begin] : "has no row");
           }
           return wrong;
         }))
      CHECK_MESSAGE(wrong.empty(), wrong);
    MESSAGE(kDraws << " of " << instruction << ", " << taken.load() << " taken; --seed=" << seed);
    CHECK(taken > kDraws / 100);
  }
}

}  // namespace ptxbuilder::test::free_axes_test
