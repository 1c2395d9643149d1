// Tests the instruction table: the grammar of its rows, targets, families that loops generate, and element
// types.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "error_kit.h"
#include "ptxbuilder/dtype.h"
#include "ptxbuilder/isa/query.h"
#include "ptxbuilder/isa/rows.h"

namespace ptxbuilder::test::isa_test {
using namespace isa;

namespace {

// Returns what is wrong with a syntax line, in the words of parse(), or "" if nothing is.
std::string reason(std::string_view syntax) {
  try {
    parse(syntax);
    return "";
  } catch (const char* text) {
    return text;
  }
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string here(unsigned line) { return "isa_test.cpp:" + std::to_string(line); }

}  // namespace

TEST_CASE("every form of a hole") {
  constexpr std::string_view text =
      "op.x {d:=u32}, {acc:+f32x4}, {a:b64}, [{bar:smem}, {{{c:s32}}}], {n:imm<24..256/8>}, {m:imm<-1..1>};";
  constexpr Operands o = parse(text);
  static_assert(o.size() == 7);
  static_assert(o[0].name == "d" && o[0].cls == Class::u32 && o[0].access == Access::write && !o[0].list);
  static_assert(o[0].writes() && !o[0].reads());
  static_assert(o[1].name == "acc" && o[1].cls == Class::f32 && o[1].access == Access::read_write);
  static_assert(o[1].list && o[1].count == 4 && o[1].reads() && o[1].writes());
  static_assert(o[2].cls == Class::b64 && o[2].access == Access::read && o[2].reads() && !o[2].writes());
  static_assert(o[2].count == 1 && !o[2].list);
  static_assert(o[3].name == "bar" && o[3].cls == Class::smem);
  static_assert(o[4].name == "c" && o[4].cls == Class::s32);
  static_assert(o[5].cls == Class::imm && o[5].least == 24 && o[5].greatest == 256 && o[5].step == 8);
  static_assert(o[6].least == -1 && o[6].greatest == 1 && o[6].step == 1);
  static_assert(o.hole_count == 7);
  for (size_t h = 0; h < o.hole_count; ++h) {
    const Hole& hole = o.holes[h];
    CHECK(hole.operand == h);
    CHECK(text[hole.begin] == '{');
    CHECK(text[hole.end - 1] == '}');
    CHECK(contains(text.substr(hole.begin, hole.end - hole.begin), o[h].name));
  }
  // A syntax may use the same operand again.
  constexpr std::string_view again = "mad.lo.u32 {d:=u32}, {a:u32}, {b:u32}, {a}; mov.b32 {b}, {d};";
  constexpr Operands three = parse(again);
  static_assert(three.size() == 3 && three.hole_count == 6);
  static_assert(three.holes[3].operand == 1 && three.holes[4].operand == 2 && three.holes[5].operand == 0);
  CHECK(again.substr(three.holes[3].begin, three.holes[3].end - three.holes[3].begin) == "{a}");
  static_assert(parse("trap;").size() == 0);
  static_assert(parse("{{ }}").size() == 0);
  static_assert(parse("{a:f32x1}")[0].list && parse("{a:f32x1}")[0].count == 1);
}

TEST_CASE("every class can be named, and has a register type and a constraint") {
  for (const detail::ClassName& c : detail::kClasses) {
    CAPTURE(c.name);
    CHECK(name(c.cls) == c.name);
    if (c.cls == Class::imm) {
      CHECK(register_type(c.cls) == "");
      continue;
    }
    const std::string hole = "{a:" + std::string(c.name) + "}";
    CHECK(parse(hole, Names::some)[0].cls == c.cls);
    if (c.cls == Class::name || c.cls == Class::names)
      CHECK(error_of([&] {
              parse_at(hole, Where::here());
            }).find("a hole has the class of a name, which calls cannot pass") != std::string::npos);
    else
      CHECK(register_type(c.cls).starts_with('.'));
  }
  auto both = [](Class cls) { return std::string(register_type(cls)) + constraint(cls); };
  CHECK(both(Class::pred) == ".predb");
  for (Class cls : {Class::b16, Class::u16, Class::s16, Class::f16, Class::bf16}) CHECK(both(cls) == ".b16h");
  for (Class cls : {Class::b32, Class::u32, Class::s32, Class::smem, Class::cluster})
    CHECK(both(cls) == ".b32r");
  for (Class cls : {Class::b64, Class::u64, Class::s64, Class::gmem, Class::generic, Class::tmap})
    CHECK(both(cls) == ".b64l");
  CHECK(both(Class::f32) == ".f32f");
  CHECK(both(Class::f64) == ".f64d");
}

TEST_CASE("the numbers that an operand may be") {
  const auto bounds = [](std::string_view hole) { return bounds_text(parse(hole)[0]); };
  CHECK(bounds("{a:u16}") == "from -32768 to 65535");
  CHECK(bounds("{a:pred}") == "from 0 to 1");
  CHECK(bounds("{a:u32<0..15>}") == "from 0 to 15");
  CHECK(bounds("{a:imm<24..256/8>}") == "from 24 to 256 in steps of 8");
  CHECK(bounds("{a:u32<32..512*2>}") == "from 32 to 512, each twice the previous one");
  for (std::string_view hole : {"{a:u32<>}", "{a:f32}", "{a:smem}", "{a:b32x2}", "{a:=u32}", "{a:+u32}"})
    CHECK_FALSE(parse(hole)[0].takes_numbers());
  constexpr Operand stepped = parse("{a:imm<24..256/8>}")[0], doubled = parse("{a:u32<32..512*2>}")[0];
  for (int64_t value : {24, 32, 256}) CHECK(stepped.takes_number(value));
  for (int64_t value : {16, 28, 264}) CHECK_FALSE(stepped.takes_number(value));
  for (int64_t value : {32, 64, 512}) CHECK(doubled.takes_number(value));
  for (int64_t value : {0, 16, 96, 1024, -32}) CHECK_FALSE(doubled.takes_number(value));
  CHECK(parse("{a:u64}")[0].takes_number(INT64_MIN));
  const auto lowered = [](int64_t id) {
    return validate(rows_def::bar_sync, std::vector<Filling>{id, int64_t{64}});
  };
  CHECK(lowered(15) == "");
  CHECK(lowered(16).starts_with("bar_sync: operand 'id' must be from 0 to 15, but is 16"));
}

TEST_CASE("syntax that the parser refuses, each with a similar one that it accepts") {
  struct Case {
    std::string_view good, bad, why;
  };
  const Case cases[] = {
      {"{a:u32}", "{a}", "a hole needs a name and, the first time, a class"},
      {"{a:u32}", "{:u32}", "a hole needs a name and, the first time, a class"},
      {"{a:u32}", "{}", "a hole needs a name and, the first time, a class"},
      {"{a:u32}", "{a:u33}", "a hole has an unknown class"},
      {"{a:u32}", "{a:}", "a hole has an unknown class"},
      {"{a:=u32}", "{a:-u32}", "a hole has an unknown class"},
      {"{a:imm<0..1>}", "{a:imm}", "an immediate needs bounds"},
      {"{a:imm<0..1>}", "{a:imm<0..1}", "a hole has an unknown class"},
      {"{a:imm<0..1>}", "{a:imm<1>}", "bounds are <least..greatest>"},
      {"{a:u32<>}", "{a:imm<>}", "an immediate needs bounds"},
      {"{a:u32<0..1>}", "{a:=u32<0..1>}", "an operand that is written cannot have bounds"},
      {"{a:u32x4}", "{a:u32<0..1>x4}", "a hole has an unknown class"},
      {"{a:u32<1..4*2>}", "{a:u32<0..4*2>}", "a least value that doubles is at least 1"},
      {"{a:u32<1..4*2>}", "{a:u32<1..4*3>}", "a character that is not a digit"},
      {"{a:imm<0..1>}", "{a:=imm<0..1>}", "an operand that is written cannot have bounds"},
      {"{a:imm<0..1>}", "{a:+imm<0..1>}", "an operand that is written cannot have bounds"},
      {"{a:imm<0..1>}", "{a:imm<..1>}", "a number is missing"},
      {"{a:imm<0..1>}", "{a:imm<0..>}", "a number is missing"},
      {"{a:imm<-1..1>}", "{a:imm<-..1>}", "a number is missing"},
      {"{a:imm<0..8/2>}", "{a:imm<0..8/>}", "a number is missing"},
      {"{a:imm<0..8/2>}", "{a:imm<0..8/0>}", "a step is at least 1"},
      {"{a:imm<0..8>}", "{a:imm<8..0>}", "the least value is above the greatest"},
      {"{a:imm<0..1>}", "{a:imm<0..z>}", "a character that is not a digit"},
      {"{a:f32x4}", "{a:f32x}", "a number is missing"},
      {"{a:f32x4}", "{a:f32xy}", "a character that is not a digit"},
      {"{a:f32x1}", "{a:f32x0}", "a list holds at least one register"},
      {"{a:f32x1}", "{a:f32x-1}", "a list holds at least one register"},
      {"{{", "{", "a hole is not closed"},
      {"{a:u32}", "{a:u32", "a hole is not closed"},
      {"}}", "}", "a '}' does not close a hole"},
      {"{a:u32}}}", "{a:u32}}", "a '}' does not close a hole"},
      {"{a:u32}, {b:u32}", "{a:u32}, {a:u32}", "two holes have the same name"},
      {"{a:u32}, {a}", "{a}, {a:u32}", "a hole needs a name and, the first time, a class"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.bad);
    CHECK(reason(c.good) == "");
    CHECK(contains(reason(c.bad), c.why));
  }
  std::string sixteen;
  for (int i = 0; i < 16; ++i) sixteen += "{a" + std::to_string(i) + ":u32} ";
  CHECK(reason(sixteen) == "");
  CHECK(contains(reason(sixteen + "{b:u32}"), "at most 16 operands"));
}

TEST_CASE("text that comes at run time is refused with the text and the caller's line") {
  CHECK(parse_at("mov.u32 {d:=u32}, 1;", Where::here()).size() == 1);
  std::string text = error_of([] { parse_at("mov.u32 {d:=u31}, 1;", Where::here()); });
  CHECK(contains(text, "unknown class"));
  CHECK(contains(text, "\"mov.u32 {d:=u31}, 1;\""));
  CHECK(contains(text, here(__LINE__ - 3)));
}

TEST_CASE("targets") {
  Sm last = Sm{};
  for (const Target& t : targets()) {
    CHECK(t.sm > last);
    last = t.sm;
    CHECK(&target(t.name) == &t);
    CHECK(&target(t.sm) == &t);
  }
  CHECK(target("sm_90a").ptx_version == 80);
  std::string text = error_of([] { target("sm_91"); });
  CHECK(contains(text, here(__LINE__ - 1)));
  CHECK(contains(text, "'sm_91' is not one of sm_75, sm_80, sm_86, sm_89, sm_90, sm_90a"));
  CHECK(error_of([] { target(static_cast<Sm>(1)); }) != "");
  CHECK(version_text(80) == "8.0");
  CHECK(version_text(63) == "6.3");
}

TEST_CASE("runs_on: later targets run earlier code, but for architecture-specific code") {
  static_assert(runs_on(Sm::sm_75, Sm::sm_75));
  static_assert(runs_on(Sm::sm_75, Sm::sm_90a));
  static_assert(runs_on(Sm::sm_90, Sm::sm_90a));
  static_assert(!runs_on(Sm::sm_80, Sm::sm_75));
  static_assert(runs_on(Sm::sm_90a, Sm::sm_90a));
  static_assert(!runs_on(Sm::sm_90a, Sm::sm_90));
  static_assert(!runs_on(Sm::sm_90a, static_cast<Sm>(1000)));
  static_assert(runs_on(Sm::sm_90, static_cast<Sm>(1000)));
}

// The build prints the rows with short names in their parsed form.
TEST_CASE("a row that is printed has the operands that its syntax has") {
  const auto is_same = [](const Operand& a, const Operand& b) {
    return a.name == b.name && a.cls == b.cls && a.access == b.access && a.count == b.count &&
           a.list == b.list && a.least == b.least && a.greatest == b.greatest && a.step == b.step &&
           a.doubles == b.doubles;
  };
  for (const Row& row : rows()) {
    CAPTURE(row.name);
    const Operands read = parse(row.syntax);
    CHECK(std::equal(read.begin(), read.end(), row.operands.begin(), row.operands.end(), is_same));
    REQUIRE(read.hole_count == row.operands.hole_count);
    for (size_t i = 0; i < read.hole_count; ++i) {
      CHECK(read.holes[i].operand == row.operands.holes[i].operand);
      CHECK(read.holes[i].begin == row.operands.holes[i].begin);
      CHECK(read.holes[i].end == row.operands.holes[i].end);
    }
  }
}

TEST_CASE("the table: names are unique and found, floors are those of known targets") {
  std::set<std::string_view> names;
  for (const Row& row : rows()) {
    CAPTURE(row.name);
    CHECK(names.insert(row.name).second);
    CHECK(find(row.name) == &row);
    CHECK(row.syntax.ends_with(';'));
    CHECK(row.syntax.find(';') == row.syntax.size() - 1);  // one instruction
    CHECK(row.ptx_version >= row.targets.least().ptx_version);
    CHECK(row.intrinsic.empty() != row.intrinsic.starts_with("llvm.nvvm."));
    if (row.effect == Effect::pure) {  // LLVM would drop a row that only reads and has no result
      bool writes = false;
      for (const Operand& o : row.operands) writes |= o.writes();
      CHECK(writes);
    }
  }
  CHECK(find("no_such_row") == nullptr);
  CHECK(find("") == nullptr);
  CHECK(find("mbarrier_init")->mnemonic() == "mbarrier.init.shared::cta.b64");
  CHECK(find("trap")->mnemonic() == "trap");
}

namespace {

struct Types {
  DType d, a, b;
  auto operator<=>(const Types&) const = default;
};

// PTX ISA, "Matrix Data-types" of wgmma, except for single bits.
const std::set<Types> kTypes = [] {
  using enum DType;
  std::set<Types> all = {{f16, f16, f16}, {f32, f16, f16}, {f32, bf16, bf16}, {f32, tf32, tf32}};
  for (DType d : {f16, f32})
    for (DType a : {e4m3, e5m2})
      for (DType b : {e4m3, e5m2}) all.insert({d, a, b});
  for (DType a : {s8, u8})
    for (DType b : {s8, u8}) all.insert({s32, a, b});
  return all;
}();

const std::set<int> kIntegerWidths = {8,   16,  24,  32,  48,  64,  80,  96,  112,
                                      128, 144, 160, 176, 192, 208, 224, 240, 256};

void check_wgmma(const Row& row, const WgmmaForm& f) {
  CAPTURE(row.name);
  CHECK(find(row.name) == &row);
  const MadeRow typed = detail::wgmma_mma_async_row(f);  // the row of a typed call
  CHECK(typed.name.view() == row.name);
  CHECK(typed.syntax.view() == row.syntax);
  std::string k = std::to_string(32 / size_of(f.a)), n = std::to_string(f.n);
  CHECK(row.mnemonic() == "wgmma.mma_async.sync.aligned.m64n" + n + "k" + k + "." + std::string(name(f.d)) +
                              "." + std::string(name(f.a)) + "." + std::string(name(f.b)) +
                              (f.satfinite ? ".satfinite" : ""));
  bool floating = f.d != DType::s32, half = size_of(f.a) == 2;
  REQUIRE(row.operands.size() == 4 + 2 * floating + half * (f.a_in_registers ? 1u : 2u));
  const Operand& accumulators = row.operands[0];
  CHECK(accumulators.access == Access::read_write);
  CHECK(name(accumulators.cls) == (f.d == DType::f16 ? "b32" : name(f.d)));
  // 128 threads hold 64 n elements; a register holds two f16.
  CHECK(accumulators.count == (f.d == DType::f16 ? 64 * f.n / 128 / 2 : 64 * f.n / 128));
  CHECK(row.operands[1].cls == (f.a_in_registers ? Class::b32 : Class::b64));
  CHECK(row.operands[1].count == (f.a_in_registers ? 4 : 1));
  CHECK(row.operands[2].cls == Class::b64);
  CHECK(row.operands[3].cls == Class::pred);
  if (floating) CHECK(row.operands[4].step == 2);  // -1 or 1
  CHECK((row.operands[row.operands.size() - 1].name == "trans_b") == half);
  CHECK(row.targets == Sm::sm_90a);
  CHECK(row.effect == Effect::memory);
}

}  // namespace

TEST_CASE("wgmma: every n of every type, and no other") {
  int members = 0, refused = 0;
  for (const Types& t : kTypes)
    for (bool a_in_registers : {false, true})
      for (bool satfinite : {false, true})
        for (int n = -8; n <= 272; n += 4) {
          WgmmaForm form = {t.d, t.a, t.b, n, a_in_registers, satfinite};
          bool integer = t.d == DType::s32;
          bool width = integer ? kIntegerWidths.count(n) != 0 : n >= 8 && n <= 256 && n % 8 == 0;
          CHECK(wgmma_has_width(t.d, n) == width);
          bool legal = width && (integer || !satfinite);
          if (legal) {
            check_wgmma(wgmma_mma_async(form), form);
            ++members;
          } else {
            CHECK(error_of([&] { wgmma_mma_async(form); }) != "");
            ++refused;
          }
        }
  // CUTLASS has 528 of them without single bits, each with A from shared memory and from registers.
  CHECK(members == 2 * 528);
  CHECK(refused > 1000);
  for (int n : kIntegerWidths)
    for (bool a_in_registers : {false, true}) {
      const Row& row = wgmma_mma_async_bits({n, a_in_registers});
      CHECK(row.mnemonic() ==
            "wgmma.mma_async.sync.aligned.m64n" + std::to_string(n) + "k256.s32.b1.b1.and.popc");
      CHECK(row.operands.size() == 4);
      ++members;
    }
  int rows_of_the_family = 0;
  for (const Row& row : rows()) rows_of_the_family += row.name.starts_with("wgmma_mma_async");
  CHECK(rows_of_the_family == members);
}

TEST_CASE("wgmma: refused forms, and the reasons") {
  using enum DType;
  for (int n : {0, 4, 12, 264, -8}) {
    CAPTURE(n);
    std::string text = error_of([&] { wgmma_mma_async({f32, bf16, bf16, n}); });
    CHECK(contains(text, here(__LINE__ - 1)));
    CHECK(contains(
        text,
        fmt::format(
            "wgmma_mma_async: wgmma.mma_async.sync.aligned.m64n{}k16.f32.bf16."
            "bf16 does not exist; n is 8 to 256 in steps of 8 (d = f16 or f32), 8 to 32 in steps of 8 or "
            "48 to 256 in steps of 16 (d = s32)",
            n)));
  }
  CHECK(contains(error_of([] {
                   wgmma_mma_async({s32, s8, u8, 40});
                 }),
                 "m64n40k32.s32.s8.u8 does not exist; n is "));
  CHECK(contains(error_of([] {
                   wgmma_mma_async_bits({40, true});
                 }),
                 "; n is 8 to 32 in steps of 8 or 48 to 256 in steps of 16"));
  CHECK(contains(error_of([] { wgmma_mma_async({.d = f32, .a = f16, .b = f16, .n = 8, .satfinite = true}); }),
                 ".satfinite does not exist; satfinite is false (d = f16 or f32), false or true (d = s32)"));
  for (DType d : {f16, bf16, f32, s32, u32})
    for (DType a : {f16, bf16, tf32, e4m3, e5m2, s8, u8, f32, u32})
      for (DType b : {f16, bf16, tf32, e4m3, e5m2, s8, u8, f32, u32})
        if (!kTypes.count({d, a, b})) {
          const std::string text = error_of([&] { wgmma_mma_async({d, a, b, 64}); });
          CHECK((contains(text, "; d is ") || contains(text, "; a is ") || contains(text, "; b is ")));
        }
}

TEST_CASE("mma.sync: two depths of every type") {
  using enum DType;
  int members = 0;
  for (const Types& t : kTypes)
    for (bool satfinite : {false, true})
      for (int k : {2, 4, 8, 16, 32, 64}) {
        MmaForm form = {t.d, t.a, t.b, k, satfinite};
        int bytes = k * size_of(t.a);
        if ((bytes != 16 && bytes != 32) || (satfinite && t.d != s32)) {
          CHECK(contains(error_of([&] { mma_sync(form); }),
                         bytes == 16 || bytes == 32 ? "; satfinite is " : "; k is "));
          continue;
        }
        const Row& row = mma_sync(form);
        CAPTURE(row.name);
        ++members;
        REQUIRE(row.operands.size() == 4);
        CHECK(row.operands[0].access == Access::write);
        CHECK(row.operands[0].count == (t.d == f16 ? 2 : 4));
        CHECK(row.operands[3].count == row.operands[0].count);
        CHECK(row.operands[1].count == bytes / 8);  // 16 rows of 32 lanes
        CHECK(row.operands[2].count == bytes / 16);
      }
  CHECK(members == 2 * (4 + 8 + 2 * 4));
  int rows_of_the_family = 0;
  for (const Row& row : rows()) rows_of_the_family += row.name.starts_with("mma_sync");
  CHECK(rows_of_the_family == members);
  CHECK(mma_sync({f32, bf16, bf16, 16}).mnemonic() == "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32");
  CHECK(mma_sync({s32, s8, u8, 32, true}).mnemonic() ==
        "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32");
  CHECK(contains(error_of([] {
                   mma_sync({f32, f16, bf16, 16});
                 }),
                 ".f32.f16.bf16.f32 does not exist; b is "));
}

TEST_CASE("bulk reductions: each operation of the types it has, with and without hint") {
  int members = 0;
  for (CopyReduction reduction : kCopyReductions)
    for (DType type : types_of(reduction))
      for (bool hint : {false, true}) {
        const Row& row = cp_reduce_async_bulk({reduction, type, hint});
        CHECK(row.operands.size() == 3u + hint);
        CHECK(contains(row.mnemonic(), fmt::format(".{}.", name(reduction))));
        CHECK(contains(row.syntax, "policy") == hint);
        members += !(type == DType::s32 && reduction >= CopyReduction::bit_and);
      }
  int rows_of_the_family = 0;
  for (const Row& row : rows())
    rows_of_the_family += row.name.starts_with("cp_reduce_async_bulk_") && !contains(row.name, "tensor");
  CHECK(rows_of_the_family == members);
  CHECK(cp_reduce_async_bulk({CopyReduction::add, DType::bf16}).mnemonic() ==
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16");
  CHECK(cp_reduce_async_bulk({CopyReduction::min, DType::f16, true}).mnemonic() ==
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.min.f16");
  CHECK(cp_reduce_async_bulk({CopyReduction::bit_or, DType::s32}).mnemonic() ==
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.or.b32");
  CHECK(contains(error_of([] {
                   cp_reduce_async_bulk({CopyReduction::inc, DType::f32});
                 }),
                 ".inc.f32 does not exist; type is u32 (reduction = inc or dec)"));
}

TEST_CASE("tensor copies: ranks 1 to 5, with and without multicast and hint") {
  int loads = 0, stores = 0, reductions = 0;
  for (const Row& row : rows()) {
    reductions += row.mnemonic().starts_with("cp.reduce.async.bulk.tensor");
    loads += row.mnemonic().starts_with("cp.async.bulk.tensor") && contains(row.name, "_load");
    stores += row.mnemonic().starts_with("cp.async.bulk.tensor") && contains(row.name, "_store");
  }
  CHECK(loads == 5 * 4 + 3 * 2);  // boxes and pixels
  CHECK(stores == 5 * 2);
  CHECK(reductions == 5 * 8 * 2);
  for (int rank = 1; rank <= 5; ++rank) {
    size_t coordinates = static_cast<size_t>(rank);
    for (bool multicast : {false, true})
      for (bool hint : {false, true}) {
        const Row& row = cp_async_bulk_tensor_load({rank, multicast, hint});
        CHECK(row.operands.size() == 3 + coordinates + multicast + hint);
        CHECK(contains(row.mnemonic(), std::to_string(rank) + "d.shared"));
        CHECK(contains(row.syntax, "cta_mask") == multicast);
        CHECK(contains(row.syntax, "policy") == hint);
        CHECK(row.targets == Sm::sm_90);
      }
    const Row& prefetch = cp_async_bulk_tensor_prefetch({rank});
    CHECK(prefetch.operands.size() == 1 + coordinates);
    CHECK(prefetch.mnemonic() == fmt::format("cp.async.bulk.prefetch.tensor.{}d.L2.global", rank));
    for (bool hint : {false, true}) {
      const Row& store = cp_async_bulk_tensor_store({.rank = rank, .cache_hint = hint});
      CHECK(store.operands.size() == 2 + coordinates + hint);
      for (CopyReduction reduction : kCopyReductions) {
        const Row& row = cp_reduce_async_bulk_tensor({rank, reduction, hint});
        CHECK(row.operands.size() == 2 + coordinates + hint);
        CHECK(contains(row.mnemonic(), "cp.reduce.async.bulk.tensor"));
        CHECK(contains(row.syntax, fmt::format("shared::cta.{}.bulk_group", name(reduction))));
      }
    }
  }
  for (int rank : {0, 6, -1}) {
    CAPTURE(rank);
    std::string load = error_of([&] { cp_async_bulk_tensor_load({.rank = rank}); });
    CHECK(contains(load, here(__LINE__ - 1)));
    CHECK(contains(load, "; rank is 1 to 5"));
    std::string prefetch = error_of([&] { cp_async_bulk_tensor_prefetch({rank}); });
    CHECK(contains(prefetch, here(__LINE__ - 1)));
    CHECK(contains(prefetch, "; rank is 1 to 5"));
    std::string store = error_of([&] { cp_async_bulk_tensor_store({rank}); });
    CHECK(contains(store, here(__LINE__ - 1)));
    CHECK(contains(store, "; rank is 1 to 5"));
  }
}

TEST_CASE("matrix moves and conversions") {
  for (int matrices : {1, 2, 4})
    for (bool transposed : {false, true}) {
      const Row& load = ldmatrix({matrices, transposed});
      CHECK(load.operands[0].count == matrices);
      CHECK(load.operands[0].access == Access::write);
      CHECK(contains(load.mnemonic(), ".trans") == transposed);
      const Row& store = stmatrix({matrices, transposed});
      CHECK(store.operands[1].count == matrices);
      CHECK(store.operands[1].access == Access::read);
      CHECK(contains(store.mnemonic(), ".trans") == transposed);
    }
  for (int matrices : {0, 3, 8}) {
    CAPTURE(matrices);
    CHECK(contains(error_of([&] { ldmatrix({matrices}); }), "; matrices is 1, 2 or 4"));
    std::string text = error_of([&] { stmatrix({matrices, true}); });
    CHECK(contains(text, "; matrices is 1, 2 or 4"));
    CHECK(contains(text, here(__LINE__ - 2)));
  }
  CHECK(cvt_pack(DType::f16).mnemonic() == "cvt.rn.f16x2.f32");
  CHECK(cvt_pack(DType::bf16).mnemonic() == "cvt.rn.bf16x2.f32");
  CHECK(cvt_pack(DType::f16).effect == Effect::pure);
  CHECK(cvt_pack(DType::e4m3).mnemonic() == "cvt.rn.satfinite.e4m3x2.f32");
  CHECK(cvt_pack(DType::e5m2).operands[0].cls == Class::b16);
  CHECK(cvt_pack_integer(DType::u8).mnemonic() == "cvt.pack.sat.u8.s32.b32");
  CHECK(contains(error_of([] { cvt_pack(DType::f32); }),
                 "cvt.rn.f32x2.f32 does not exist; to is f16, bf16, e4m3 or e5m2"));
  CHECK(contains(error_of([] { cvt_pack_integer(DType::f16); }), "; to is u8 or s8"));
  CHECK(cvt_f16x2_from(DType::e4m3).mnemonic() == "cvt.rn.f16x2.e4m3x2");
  CHECK(cvt_f16x2_from(DType::e5m2).operands[0].cls == Class::b32);
  CHECK(cvt_f16x2_to(DType::e4m3).mnemonic() == "cvt.rn.satfinite.e4m3x2.f16x2");
  CHECK(cvt_f16x2_to(DType::e5m2).operands[0].cls == Class::b16);
  CHECK(contains(error_of([] { cvt_f16x2_from(DType::bf16); }), "; from is e4m3 or e5m2"));
  CHECK(contains(error_of([] { cvt_f16x2_to(DType::f16); }), "; to is e4m3 or e5m2"));
}

TEST_CASE("copies of contiguous bytes: width and zfill, multicast and hint, policies") {
  for (int bytes : {4, 8, 16})
    for (bool zfill : {false, true}) {
      const Row& row = cp_async({bytes, zfill});
      CAPTURE(row.name);
      CHECK(row.operands.size() == 2u + zfill);
      CHECK(contains(row.mnemonic(), bytes == 16 ? "cp.async.cg." : "cp.async.ca."));
      CHECK(contains(row.syntax, fmt::format("], {}{}", bytes,
                                             zfill ? fmt::format(", {{bytes:u32<0..{}>}};", bytes) : ";")));
    }
  for (int bytes : {0, 1, 2, 12, 32}) {
    CAPTURE(bytes);
    const std::string text = error_of([&] { cp_async({bytes, true}); });
    CHECK(contains(text, here(__LINE__ - 1)));
    CHECK(contains(text, fmt::format("global {}_zfill does not exist; bytes is 4, 8 or 16", bytes)));
  }
  for (bool hint : {false, true}) {
    for (bool multicast : {false, true}) {
      const Row& load = cp_async_bulk_load({multicast, hint});
      CHECK(load.operands.size() == 4u + multicast + hint);
      CHECK(contains(load.mnemonic(), ".multicast::cluster") == multicast);
      CHECK(contains(load.mnemonic(), ".L2::cache_hint") == hint);
    }
    const Row& store = cp_async_bulk_store({hint});
    CHECK(store.operands.size() == 3u + hint);
    CHECK(store.operands[0].cls == Class::gmem);
    CHECK(contains(store.mnemonic(), ".L2::cache_hint") == hint);
  }
  CHECK(createpolicy_evict(Eviction::normal).mnemonic() == "createpolicy.fractional.L2::evict_normal.b64");
  CHECK(createpolicy_evict(Eviction::first).mnemonic() == "createpolicy.fractional.L2::evict_first.b64");
  CHECK(createpolicy_evict(Eviction::last).mnemonic() == "createpolicy.fractional.L2::evict_last.b64");
}

TEST_CASE("synchronization: scopes, and the spaces of a proxy fence") {
  for (Scope scope : {Scope::gpu, Scope::sys}) {
    for (DType type : {DType::u32, DType::u64}) {
      const Row& row = ld_acquire({scope, type});
      CHECK(row.mnemonic() == fmt::format("ld.acquire.{}.global.{}", name(scope), name(type)));
      CHECK(name(row.operands[0].cls) == name(type));
    }
    CHECK(red_release_add(scope).mnemonic() == fmt::format("red.release.{}.global.add.u32", name(scope)));
    CHECK(atom_acquire_cas(scope).mnemonic() == fmt::format("atom.acquire.{}.global.cas.b32", name(scope)));
  }
  for (Scope scope : {Scope::cta, Scope::cluster}) {
    CAPTURE(name(scope));
    CHECK(contains(error_of([&] { ld_acquire({scope, DType::u32}); }), "; scope is gpu or sys"));
    CHECK(contains(error_of([&] { red_release_add(scope); }), "; scope is gpu or sys"));
    const std::string text = error_of([&] { atom_acquire_cas(scope); });
    CHECK(contains(text, "; scope is gpu or sys"));
    CHECK(contains(text, here(__LINE__ - 2)));
  }
  CHECK(contains(error_of([] { ld_acquire({Scope::gpu, DType::f32}); }), "; type is u32 or u64"));
  for (Scope scope : {Scope::cta, Scope::cluster, Scope::gpu, Scope::sys}) {
    const Row& row = fence_acq_rel(scope);
    CHECK(row.mnemonic() == fmt::format("fence.acq_rel.{}", name(scope)));
    CHECK(row.targets == (scope == Scope::cluster ? Sm::sm_90 : Sm::sm_75));
  }
  CHECK(fence_proxy_async(Space::all).mnemonic() == "fence.proxy.async");
  CHECK(fence_proxy_async(Space::shared).mnemonic() == "fence.proxy.async.shared::cta");
  CHECK(fence_proxy_async(Space::global).mnemonic() == "fence.proxy.async.global");
}

TEST_CASE("a row alone in a module") {
  const Target& sm_90 = target(Sm::sm_90);
  std::string text = standalone_module(*find("mbarrier_try_wait_parity"), sm_90, 78);
  CHECK(text.starts_with(".version 7.8\n.target sm_90\n"));
  CHECK(contains(text, ".reg .pred done_<1>;"));
  CHECK(contains(text, ".reg .b32 bar_<1>;"));
  CHECK(contains(text, "mbarrier.try_wait.parity.shared::cta.b64 done_0, [bar_0], parity_0;"));
  text = standalone_module(stmatrix({.matrices = 2}), sm_90, 80);
  CHECK(contains(text, "[p_0], {r_0, r_1};"));
  text = standalone_module(*find("setmaxnreg_inc"), target("sm_90a"), 80);
  CHECK(contains(text, "setmaxnreg.inc.sync.aligned.u32 24;"));
  text = standalone_module(cp_async_bulk_tensor_store({2}), sm_90, 80);
  CHECK(contains(text, "[map_0, {c0_0, c1_0}], [src_0];"));
}

TEST_CASE("element types: kinds") {
  for (int i = 0; i <= static_cast<int>(DType::f64); ++i) {
    const auto type = static_cast<DType>(i);
    const std::string text(name(type));
    CAPTURE(text);
    CHECK(dtype_from_name(text) == type);
    CHECK(is_integer(type) == (text[0] == 'u' || text[0] == 's'));
    CHECK(is_float(type) != is_integer(type));
    CHECK(is_signed(type) == (text[0] == 's'));
    CHECK(is_fp8(type) == (text == "e4m3" || text == "e5m2"));
    CHECK(is_int8(type) == (text == "s8" || text == "u8"));
    CHECK(is_half(type) == (text == "f16" || text == "bf16"));
    CHECK(decode(type, encode(type, greatest(type))) == greatest(type));
  }
}

TEST_CASE("element types: every number of 8 and 16 bits is its own nearest, and a tie goes to the even one") {
  for (DType type : {DType::f16, DType::bf16, DType::e4m3, DType::e5m2}) {
    CAPTURE(name(type));
    const uint64_t sign = uint64_t{1} << (8 * size_of(type) - 1);
    int wrong = 0;
    for (uint64_t code = 0; code < sign; ++code) {
      const double value = decode(type, code);
      if (!std::isfinite(value)) continue;
      wrong += encode(type, value) != code;
      wrong += encode(type, -value) != (code | sign);
      const double next = decode(type, code + 1);
      if (!std::isfinite(next)) continue;
      const double middle = (value + next) / 2;
      wrong += encode(type, middle) != (code & 1 ? code + 1 : code);
      wrong += encode(type, std::nextafter(middle, next)) != code + 1;
      wrong += encode(type, -std::nextafter(middle, value)) != (code | sign);
    }
    CHECK(wrong == 0);
  }
  CHECK(encode(DType::tf32, 1 + 0x1p-11) == 0x3f800000);  // a tie
  CHECK(encode(DType::tf32, 1 + 3 * 0x1p-11) == 0x3f804000);
  CHECK(encode(DType::tf32, 1 + 0x1p-11 + 0x1p-50) ==
        0x3f802000);  // not a tie, although f32 would make it one
  CHECK(encode(DType::tf32, -1 - 3 * 0x1p-11 + 0x1p-50) == 0xbf802000);
  CHECK(decode(DType::tf32, 0x3f803fff) == 1 + 0x1p-10);
  CHECK(encode(DType::f32, 1 + 0x1p-24) == 0x3f800000);
  CHECK(decode(DType::f64, encode(DType::f64, 0.1)) == 0.1);
}

TEST_CASE("element types: numbers that are too great become infinite, or the greatest if cvt saturates") {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  struct Case {
    DType type;
    double value;
    uint64_t bits;
  };
  const Case cases[] = {{DType::f16, 65519, 0x7bff},
                        {DType::f16, 65520, 0x7c00},
                        {DType::f16, -infinity, 0xfc00},
                        {DType::f16, nan, 0x7fff},
                        {DType::bf16, 4e38, 0x7f80},
                        {DType::bf16, nan, 0x7fff},
                        {DType::tf32, -4e38, 0xff800000},
                        {DType::f32, 4e38, 0x7f800000},
                        {DType::e4m3, 448, 0x7e},
                        {DType::e4m3, 1e9, 0x7e},
                        {DType::e4m3, -infinity, 0xfe},
                        {DType::e4m3, nan, 0x7f},
                        {DType::e5m2, 57344, 0x7b},
                        {DType::e5m2, infinity, 0x7b},
                        {DType::e5m2, -1e9, 0xfb},
                        {DType::e4m3, -0.0, 0x80},
                        {DType::e4m3, 0x1p-10, 0},
                        {DType::e4m3, 0x1.8p-10, 1},
                        {DType::s8, 126.5, 126},
                        {DType::s8, 127.5, 127},
                        {DType::s8, -128.5, 0x80},
                        {DType::s8, -1e9, 0x80},
                        {DType::s8, nan, 0},
                        {DType::u8, -1, 0},
                        {DType::u8, 255.5, 255},
                        {DType::u8, 2.5, 2},
                        {DType::s16, -2, 0xfffe},
                        {DType::u16, 65535.4, 65535},
                        {DType::s32, 3e9, 0x7fffffff},
                        {DType::s32, -3e9, 0x80000000},
                        {DType::u32, 4294967295, 0xffffffff},
                        {DType::s64, 1e30, 0x7fffffffffffffff},
                        {DType::s64, -1e30, 0x8000000000000000},
                        {DType::u64, 1e30, ~uint64_t{0}},
                        {DType::u64, 7, 7}};
  for (const Case& c : cases) {
    CAPTURE(name(c.type));
    CAPTURE(c.value);
    CHECK(encode(c.type, c.value) == c.bits);
  }
  CHECK(std::isnan(decode(DType::e4m3, 0xff)));
  CHECK(decode(DType::e4m3, 0x78) == 256);
  CHECK(decode(DType::e5m2, 0xfc) == -infinity);
  CHECK(std::isnan(decode(DType::e5m2, 0x7d)));
  CHECK(decode(DType::s16, 0xfffe) == -2);
  CHECK(decode(DType::u64, ~uint64_t{0}) == 0x1p64);
}

TEST_CASE("a tool can query a row's operands, effects and targets") {
  using isa::Filling, isa::ValueCount;
  const isa::Row& init = isa::rows_def::mbarrier_init;
  const isa::Row& arrive = isa::rows_def::fence_mbarrier_init;
  CHECK(isa::validate(init, std::vector<Filling>{ValueCount{}, int64_t{3}}).empty());
  CHECK(isa::validate(init, std::vector<Filling>{ValueCount{}}) ==
        fmt::format("mbarrier_init: takes 2 operands, but 1 was given, in \"{}\"", init.syntax));
  CHECK(isa::validate(init, std::vector<Filling>{int64_t{64}, int64_t{3}})
            .starts_with("mbarrier_init: operand 'bar' is a smem register, but the number 64 was given"));
  for (const isa::Row& row : isa::rows()) {
    const isa::RowUse use = isa::uses(row);
    REQUIRE(use.operands.size() == row.operands.size());
    CHECK(use.stays == (row.effect == isa::Effect::memory));
    for (const isa::OperandUse& o : use.operands) {
      const isa::Operand& operand = row.operands[o.operand];
      CHECK((o.reads || o.writes));
      CHECK(o.reads == operand.reads());
      CHECK(o.writes == operand.writes());
      if (o.is_address) CHECK(operand.cls != isa::Class::imm);
    }
    CHECK(isa::refusal(row, row.targets.least(), row.ptx_version).empty());
    if (const isa::Target* before = isa::target_before(row.targets.least().sm))
      CHECK(isa::refusal(row, *before, row.ptx_version).ends_with("change the target"));
    CHECK(isa::refusal(row, row.targets.least(), row.ptx_version - 1).ends_with("raise it"));
  }
  const isa::RowUse use = isa::uses(init);
  CHECK(use.operands[0].is_address);
  CHECK_FALSE(use.operands[1].is_address);
  CHECK(isa::refusal(arrive, isa::target("sm_80"), 80) ==
        "fence_mbarrier_init: needs sm_90, but the target is sm_80: change the target");
  CHECK(isa::refusal(arrive, isa::target("sm_90a"), 78) ==
        "fence_mbarrier_init: needs PTX 8.0, but the module's .version is 7.8: raise it");
}

}  // namespace ptxbuilder::test::isa_test
